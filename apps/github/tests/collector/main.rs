//! The collector in memory with a fake GitHub, on a clock that tests move.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what they rely on"
)]

mod forged;
mod lab;
mod octokit;
mod property;
mod runs;
mod trouble;
