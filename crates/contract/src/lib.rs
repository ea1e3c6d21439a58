//! Clinch contract suite.
#![forbid(unsafe_code)]
