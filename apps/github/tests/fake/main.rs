//! The rules of the fake GitHub.
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::panic)]

mod answers;
mod faults;
mod http;
mod limits;
mod support;
mod world;
