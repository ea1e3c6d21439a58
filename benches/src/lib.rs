//! Measures of the engine under load, which `cargo xtask bench` and `clinch bench` share.
//!
//! A benchmark builds an engine on its own store ([`Node`]). [`Load`] submits to it and measures
//! the time, [`Provider`] answers at once, [`limits`] measures the best that the machine can do,
//! and [`database`] runs all of this on a database server.
#![forbid(unsafe_code)]

pub mod database;
mod fill;
mod folder;
pub mod limits;
mod load;
mod node;
mod provider;
mod report;

pub use fill::{History, fill};
pub use folder::Folder;
pub use load::{Amount, Load, percentile};
pub use node::{DOMAIN, FullStore, Node, routes};
pub use provider::{LatencyProvider, Provider, micros};
pub use report::{Bounds, Report};
