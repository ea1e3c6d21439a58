//! Translates the driver's errors. No type of the driver crosses a port, and no server message
//! either: it may quote a statement and with it a payload.

use std::fmt;

use clinch_core::{Error, ErrorKind};
use mysql_async::Error as Sql;

pub(crate) use clinch_stored::error::{corrupt, unreadable};

/// The cause of an error, without the server's or driver's message text.
#[derive(Debug)]
enum Cause {
    Server(u16, String),
    Driver(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(code, state) => write!(f, "the server's error {code} ({state})"),
            Self::Driver(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Cause {}

fn cause(error: &Sql) -> Cause {
    match error {
        Sql::Server(said) => Cause::Server(said.code, said.state.clone()),
        Sql::Io(error) => Cause::Driver(error.to_string()),
        Sql::Driver(_) => Cause::Driver("the driver gave up the connection".into()),
        Sql::Url(error) => Cause::Driver(error.to_string()),
        Sql::Other(_) => Cause::Driver("the driver refused".into()),
    }
}

/// The error of a failed statement. Nothing was changed: the transaction is rolled back.
pub(crate) fn sql(error: &Sql) -> Error {
    let (kind, message) = meaning(error);
    Error::new(kind, message).caused_by(cause(error))
}

/// The error of a failure after COMMIT was sent: without the server's answer it may have happened.
pub(crate) fn commit(error: &Sql) -> Error {
    if is_lost(error) {
        let message = "the connection was lost during a commit; read back whether it happened";
        return Error::new(ErrorKind::Ambiguous, message).caused_by(cause(error));
    }
    sql(error)
}

fn code(error: &Sql) -> Option<u16> {
    match error {
        Sql::Server(said) => Some(said.code),
        _ => None,
    }
}

/// A deadlock, or a row that changed after a snapshot: the transaction should be run again.
pub(crate) fn is_deadlock(error: &Sql) -> bool {
    matches!(code(error), Some(1213 | 1020))
}

/// A lock was not granted in time.
pub(crate) fn is_lock_timeout(error: &Sql) -> bool {
    code(error) == Some(1205)
}

/// A unique index already holds the value.
pub(crate) fn is_taken(error: &Sql) -> bool {
    code(error) == Some(1062)
}

/// No answer came, or the server said that it is shutting down.
pub(crate) fn is_lost(error: &Sql) -> bool {
    match code(error) {
        Some(code) => matches!(code, 1053 | 1077..=1080 | 1152 | 1158..=1161 | 1184 | 1927),
        None => true,
    }
}

/// The server did not answer in time.
pub(crate) fn no_answer() -> Sql {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// Whether the server did not answer in time: a retry would only take as long again.
pub(crate) fn is_no_answer(error: &Sql) -> bool {
    match error {
        Sql::Io(mysql_async::IoError::Io(error)) => error.kind() == std::io::ErrorKind::TimedOut,
        _ => false,
    }
}

fn meaning(error: &Sql) -> (ErrorKind, &'static str) {
    let Some(code) = code(error) else {
        return (
            ErrorKind::Unavailable,
            "the connection to the database was lost or refused; nothing was changed",
        );
    };
    match code {
        1021 | 1030 | 1037 | 1038 | 1040 | 1041 | 1114 | 1203 | 1226 => (
            ErrorKind::Full,
            "the server is out of disk, memory or connections; nothing was changed",
        ),
        1054 | 1146 | 1305 => (
            ErrorKind::Unsupported,
            "the tables are missing or of another release; run `clinch migrate`",
        ),
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 => (
            ErrorKind::Unavailable,
            "the server refused the user; check its password and grants",
        ),
        1153 => (
            ErrorKind::Invalid,
            "a value is larger than the server accepts; raise its max_allowed_packet",
        ),
        1406 => (
            ErrorKind::Invalid,
            "a value is longer than its column; shorten it",
        ),
        1049 | 1205 | 1213 | 1020 | 1290 | 1317 | 1792 | 1836 | 1969 | 3024 | 3572 => (
            ErrorKind::Unavailable,
            "the server cannot do it now (locked, timed out, read-only or restarting); nothing \
             was changed",
        ),
        1033..=1035 | 1194 | 1712 | 1877 => (
            ErrorKind::Corrupt,
            "the server reports damaged data; check the server's log",
        ),
        _ if is_lost(error) => (
            ErrorKind::Unavailable,
            "the server is shutting down; nothing was changed",
        ),
        _ => (
            ErrorKind::Internal,
            "the server refused a statement; this is a bug in Clinch, or another program \
             changed the tables",
        ),
    }
}
