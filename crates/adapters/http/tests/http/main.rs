//! The HTTP executor against real sockets on loopback.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests panic too"
)]

mod answers;
mod egress;
mod getter;
mod limits;
mod pool;
mod probe;
mod sent;
mod support;
mod tls;
mod trouble;
