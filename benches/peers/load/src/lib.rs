//! The same jobs and the same measures for Clinch and for every peer.
//!
//! A system under test implements [`Queue`]. [`main`] runs one round of measures on it and prints a
//! line `NAME VALUE` for each figure. Every round is a process of its own.
#![forbid(unsafe_code)]

mod counter;
mod job;
mod measure;
mod program;
mod queue;

/// The allocator of `clinch`, for every system that is measured in Rust.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use counter::Counter;
pub use job::Job;
pub use measure::{CALLERS, CHUNK, percentile, round};
pub use program::{Arguments, main};
pub use queue::{Failure, Queue, Result, Tuning, ensure, wait_for};
