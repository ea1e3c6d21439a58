//! Clinch contract suite.
#![forbid(unsafe_code)]

mod subject;

pub use subject::{Capabilities, Control, Fault, LockPorts, StorePorts, Subject};
