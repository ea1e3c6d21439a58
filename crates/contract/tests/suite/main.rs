//! The list of cases, and that the suites of single ports bite.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod documents;
mod limiter;
mod list;
mod quota;
mod records;
