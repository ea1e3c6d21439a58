//! Clinch makes a call to a system you do not control end exactly one way.
//!
//! A [`Route`] names a kind of call: its domain, its event type, whether it may be repeated
//! ([`Safety`](policy::Safety)), how it is retried and protected. A handler is an async function over a serde type.
//! [`Clinch::builder`] combines routes, handlers and a [`Backend`]. [`Clinch::start`] accepts a
//! [`Request`](types::Request) once for its keys and waits up to a time budget: the operation is settled within it
//! (answer 200), or not yet (answer 202, the work continues).
//!
//! ```
//! use std::time::Duration;
//! use clinch::types::Settled;
//! use clinch::{Backend, Call, Clinch, Done, Refusal, Retry, Route};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! // May be repeated for a day under the same key: the provider remembers it.
//! let charge: Route<u64, String> = Route::new("payments", "charge").keyed(Duration::from_secs(86_400));
//!
//! let clinch = Clinch::builder()
//!     .backend(Backend::memory())
//!     .handle(&charge, |call: Call<u64>| async move {
//!         if call.input == 0 {
//!             return Err(Refusal::from(Retry::not_applied("nothing to charge yet")));
//!         }
//!         Ok(Done::new(format!("charged {}", call.input)).txn_id("tx_9"))
//!     })
//!     .build()?;
//!
//! let handle = clinch.start(charge.request("order-123", "c0ffee", &5_000), Duration::from_secs(2)).await?;
//! match handle.settled() {
//!     Some(Settled::Completed(done)) => assert_eq!(done.value, "charged 5000"), // 200
//!     Some(Settled::Failed(failure)) => panic!("{}", failure.code),            // 200
//!     Some(_) => panic!("settled long ago, or by another version"),            // 200
//!     None => panic!("still at work"),                                         // 202
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The modules: [`backend`] opens stores and buses, [`types`] has the further types of these
//! calls, [`policy`] the settings of routes and guards, [`ports`] what a program can implement
//! itself, [`testing`] an engine for tests.
#![forbid(unsafe_code)]

pub mod backend;
mod batch;
mod breakers;
mod builder;
mod call;
mod clinch;
mod handle;
mod handler;
mod measure;
mod missing;
pub mod policy;
pub mod ports;
mod refusal;
mod route;
mod safety_net;
mod shared_guards;
mod telemetry;
pub mod testing;
pub mod types;

pub use backend::Backend;
pub use call::{Call, Done};
pub use clinch::Clinch;
pub use clinch_core::{Error, Fail, Result, Retry};
pub use refusal::Refusal;
pub use route::Route;

/// The examples of the README and of the guide are compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../crates/clinch/README.md")]
    struct CrateReadme;
    #[doc = include_str!("../../../docs/guide/compensation.md")]
    struct Compensation;
    #[doc = include_str!("../../../docs/guide/idempotency.md")]
    struct Idempotency;
    #[doc = include_str!("../../../docs/guide/order.md")]
    struct Order;
    #[doc = include_str!("../../../docs/guide/quick-start.md")]
    struct QuickStart;
    #[doc = include_str!("../../../docs/guide/sdk.md")]
    struct Sdk;
    #[doc = include_str!("../../../docs/guide/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/guide/unknown.md")]
    struct Unknown;
}
