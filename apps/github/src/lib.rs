//! Collects what GitHub knows of a user.
//!
//! A run is a batch of operations, one for each request to the API. Built on the public API of
//! the crate `clinch` alone.
#![forbid(unsafe_code)]

pub mod fake;
mod transport;

pub use transport::{ApiAnswer, ApiRequest, Broken, Token, Transport};
