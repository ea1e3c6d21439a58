//! Translates the driver's errors: no type of the driver crosses a port.

use clinch_core::{Error, ErrorKind};
use rusqlite::ErrorCode;

pub(crate) use clinch_stored::error::{corrupt, unreadable};

/// The error of a failed statement. Nothing was changed: the transaction is rolled back.
pub(crate) fn sql(error: rusqlite::Error) -> Error {
    let (kind, message) = meaning(&error);
    Error::new(kind, message).caused_by(error)
}

/// The error of a failed COMMIT. A disk that reports an error may have written the commit all the
/// same.
pub(crate) fn commit(error: rusqlite::Error) -> Error {
    let unclear = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure) | None
    );
    if unclear {
        let message = "the disk failed during a commit; read back whether it happened";
        return Error::new(ErrorKind::Ambiguous, message).caused_by(error);
    }
    sql(error)
}

fn meaning(error: &rusqlite::Error) -> (ErrorKind, &'static str) {
    use ErrorCode as Code;
    match error.sqlite_error_code() {
        // SQLite returns `FileLockingProtocolFailed` after many tries, while another process holds
        // a lock of the log.
        Some(Code::DatabaseBusy | Code::DatabaseLocked | Code::FileLockingProtocolFailed) => (
            ErrorKind::Unavailable,
            "the file is locked by another process; try again, and look for a process that is stopped or has a transaction open",
        ),
        Some(Code::OperationInterrupted | Code::OperationAborted) => (
            ErrorKind::Unavailable,
            "SQLite aborted a statement; nothing was changed, try again",
        ),
        Some(Code::DiskFull) => (
            ErrorKind::Full,
            "the disk is full; nothing was written, free some space",
        ),
        Some(Code::ReadOnly) => (
            ErrorKind::Unavailable,
            "the file or its file system is read-only; nothing was written",
        ),
        Some(Code::CannotOpen) => (
            ErrorKind::Unavailable,
            "the file cannot be opened; check that its folder exists and may be written",
        ),
        Some(Code::PermissionDenied) => (
            ErrorKind::Unavailable,
            "this user has no permission to read or write the file",
        ),
        Some(Code::DatabaseCorrupt) => {
            (ErrorKind::Corrupt, "the file is damaged; restore a backup")
        }
        Some(Code::NotADatabase) => (
            ErrorKind::Corrupt,
            "the file is not a SQLite database, or its first page is damaged",
        ),
        Some(Code::SystemIoFailure) => (
            ErrorKind::Unavailable,
            "the disk failed; nothing was changed, check the system log",
        ),
        Some(Code::OutOfMemory) => (
            ErrorKind::Unavailable,
            "SQLite is out of memory; nothing was changed",
        ),
        Some(Code::TooBig) => (
            ErrorKind::Invalid,
            "a value is larger than SQLite stores (1 GB)",
        ),
        _ => (
            ErrorKind::Internal,
            "SQLite refused a statement; this is a bug in Clinch, or another program changed the tables",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_7_locks_of_a_process_that_is_stopped_are_unavailable() {
        use rusqlite::ffi;
        let codes = [
            ffi::SQLITE_BUSY,
            ffi::SQLITE_BUSY_RECOVERY,
            ffi::SQLITE_BUSY_SNAPSHOT,
            ffi::SQLITE_LOCKED,
            ffi::SQLITE_PROTOCOL,
            ffi::SQLITE_INTERRUPT,
            ffi::SQLITE_IOERR_LOCK,
        ];
        for code in codes {
            let failed = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            assert_eq!(sql(failed).kind(), ErrorKind::Unavailable, "{code}");
        }
    }
}
