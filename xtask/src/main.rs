//! Developer commands of Clinch.
#![forbid(unsafe_code)]
fn main() {}
