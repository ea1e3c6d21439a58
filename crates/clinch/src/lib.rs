//! Clinch makes a call to a system you do not control end exactly one way.
//!
//! A [`Route`] names a kind of call: its domain, its event type, whether it may be repeated
//! ([`Safety`]), how it is retried and protected. A handler is an async function over a serde type.
//! [`Clinch::builder`] combines routes, handlers and a [`Backend`]. [`Clinch::start`] accepts a
//! [`Request`] once for its keys and waits up to a time budget: the operation is settled within it
//! (answer 200), or not yet (answer 202, the work continues).
//!
//! ```
//! use std::time::Duration;
//! use clinch::{Backend, Call, Clinch, Done, Refusal, Retry, Route, Settled};
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
//! The modules behind this facade: [`core`] is the vocabulary and the protocol, [`engine`] the
//! stages of an operation, [`protect`] the guards around a call, [`testing`] an engine for tests.
#![forbid(unsafe_code)]

pub mod backend;
mod batch;
mod builder;
mod call;
mod clinch;
mod handle;
mod handler;
mod refusal;
mod route;
mod safety_net;
mod telemetry;
pub mod testing;

pub use clinch_core as core;
pub use clinch_engine as engine;
pub use clinch_protect as protect;

pub use backend::Backend;
pub use batch::Batch;
pub use builder::Builder;
pub use call::{Call, Done};
pub use clinch::Clinch;
pub use clinch_core::policy::Safety;
pub use clinch_core::{Error, Fail, Failure, OpId, Result, Retry};
pub use handle::{Handle, Settled};
pub use handler::Probed;
pub use refusal::{Classify, Refusal};
pub use route::{Request, Route};
pub use telemetry::{ShownKeys, Telemetry};

/// The examples of the project's README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
