//! The store on a real server: callers' transactions, SQL, plans, kills.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod atomicity;
mod caller;
mod common;
mod cost;
#[path = "../database/mod.rs"]
mod database;
mod differential;
mod horizon;
mod pages;
mod plans;
mod round_trips;
mod sql_function;
mod tables;
