//! Measures of the engine under load, which `cargo xtask bench` and `clinch bench` share.
//!
//! Whoever measures puts an engine together on a store of their own; [`Load`] submits to it
//! and takes the time, [`Provider`] answers at once, and [`limits`]
//! says what the machine could do at best.
#![forbid(unsafe_code)]

pub mod limits;
mod load;
mod provider;

pub use load::{Amount, Load, percentile};
pub use provider::Provider;
