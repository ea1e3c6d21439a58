//! `clinch github` as real processes, on a made-up GitHub that is served over HTTP.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod alone;
mod gone;
mod hub;
mod kinds;
mod mounted;
mod nodes;
mod parts;
mod readers;
mod secrets;
mod served;
mod shadow;
mod singer;
mod stats;
mod stores;
mod support;
mod tables;
mod tenants;
