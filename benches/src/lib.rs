//! Measures of the engine under load, which `cargo xtask bench` and `clinch bench` share.
//!
//! Whoever measures puts an engine together on a store of their own ([`Node`]); [`Load`]
//! submits to it and takes the time, [`Provider`] answers at once, [`limits`] says what the
//! machine could do at best, and [`database`] does all of it on a database server.
#![forbid(unsafe_code)]

pub mod database;
pub mod limits;
mod load;
mod node;
mod provider;
mod report;

pub use load::{Amount, Load, percentile};
pub use node::{DOMAIN, Everything, Node, routes};
pub use provider::{Provider, Watch, micros};
pub use report::{Bounds, Report};
