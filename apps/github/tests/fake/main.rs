//! The rules of the fake GitHub.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what they rely on"
)]

mod answers;
mod faults;
mod http;
mod limits;
mod support;
mod world;
