//! The program as real processes on a real file.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod backup;
mod bench;
mod canary;
mod deploy;
mod doctor;
mod echo;
mod first_day;
#[path = "../follower/mod.rs"]
mod follower;
mod import;
mod local_users;
mod memory;
mod migrate;
mod missing;
mod presence;
mod provider;
mod readme;
mod restarts;
mod serve;
mod status;
mod strangers;
mod support;
