//! Clinch core.
#![forbid(unsafe_code)]
