//! Clinch in-memory reference adapter.
#![forbid(unsafe_code)]
