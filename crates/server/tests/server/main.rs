//! Real sockets on free ports, the in-memory store, and scripted executors.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops"
)]

mod accept;
mod access;
mod auth;
mod batches;
mod config;
mod config_sections;
mod console;
mod dead_letters;
mod described;
mod ended_keys;
mod harness;
mod in_flight;
mod internal;
mod lease_attacks;
mod leases;
mod limits;
mod operations;
mod overview;
mod secrets;
mod stop;
mod store_down;
mod strangers;
mod system;
mod tenants;
