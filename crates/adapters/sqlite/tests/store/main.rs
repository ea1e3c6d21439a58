//! The store on a file: what its own ports promise, and what disks and processes do to it.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backup;
mod caller;
mod clock;
mod common;
mod cost;
mod differential;
mod earlier;
mod engine;
mod files;
#[path = "../folder/mod.rs"]
mod folder;
mod kept;
mod keys;
mod processes;
mod restored_keys;
