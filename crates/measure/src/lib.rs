//! Measures of the engine under load, which `clinch bench` and the benchmarks share.
//!
//! [`Load`] submits operations to an engine and measures the time, [`Provider`] answers at once,
//! [`limits`] measures the best that the machine can do.
#![forbid(unsafe_code)]

pub mod limits;
mod load;
mod provider;

pub use load::{Amount, Load, percentile};
pub use provider::{LatencyProvider, Provider, micros};
