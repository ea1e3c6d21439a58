//! The facade as its users see it.
#![forbid(unsafe_code)]

mod cap;
mod outage;
mod policies;
mod support;
mod telemetry;
