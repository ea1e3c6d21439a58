//! Every suite of contracts on a real server.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod application;
#[path = "../database/mod.rs"]
mod database;
mod limiter;
mod quota;
mod suite;

use std::process::ExitCode;

use clinch_contract::run_trials;

fn main() -> ExitCode {
    let suites = [
        suite::trials(),
        quota::trials(),
        limiter::trials(),
        application::trials(),
    ];
    run_trials(suites.into_iter().flatten().collect())
}
