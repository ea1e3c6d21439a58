//! The bus on NATS JetStream: hints, at least once, on a server of their own.
//!
//! One work-queue stream holds every hint; each topic has a durable pull consumer, so that a
//! worker asks only for what it may run. The server keeps what is published and what is on
//! loan, and this crate adds what the port asks beyond that:
//!
//! - A loan ends on the clock of the process that has it. The server ends it a little later
//!   ([`MARGIN`]) if that process is gone.
//! - A hint with a delay carries its time. Whoever gets it early hands it back until then.
//! - One pull per topic stays at the server while a call waits; it brings one hint, and the
//!   rest is fetched when it rings. Nobody holds hints that nobody asked for.
//!
//! The row is the truth: losing a hint costs latency, a duplicate costs a no-op.
#![forbid(unsafe_code)]

mod address;
mod bus;
mod call;
mod check;
mod clock;
mod depth;
mod dequeue;
mod error;
mod inlet;
mod link;
mod loans;
mod names;
mod pull;
mod reader;
mod settings;
mod shared;
mod topology;
mod wire;

pub use bus::NatsBus;
pub use check::{Finding, Level};
pub use loans::MARGIN;
pub use settings::Settings;
