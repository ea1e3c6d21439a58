//! What the benchmarks of `cargo xtask bench` share.
//!
//! A benchmark builds an engine on its own store ([`Node`]) and measures it with [`Load`],
//! [`Provider`] and [`limits`]; [`database`] runs all of this on a database server.
#![forbid(unsafe_code)]

pub mod database;
mod fill;
mod folder;
mod node;
mod process;
mod report;

pub use clinch_measure::{Amount, LatencyProvider, Load, Provider, limits, micros, percentile};
pub use fill::{History, fill};
pub use folder::Folder;
pub use node::{DOMAIN, FullStore, Node, routes};
pub use process::{peak_memory, processor_time};
pub use report::{Bounds, Report};
