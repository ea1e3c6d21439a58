//! The contract suite that every storage or bus adapter must pass.
//!
//! The ports of `clinch-core` state their behaviour as bullets on each method; here each
//! bullet is a case. An adapter has one test file with `harness = false` and one call:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use clinch_contract::{Capabilities, Subject, factory, run};
//!
//! # fn open() -> Result<Subject, String> { Err("the adapter's own".into()) }
//! fn main() -> ExitCode {
//!     run("my-adapter", Capabilities::ALL, factory(|| async { open() }))
//! }
//! ```
//!
//! The suite finds its own cases, so an adapter cannot forget one: the [`Capabilities`] that it
//! claims are tested in full, and cases for other capabilities are not listed at all.
//!
//! How a case works:
//!
//! - It gets a fresh, empty [`Subject`] and a runtime of its own, and knows only the ports of the
//!   adapter. Order, receipt ids and the like are checked only where a port promises them.
//! - Time moves only by [`Control::advance`]. No case sleeps, and none compares a timestamp
//!   exactly: the clock of a real server also runs by itself.
//! - The adapter injects faults and crashes ([`Control::arm`], [`Control::crash`]). After a crash a
//!   case works with the reopened instance; it does not only read it.
//! - A failed expectation is an error that says what was promised. A panic is a failure of that
//!   case, and so is a hang: [`HANG_AFTER`] is only a guard, not a measurement.
//!
//! The suite itself is tested too: `tests/broken.rs` runs it against adapters that are wrong in one
//! way each, and names the case that must notice.
#![forbid(unsafe_code)]

mod api_keys;
mod application;
mod calls;
#[macro_use]
mod case;
mod cases;
mod chance;
mod compare;
mod concurrent;
pub mod cost;
mod differ;
pub mod earlier;
mod engine;
mod fixtures;
mod hands;
#[macro_use]
mod port;
mod documents;
mod limiter;
mod quota;
mod records;
mod runner;
pub mod samples;
mod subject;
mod trials;
mod wire;
mod world;

pub use api_keys::api_keys;
pub use application::{ApplicationSubject, application_trials};
pub use calls::{Calls, Changes};
pub use case::{BoxFuture, Case, Failure, Need};
pub use cases::cases;
pub use clinch_stored::Fault;
pub use differ::{Sequences, differ, differ_nowhere};
pub use documents::{DocumentsSubject, SinkAbilities, documents_cases};
pub use hands::moved_by;
pub use limiter::{
    LimiterCase, LimiterControl, LimiterFactory, LimiterSubject, check_limiter, limiter_cases,
    limiter_trials,
};
pub use port::{FailNext, PortCase, PortFactory, check_port, port_factory, port_trials};
pub use quota::{
    QuotaCase, QuotaControl, QuotaFactory, QuotaSubject, check_quota, quota_cases, quota_trials,
};
pub use records::{RecordsSubject, records_cases};
pub use runner::{Factory, HANG_AFTER, check, check_within, contract_trials, factory, run};
pub use subject::{Capabilities, Control, StorePorts, Subject};
pub use trials::{plain_trials, run_trials, unless};
