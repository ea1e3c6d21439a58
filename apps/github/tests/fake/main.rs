//! The rules of the fake GitHub.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what they rely on"
)]

mod answers;
mod changes;
mod commits;
mod faults;
mod http;
mod limits;
mod links;
mod stream_changes;
mod stream_documents;
mod streams;
mod support;
mod world;
