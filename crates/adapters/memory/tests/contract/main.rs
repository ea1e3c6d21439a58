//! The in-memory reference passes every suite.
#![forbid(unsafe_code)]

mod application;
mod quota;
mod suite;

use std::process::ExitCode;

use clinch_contract::run_trials;

fn main() -> ExitCode {
    let suites = [suite::trials(), quota::trials(), application::trials()];
    run_trials(suites.into_iter().flatten().collect())
}
