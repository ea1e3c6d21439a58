//! The collector before a fake GitHub, in memory, on a clock that moves when it is told to.
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
