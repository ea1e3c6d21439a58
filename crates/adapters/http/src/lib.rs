//! The HTTP executor: makes a route's calls by configuration, without code.
//!
//! A [`HttpRoute`] says what to call and how to interpret answers. [`HttpExecutor`] makes the calls
//! over a shared [`HttpClient`], and [`HttpProbe`] asks what became of a call. Three rules come
//! first:
//!
//! - **An honest outcome.** A call is "not applied" only if it provably never left, or if the
//!   provider itself answers so; everything else is unknown. The table is in [`HttpExecutor`].
//! - **No forbidden address.** Every address is checked by [`Egress`] at the moment it is dialled,
//!   and exactly the checked address is dialled. Redirects are never followed.
//! - **No leak.** Header values, payloads and answers appear in no error, no failure text and no
//!   `Debug`.
//!
//! Read it in the order of a call: [`HttpRoute`] is checked once and becomes a request; the
//! client finds or opens a connection; the answer becomes an outcome.
#![forbid(unsafe_code)]

mod answer;
mod body;
mod cause;
mod client;
mod egress;
mod executor;
mod getter;
mod gzip;
mod nearest;
mod outlook;
mod plan;
mod poster;
mod probe;
mod request;
mod retry_after;
mod route;
mod secrets;
mod selector;
mod target;
mod template;
mod trace;

pub use client::{HttpClient, HttpClientBuilder, Network, SystemNetwork};
pub use egress::{AddressKind, Egress, Reach, kind_of};
pub use executor::HttpExecutor;
pub use getter::{Getter, Got, Unanswered};
pub use outlook::Outlook;
pub use poster::Poster;
pub use probe::HttpProbe;
pub use route::{HttpMethod, HttpRoute, ProbeRoute, RESPONSE_BYTES_MAX};
pub use secrets::{Secrets, SystemSecrets, reveal};
