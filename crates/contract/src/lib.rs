//! The suite that any storage or bus adapter must pass.
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
//! The suite finds its own cases, so an adapter cannot forget one: what [`Capabilities`]
//! claims is tested in full, what it does not claim is not listed at all.
//!
//! How a case works:
//!
//! - It gets a fresh, empty [`Subject`] and a runtime of its own, and knows nothing of the
//!   adapter but the ports. Order, ids of receipts and the like are looked at only where a
//!   port promises them.
//! - Time moves by [`Control::advance`] alone. No case sleeps, and none compares a moment
//!   exactly: the clock of a real server also runs on its own.
//! - Faults and crashes are asked of the adapter ([`Control::arm`], [`Control::crash`]). A
//!   crash is followed by work on the reopened instance, never just by a look at it.
//! - A failed expectation is an error that says what was promised. A panic is a failure of
//!   that case, and so is a hang: [`HANG_AFTER`] is a guard, nothing is measured by it.
//!
//! That the suite bites is tested too: `tests/broken.rs` runs it against adapters that are
//! wrong in one way each, and names the case that must notice.
#![forbid(unsafe_code)]

mod api_keys;
mod application;
#[macro_use]
mod case;
mod cases;
mod chance;
mod compare;
mod concurrent;
mod differ;
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
pub use subject::{Capabilities, Control, LockPorts, StorePorts, Subject};
pub use trials::{plain_trials, run_trials, unless};
