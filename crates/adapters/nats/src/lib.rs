//! The bus on NATS JetStream: carries hints at least once, on a server of its own.
//!
//! One work-queue stream holds every hint. Each topic has a durable pull consumer, so that a worker
//! asks only for hints it may run. The server keeps published hints and loans. This crate adds what
//! the port requires beyond that:
//!
//! - A loan ends on the clock of the process that holds it. If that process is gone, the server
//!   ends the loan a little later ([`MARGIN`]).
//! - A hint with a delay carries its time. A process that gets it early hands it back until then.
//! - One pull per topic stays at the server while a call waits. It returns one hint, and then the
//!   rest is fetched. No process holds hints that it did not ask for.
//!
//! The row is the truth: a lost hint costs latency, a duplicate changes nothing.
#![forbid(unsafe_code)]

mod address;
mod bus;
mod call;
mod check;
mod clock;
mod depth;
mod dequeue;
mod error;
mod link;
mod loans;
mod names;
mod pull;
mod reader;
mod settings;
mod shared;
mod topic_consumer;
mod topology;
mod wire;

pub use bus::NatsBus;
pub use check::{Finding, Level};
pub use loans::MARGIN;
pub use settings::Settings;
