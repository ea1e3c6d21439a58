//! The guarantees of ADR-010, with real `clinch serve` processes on PostgreSQL and MariaDB.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod claims;
mod dead_letters;
mod http;
mod integrity;
mod metrics;
mod path;
mod payloads;
#[path = "../api/provider.rs"]
mod provider;
mod roles;
#[expect(dead_code, reason = "the tests on files use the rest")]
#[path = "../processes/support.rs"]
mod support;
mod world;
mod zombies;
