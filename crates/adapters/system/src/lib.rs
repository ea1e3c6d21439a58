//! Ports on the operating system: [`SystemClock`], [`SystemIds`] and [`SystemRng`],
//! [`TokioSpawner`], and [`FileJournal`], the small file that outlives its process.
//!
//! Everything here implements a port of [`clinch_core::ports`] on the standard library and tokio. A
//! simulation brings its own implementations and uses none of these.
#![forbid(unsafe_code)]

mod clock;
mod ids;
mod journal;
mod tasks;

pub use clock::SystemClock;
pub use ids::{SystemIds, SystemRng};
pub use journal::{FileJournal, RECORD_BYTES_MAX};
pub use tasks::TokioSpawner;
