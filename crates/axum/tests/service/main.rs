//! Durable endpoints with the semantics of HTTP.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod endpoints;
mod layer;
mod outcomes;
mod processes;
mod refusals;
mod restart;
mod socket;
mod support;
