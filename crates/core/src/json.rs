//! Strict reading and canonical writing of JSON.
//!
//! A payload is accepted once and then compared, hashed, stored and sent many times, so its text
//! must have only one meaning. [`parse`] refuses text that two readers could understand differently
//! (duplicate members, integers that a double cannot hold). [`canonical`] writes a value in the one
//! form of RFC 8785 (JCS).
//!
//! For every `v` that `parse` accepts, `parse(canonical(v))` is accepted too and gives the same
//! JSON value. Numbers are IEEE 754 doubles, as in the RFC: `1`, `1.0` and `1e0` are one value, and
//! digits past a double's precision do not count.

mod canonical;
mod parse;

pub use canonical::canonical;
pub use parse::parse;

/// Deepest nesting of arrays and objects. It bounds the stack for recursion, here and in every
/// later reader of the payload.
pub const DEPTH_MAX: usize = 128;

/// Largest integer, either side of zero, that I-JSON (RFC 7493) takes to be exact: 2^53 − 1.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Why a text was refused, and at which byte.
///
/// Never contains any of the text, neither values nor member names: payloads may be secret, and
/// errors are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {offset}")]
pub struct JsonError {
    /// What is wrong.
    pub problem: JsonProblem,
    /// Offset of the problem in bytes.
    pub offset: usize,
}

/// What is wrong with a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonProblem {
    /// This was expected, but the text has something else there, or ends.
    #[error("expected {0}")]
    Expected(&'static str),
    /// Something follows the value.
    #[error("characters after the end of the value")]
    Trailing,
    /// An object names a member twice, perhaps in two spellings.
    #[error("duplicate member name")]
    DuplicateName,
    /// A member name that serde_json reserves for itself.
    #[error("reserved member name")]
    ReservedName,
    /// A whole number that some readers would round.
    #[error("integer outside ±(2^53 - 1); send it as a string")]
    IntegerRange,
    /// A number that no double can hold.
    #[error("number too large for a double")]
    NotFinite,
    /// Half of a surrogate pair.
    #[error("lone surrogate escape")]
    LoneSurrogate,
    /// A backslash that begins no escape.
    #[error("unknown escape")]
    Escape,
    /// A control character in a string without an escape.
    #[error("unescaped control character in a string")]
    Control,
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("nesting deeper than 128")]
    TooDeep,
}
