//! Durable calls behind [axum].
//!
//! - [`Api`] and [`Endpoint`] put a route, its handler and its HTTP endpoint in one place.
//! - [`Answer`] turns the result of [`Clinch::start`](clinch::Clinch::start) into a response: 200
//!   with the result, 202 with a status URL, or a problem document (RFC 9457).
//! - [`IdempotencyKey`] and [`PreferWait`] extract the two headers that such an endpoint reads.
//! - [`Statuses`] serves the status URLs.
//! - [`Idempotent`] makes an existing service idempotent: the same key gives the same response
//!   again.
//!
//! ```
//! use std::time::Duration;
//! use axum::extract::Path;
//! use clinch::{Backend, Call, Clinch, Retry, Route};
//! use clinch_axum::{Api, Endpoint};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! let day = Duration::from_secs(86_400);
//! let cancel: Route<String, u64> = Route::new("payments", "cancel").keyed(day);
//! // From the request: the business object, and the input of the call.
//! let read = |Path(payment): Path<String>| (payment.clone(), payment);
//! let endpoint = Endpoint::post("/payments/{payment}/cancel", cancel, read)
//!     .handle(|call: Call<String>| async move { Ok::<_, Retry>(call.input.len() as u64) });
//! let builder = Clinch::builder().backend(Backend::memory());
//! let (clinch, router) = Api::new("/operations").endpoint(endpoint).build(builder)?;
//! // Retries and recovery: tokio::spawn(async move { clinch.run().await });
//! // axum::serve(listener, router).await
//! # let _ = (clinch, router);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod answer;
mod endpoint;
mod headers;
mod idempotent;
mod problem;
mod statuses;

pub use answer::Answer;
pub use endpoint::{Api, Endpoint, Target};
pub use headers::{IdempotencyKey, PreferWait};
pub use idempotent::{Execution, Idempotent, IdempotentLayer, IdempotentService};
pub use problem::Problem;
pub use statuses::Statuses;

/// The examples of the guide are compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/guide/axum.md")]
    struct BehindAxum;
}
