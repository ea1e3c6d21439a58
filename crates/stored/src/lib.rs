//! Code that all stores share: formats that are the same on every disk, and the parts of a port's
//! work that need no database.
//!
//! Nothing here knows SQL. A store owns its tables, its statements and its transactions.

#![forbid(unsafe_code)]

mod batches;
pub mod change;
pub mod codec;
pub mod commit;
pub mod error;
mod fault;
pub mod json;
pub mod ledger;
pub mod letters;
pub mod names;
mod needs;
mod news;
mod page;
pub mod presence;
pub mod receipts;

pub use batches::BatchPage;
pub use fault::{Fault, Faults};
pub use needs::Needs;
pub use news::{News, wait_for};
pub use page::Filling;
