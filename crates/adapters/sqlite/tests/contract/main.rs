//! Every suite of contracts on a file.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod application;
#[path = "../folder/mod.rs"]
mod folder;
mod suite;

use std::process::ExitCode;

use clinch_contract::run_trials;

fn main() -> ExitCode {
    let suites = [suite::trials(), application::trials()];
    run_trials(suites.into_iter().flatten().collect())
}
