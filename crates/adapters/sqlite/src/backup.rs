//! Backups while the store is in use.

use std::path::{Path, PathBuf};
use std::thread;

use clinch_core::{Error, ErrorKind, Result};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::open;
use crate::partial::{Partial, failed};
use crate::{Settings, Sqlite, absolute, error, integrity, schema};

/// What to do if the target file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Refuse, and leave the existing file alone.
    Refuse,
    /// Replace the existing file.
    Replace,
}

impl Sqlite {
    /// Writes a copy of the database to `target`. Readers and the writer are not blocked.
    ///
    /// - The copy is a snapshot: it holds everything that was committed before the call.
    /// - It appears under its name only when it is complete, verified and on disk.
    /// - It is marked as a backup: [`Sqlite::open`] refuses it, [`Sqlite::restore`] puts it in
    ///   place.
    /// - A target that exists is `Invalid` unless it may be replaced.
    pub async fn backup(&self, target: impl Into<PathBuf>, existing: Existing) -> Result<()> {
        let (source, target) = (self.path().to_owned(), target.into());
        let settings = self.shared.settings.clone();
        let (reply, done) = oneshot::channel();
        let work = move || {
            // The caller may have stopped waiting.
            let _ = reply.send(Self::copy(&source, &target, existing, &settings));
        };
        let builder = thread::Builder::new().name("clinch-sqlite-backup".into());
        builder.spawn(work).map_err(failed)?;
        let lost = |_| Error::new(ErrorKind::Internal, "the backup panicked");
        done.await.map_err(lost)?
    }

    /// Does the same for a file that this process need not have open. Nothing in the source is
    /// changed, not even an old schema. Blocks the thread.
    pub fn copy(
        source: &Path,
        target: &Path,
        existing: Existing,
        settings: &Settings,
    ) -> Result<()> {
        refuse_itself(source, target)?;
        if existing == Existing::Refuse {
            refuse_existing(target)?;
        }
        let at = |error: Error| error.with("path", source.display());
        let conn = schema::connect_query_only(source, settings).map_err(at)?;
        open::check(&open::header(&conn).map_err(at)?, settings).map_err(at)?;
        conn.pragma_update(None, "query_only", false)
            .map_err(error::sql)?;
        let partial = Partial::begin(target)?;
        let name = partial.path().to_str().ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                "the path of a backup must be UTF-8 text",
            )
        })?;
        conn.execute("VACUUM INTO ?1", [name]).map_err(error::sql)?;
        integrity::mark_backup(&Connection::open(partial.path()).map_err(error::sql)?)?;
        verify(partial.path(), settings)?;
        partial.publish()
    }
}

/// Verifies a file that no other process has open. Afterwards it is a single file, without a log.
pub(crate) fn verify(path: &Path, settings: &Settings) -> Result<()> {
    let conn = Connection::open(path).map_err(error::sql)?;
    let header = open::header(&conn)?;
    if !header.is_ours() {
        let message = "this is not a Clinch database; name a file that `clinch backup` wrote";
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    open::check(&header, settings)?;
    conn.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))
        .map_err(error::sql)?;
    let verdict = conn.pragma_query_value(None, "integrity_check", |row| row.get::<_, String>(0));
    match verdict.map_err(error::sql)?.as_str() {
        "ok" => conn.close().map_err(|(_, error)| error::sql(error)),
        _ => {
            let message = "the copy does not pass the integrity check; keep the last good backup \
                           and check the disk";
            Err(Error::new(ErrorKind::Corrupt, message))
        }
    }
}

/// Refuses a backup over the database that it copies.
fn refuse_itself(source: &Path, target: &Path) -> Result<()> {
    let (source, target) = (absolute(source)?, absolute(target)?);
    let is_part = |suffix: &str| target == crate::partial::with_suffix(&source, suffix);
    if ["", "-wal", "-shm", "-journal", ".wake"]
        .into_iter()
        .any(is_part)
    {
        let message = "the target is the database itself; name another file";
        return Err(Error::new(ErrorKind::Invalid, message).with("path", target.display()));
    }
    Ok(())
}

pub(crate) fn refuse_existing(target: &Path) -> Result<()> {
    if target.exists() {
        let message = "the target file exists; name another file, or move it away";
        return Err(Error::new(ErrorKind::Invalid, message).with("path", target.display()));
    }
    Ok(())
}
