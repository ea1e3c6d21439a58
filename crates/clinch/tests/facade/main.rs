//! The facade as its users see it.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod budgets;
mod bursts;
mod cap;
mod examples;
mod leases;
mod missing;
mod narrow;
mod outage;
mod pauses;
mod policies;
mod probes;
mod root;
mod shared;
mod shedding;
mod support;
mod telemetry;
mod waits;
