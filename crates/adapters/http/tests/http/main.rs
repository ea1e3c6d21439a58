//! The HTTP executor against real sockets on loopback.

mod answers;
mod egress;
mod limits;
mod pool;
mod probe;
mod sent;
mod support;
mod tls;
mod trouble;
