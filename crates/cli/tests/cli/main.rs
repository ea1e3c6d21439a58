//! The real binary against a scripted server that speaks the documents of the API.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests may panic, as tests do"
)]

mod bulk;
mod dlq;
mod documents;
mod errors;
mod ops;
mod pty;
mod queues;
mod run;
mod secrets;
mod server;
mod status;
mod submit;
mod tables;
mod terminal;
mod tls;
mod watch;
