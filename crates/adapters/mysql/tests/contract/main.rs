//! Every suite and test of the store, on real MariaDB servers. Without MariaDB they show as
//! ignored; with `CI=true` they fail.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod application;
mod atomicity;
mod caller;
mod commit;
mod common;
mod cost;
mod deadlocks;
mod differential;
mod migrations;
mod pages;
mod procedure;
mod suite;

use std::process::ExitCode;

use clinch_contract::{run_trials, unless};
use clinch_testbed::Kind;

fn main() -> ExitCode {
    let all = [
        suite::trials(),
        application::trials(),
        atomicity::trials(),
        caller::trials(),
        commit::trials(),
        cost::trials(),
        deadlocks::trials(),
        differential::trials(),
        migrations::trials(),
        pages::trials(),
        procedure::trials(),
    ];
    let trials = all.into_iter().flatten().collect();
    run_trials(unless(Kind::MariaDb.lack(), trials))
}
