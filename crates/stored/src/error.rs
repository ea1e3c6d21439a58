//! Errors of stored values that cannot be read back.

use clinch_core::{Error, ErrorKind, Invalid};

/// A stored value is not one that an adapter of Clinch writes.
pub fn corrupt(what: &'static str) -> Error {
    let message = "a stored value is not one that this adapter writes; restore a backup";
    Error::new(ErrorKind::Corrupt, message).with("value", what)
}

/// The same, for a value that failed validation.
pub fn unreadable(invalid: Invalid) -> Error {
    corrupt("a name or a hash").caused_by(invalid)
}
