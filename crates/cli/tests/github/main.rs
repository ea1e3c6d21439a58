//! `clinch github` as real processes, on a made-up GitHub that is served over HTTP.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod alone;
mod hub;
mod mounted;
mod nodes;
mod secrets;
mod served;
mod stores;
mod support;
