//! One error type for every port.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::Invalid;

/// What went wrong at a port, whether trying again helps, and where. Drivers' own types do
/// not cross a port: adapters translate at their edge. Clones share the underlying error, so
/// that callers who shared a commit can share its failure.
///
/// ```
/// use clinch_core::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Unavailable, "the store does not answer").with("store", "main");
/// assert!(error.is_retryable());
/// ```
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of error that callers tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Not reachable or overloaded now. Nothing was changed.
    Unavailable,
    /// The commit may or may not have happened: read back before acting on it.
    Ambiguous,
    /// No room: disk, quota or a bounded queue. Nothing was changed.
    Full,
    /// Shed because too much due work is waiting; the context says when to try again. Nothing was
    /// changed.
    Shed,
    /// Another writer won a race. Nothing was changed.
    Conflict,
    /// The same keys were accepted with another payload; the context names the operation.
    Mismatch,
    /// An argument of the caller is wrong; the message says what would be right.
    Invalid,
    /// The named thing does not exist.
    NotFound,
    /// This adapter does not support it.
    Unsupported,
    /// Stored data is damaged or was written by other software.
    Corrupt,
    /// A bug or an unexpected answer.
    Internal,
}

impl ErrorKind {
    /// Trying the same again later may succeed. False for `Ambiguous`: read back first.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::Full | Self::Shed | Self::Conflict
        )
    }
}

impl Error {
    /// An error of `kind`; the message says what happened and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            context: Vec::new(),
            source: None,
        }
    }

    /// Adds where it happened. Never a payload or a secret.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.context.push((name, value.to_string()));
        self
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The context that was added under `name`.
    pub fn context(&self, name: &str) -> Option<&str> {
        let found = self.context.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Trying the same again later may succeed.
    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for (i, (name, value)) in self.context.iter().enumerate() {
            let lead = if i == 0 { " (" } else { ", " };
            write!(f, "{lead}{name}={value}")?;
        }
        if !self.context.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl From<Invalid> for Error {
    /// The context names the field.
    fn from(invalid: Invalid) -> Self {
        Self::new(ErrorKind::Invalid, invalid.to_string()).with("field", invalid.field)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The result type of every port.
///
/// ```
/// use clinch_core::{Error, ErrorKind, Result};
///
/// fn find(there: bool) -> Result<u32> {
///     let missing = || Error::new(ErrorKind::NotFound, "there is no such operation");
///     there.then_some(7).ok_or_else(missing)
/// }
/// assert!(find(false).is_err());
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_whether_to_try_again() {
        let error = Error::new(ErrorKind::Unavailable, "the store does not answer")
            .with("op", "begin")
            .with("rows", 3)
            .caused_by(std::fmt::Error);
        assert_eq!(
            error.to_string(),
            "the store does not answer (op=begin, rows=3)"
        );
        assert!(error.is_retryable());
        assert!(error.source().is_some());
        assert!(!ErrorKind::Ambiguous.is_retryable());
    }
}
