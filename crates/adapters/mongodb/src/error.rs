//! The driver's errors as ours: no driver's type crosses a port, and no server's message, which
//! may quote a document.

use std::fmt;

use clinch_core::{Error, ErrorKind};
use mongodb::error::{Error as Driver, ErrorKind as Kind};

/// What the server or the driver said, without its words.
#[derive(Debug)]
struct Cause(String);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cause {}

fn cause(error: &Driver) -> Cause {
    Cause(match error.kind.as_ref() {
        Kind::Command(said) => format!("the server's error {} ({})", said.code, said.code_name),
        Kind::Io(error) => error.to_string(),
        Kind::ServerSelection { .. } => "no server can take it".into(),
        Kind::Authentication { .. } => "the server refused the user".into(),
        Kind::Write(_) => "the server refused a write".into(),
        _ => "the driver gave up".into(),
    })
}

/// Codes of a user who may not do it.
const UNAUTHORIZED: [i32; 3] = [13, 18, 8000];

fn is_refused(error: &Driver) -> bool {
    match error.kind.as_ref() {
        Kind::Authentication { .. } => true,
        Kind::Command(said) => UNAUTHORIZED.contains(&said.code),
        _ => false,
    }
}

/// What a failed read means.
pub(crate) fn read(error: &Driver) -> Error {
    let message = match is_refused(error) {
        true => "MongoDB refused the user; check its password and roles",
        false => "MongoDB does not answer; look at the server and the network",
    };
    Error::new(ErrorKind::Unavailable, message).caused_by(cause(error))
}

/// What a failed write means: unless it was never sent it may have happened, all of it or a
/// part.
pub(crate) fn written(error: &Driver) -> Error {
    let was_sent = !matches!(error.kind.as_ref(), Kind::ServerSelection { .. });
    match was_sent && !is_refused(error) {
        true => half_way().caused_by(cause(error)),
        false => read(error),
    }
}

/// A part may have happened.
pub(crate) fn half_way() -> Error {
    let message = "MongoDB may have done a part of it; the same call again ends it";
    Error::new(ErrorKind::Ambiguous, message)
}

/// What is stored cannot be read as what was written.
pub(crate) fn corrupt() -> Error {
    let message = "a stored document is not one that this adapter writes; name a collection of \
                   its own";
    Error::new(ErrorKind::Corrupt, message)
}
