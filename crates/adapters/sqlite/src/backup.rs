//! Backups while running, and what a restored file means.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use clinch_core::policy::Routes;
use clinch_core::ports::Clock;
use clinch_core::protocol::Event;
use clinch_core::{Error, ErrorKind, OpId, Result, Timestamp, WorkerId};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::change::Luggage;
use crate::column::Column;
use crate::db::Db;
use crate::error;
use crate::open::{self, Use};
use crate::query::Query;
use crate::tx::Tx;
use crate::{Settings, Sqlite, filesystem};

/// Rows that a restore marks in one commit.
const MARKED_AT_ONCE: usize = 1_000;

/// What a restore did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Open operations, all of them marked: their effect is unknown.
    pub open: usize,
}

impl Sqlite {
    /// Writes a copy of the file as it stands to `target`, which must not exist. Readers and
    /// the writer go on meanwhile.
    ///
    /// - The copy is one moment of the file: everything committed before the call is in it.
    /// - It appears under its name only when it is complete and on disk.
    pub async fn backup(&self, target: impl Into<PathBuf>) -> Result<()> {
        let target = target.into();
        let conn = open::connect(self.path(), &self.shared.settings, Use::Read)?;
        let (reply, done) = oneshot::channel();
        let work = move || {
            // A caller that went away does not need its answer.
            let _ = reply.send(copy(&conn, &target));
        };
        let builder = thread::Builder::new().name("clinch-sqlite-backup".into());
        builder.spawn(work).map_err(failed)?;
        let lost = |_| Error::new(ErrorKind::Internal, "the backup panicked");
        done.await.map_err(lost)?
    }

    /// Makes a file out of a backup, ready to be opened. The backup cannot know what was
    /// called since it was taken, so every open operation is marked: effect unknown.
    ///
    /// - `target` must not exist; it appears under its name only when it is complete.
    /// - Blocks the thread; meant for a command, before anything is started.
    pub fn restore(
        backup: &Path,
        target: &Path,
        settings: &Settings,
        clock: &Arc<dyn Clock>,
        routes: &Routes,
    ) -> Result<Restored> {
        refuse_existing(target)?;
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
        filesystem::check(dir.unwrap_or(Path::new(".")))?;
        let partial = beside(target, ".partial");
        fs::copy(backup, &partial).map_err(failed)?;
        let marked = mark(&partial, settings, clock.now(), routes);
        match marked {
            Ok(restored) => publish(&partial, target).map(|()| restored),
            Err(error) => {
                let _ = fs::remove_file(&partial);
                Err(error)
            }
        }
    }
}

fn copy(conn: &Connection, target: &Path) -> Result<()> {
    refuse_existing(target)?;
    let partial = beside(target, ".partial");
    // Of a backup that was cut short.
    let _ = fs::remove_file(&partial);
    let name = partial
        .to_str()
        .ok_or_else(|| Error::new(ErrorKind::Invalid, "the backup's path must be UTF-8"))?;
    conn.pragma_update(None, "query_only", false)
        .map_err(error::sql)?;
    let copied = conn.execute("VACUUM INTO ?1", [name]);
    if let Err(error) = copied {
        let _ = fs::remove_file(&partial);
        return Err(error::sql(error));
    }
    publish(&partial, target)
}

/// Brings a finished file under its name, on disk.
fn publish(partial: &Path, target: &Path) -> Result<()> {
    let on_disk = || -> io::Result<()> {
        File::open(partial)?.sync_all()?;
        fs::rename(partial, target)?;
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
    };
    on_disk().map_err(failed)
}

/// Marks every open operation of a file that nobody else has open.
fn mark(path: &Path, settings: &Settings, now: Timestamp, routes: &Routes) -> Result<Restored> {
    let mut conn = open::connect(path, settings, Use::Write)?;
    open::migrate(&mut conn, settings)?;
    let by = WorkerId::new("restore");
    let by = by.map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))?;
    let mut open = 0;
    {
        let mut db = Db::new(&conn);
        let rows = db.all(Query::OpenOperations, [], |row| {
            Ok((row.op_id(0)?, row.moment(1)?))
        })?;
        for rows in rows.chunks(MARKED_AT_ONCE) {
            conn.execute_batch("BEGIN IMMEDIATE").map_err(error::sql)?;
            let mut tx = Tx::new(&mut db, now);
            for row in rows {
                mark_one(&mut tx, *row, &by, routes)?;
            }
            tx.finish()?;
            conn.execute_batch("COMMIT").map_err(error::commit)?;
            open += rows.len();
        }
    }
    // One file, without a log beside it.
    let mode = conn.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()));
    mode.map_err(error::sql)?;
    conn.close().map_err(|(_, error)| error::sql(error))?;
    Ok(Restored { open })
}

fn mark_one(
    tx: &mut Tx<'_, '_>,
    (op_id, earliest_call): (OpId, Timestamp),
    by: &WorkerId,
    routes: &Routes,
) -> Result<()> {
    let luggage = Luggage {
        reason: "restored from a backup",
        ..Luggage::by(by)
    };
    let event = Event::Restored { earliest_call };
    // A recorded outcome is an answer: the Finalizer makes it final.
    let _ = tx.change(op_id, &[&event], luggage, routes)?;
    Ok(())
}

fn refuse_existing(target: &Path) -> Result<()> {
    if target.exists() {
        let message = "the target exists; name another, or move it away";
        return Err(Error::new(ErrorKind::Invalid, message).with("path", target.display()));
    }
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn failed(error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull => ErrorKind::Full,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, "a file of the backup cannot be written or read").caused_by(error)
}
