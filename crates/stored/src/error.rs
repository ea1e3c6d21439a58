//! What cannot be read back.

use clinch_core::{Error, ErrorKind, Invalid};

/// What is stored cannot be read as what was written.
pub fn corrupt(what: &'static str) -> Error {
    let message = "a stored value is not one that this adapter writes; restore a backup";
    Error::new(ErrorKind::Corrupt, message).with("value", what)
}

/// The same, where the vocabulary refused the value.
pub fn unreadable(invalid: Invalid) -> Error {
    corrupt("a name or a hash").caused_by(invalid)
}
