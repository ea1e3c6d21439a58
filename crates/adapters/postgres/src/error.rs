//! The driver's errors as ours: no driver's type crosses a port.

use clinch_core::{Error, ErrorKind};
use deadpool::managed::TimeoutType;
use tokio_postgres::error::SqlState;

use crate::connect::PoolError;

pub(crate) use clinch_stored::error::{corrupt, unreadable};

/// What a failed statement means. Nothing was changed: the transaction is rolled back.
pub(crate) fn sql(error: tokio_postgres::Error) -> Error {
    let (kind, message) = meaning(&error);
    Error::new(kind, message).caused_by(error)
}

/// What a failure means once a commit was sent: without the server's word it may have
/// happened.
pub(crate) fn commit(error: tokio_postgres::Error) -> Error {
    if is_lost(&error) {
        let message = "the connection was lost during a commit; read back whether it happened";
        return Error::new(ErrorKind::Ambiguous, message).caused_by(error);
    }
    sql(error)
}

/// A deadlock, a serialization failure, or another call that took the same keys at the same
/// moment: another try sees more.
pub(crate) fn asks_again(error: &tokio_postgres::Error) -> bool {
    let again = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::UNIQUE_VIOLATION,
    ];
    error.code().is_some_and(|code| again.contains(code))
}

/// No answer came, or the server said that it is going away.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        return true;
    };
    let gone = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::DATABASE_DROPPED,
    ];
    gone.contains(code) || code.code().starts_with("08")
}

/// No connection could be had.
pub(crate) fn pool(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) => sql(error),
        PoolError::Timeout(TimeoutType::Create) => {
            Error::new(ErrorKind::Unavailable, "PostgreSQL does not answer")
        }
        PoolError::Timeout(_) => {
            let message = "no connection was free in time; raise the size of the pool or slow down";
            Error::new(ErrorKind::Unavailable, message)
        }
        other => Error::new(ErrorKind::Unavailable, "there is no connection").caused_by(other),
    }
}

fn meaning(error: &tokio_postgres::Error) -> (ErrorKind, &'static str) {
    let Some(code) = error.code() else {
        return (
            ErrorKind::Unavailable,
            "the connection to PostgreSQL was lost or refused; nothing was changed",
        );
    };
    let is_any = |codes: &[SqlState]| codes.contains(code);
    if is_any(&[SqlState::UNIQUE_VIOLATION]) {
        let message = "others take the same keys at the same time; try again";
        return (ErrorKind::Conflict, message);
    }
    if is_any(&[
        SqlState::DISK_FULL,
        SqlState::OUT_OF_MEMORY,
        SqlState::TOO_MANY_CONNECTIONS,
    ]) {
        return (
            ErrorKind::Full,
            "PostgreSQL has no room (disk, memory or connections); nothing was changed",
        );
    }
    if is_any(&[
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
    ]) {
        return (
            ErrorKind::Unsupported,
            "the tables are missing or of another release; run `clinch migrate`",
        );
    }
    if is_any(&[
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
    ]) {
        return (
            ErrorKind::Unavailable,
            "PostgreSQL refused the role; check its password and grants",
        );
    }
    if is_any(&[
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::INVALID_CATALOG_NAME,
    ]) || is_lost(error)
    {
        return (
            ErrorKind::Unavailable,
            "PostgreSQL cannot do it now (locked, timed out, read-only or restarting); nothing \
             was changed",
        );
    }
    if code.code().starts_with("XX") {
        return (
            ErrorKind::Corrupt,
            "PostgreSQL reports damage; look at its log",
        );
    }
    (
        ErrorKind::Internal,
        "PostgreSQL refused a statement; this is a bug of the adapter or a change made behind \
         its back",
    )
}
