//! Restores a backup: marks its open operations and puts the file in place.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clinch_core::policy::Routes;
use clinch_core::ports::{Amendment, Clock, STORE_RECORD, Write};
use clinch_core::protocol::Event;
use clinch_core::{Error, ErrorKind, OpId, Result, Timestamp, WorkerId};
use clinch_stored::commit::Seen;
use rusqlite::Connection;

use crate::backup::{Existing, verify};
use crate::column::Column;
use crate::db::Db;
use crate::integrity::{self, has_content};
use crate::open::{self, Purpose};
use crate::partial::{Partial, failed, folder_of, with_suffix};
use crate::query::Query;
use crate::restore_keys::{self, BackupKeys, RestoredKeys};
use crate::tx::Tx;
use crate::{Settings, Sqlite, absolute, error, filesystem, peers, private, turn, wake_dir_of};

/// Rows that a restore marks in one commit.
const MARKED_AT_ONCE: usize = 1_000;

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Number of open operations. All of them are marked: their effect is unknown.
    pub open: usize,
    /// The path under which the replaced database is kept.
    pub kept: Option<PathBuf>,
    /// The result for API keys.
    pub keys: RestoredKeys,
}

impl Sqlite {
    /// Creates a database from a backup, ready to be opened. The backup cannot know which calls
    /// were made since it was taken, so every open operation is marked: effect unknown.
    ///
    /// - The restored file is a store of its own: it gets another store id when it is first served.
    /// - The backup is verified and not changed. A file with a log beside it is a database in use,
    ///   not a backup: `Invalid`.
    /// - `target` appears under its name only when it is complete.
    /// - A database that exists at `target` is `Invalid`, or kept under another name if it may be
    ///   replaced; while any process has it open, `Conflict`.
    /// - API keys of the replaced database stay as they are there; `unknown` says what to do with
    ///   keys that only the backup has.
    /// - Blocks the thread; meant for a command, before anything is started.
    pub fn restore(
        backup: &Path,
        target: &Path,
        existing: Existing,
        settings: &Settings,
        clock: &Arc<dyn Clock>,
        routes: &Routes,
        unknown: BackupKeys,
    ) -> Result<Restored> {
        let target = absolute(target)?;
        filesystem::check(folder_of(&target))?;
        let place = Target::check(&target, existing)?;
        if has_content(&with_suffix(backup, "-wal")) {
            let message = "this is a database in use: it has a log beside it; take a copy of it \
                           with `clinch backup`";
            return Err(Error::new(ErrorKind::Invalid, message).with("path", backup.display()));
        }
        let partial = Partial::begin(&target)?;
        partial.fill(backup)?;
        verify(partial.path(), settings).map_err(|e| e.with("backup", backup.display()))?;
        let wake_dir = wake_dir_of(&target)?;
        let (open, opened) = mark(partial.path(), &wake_dir, settings, clock.now(), routes)?;
        // A process that opens the file meanwhile waits for its turn, and then finds the new file.
        let _turn = turn::take_one(&wake_dir, settings.busy_timeout)?;
        let current = restore_keys::of_database(&target, settings)?;
        let keys = restore_keys::adopt(partial.path(), &current, unknown, clock.now())?;
        let kept = place.move_away(settings, clock.now())?;
        place.keep_owner(partial.path());
        partial.publish()?;
        integrity::write_marker(&wake_dir, &opened)?;
        Ok(Restored { open, kept, keys })
    }
}

/// The path of the restored file, and what exists there.
struct Target<'a> {
    target: &'a Path,
    is_taken: bool,
}

impl<'a> Target<'a> {
    fn check(target: &'a Path, existing: Existing) -> Result<Self> {
        let is_taken = has_content(target) || has_content(&with_suffix(target, "-wal"));
        if is_taken && existing == Existing::Refuse {
            let message = "there is a database, or the log of one; restoring over it has to be \
                           said, and keeps it under another name";
            return Err(Error::new(ErrorKind::Invalid, message).with("path", target.display()));
        }
        refuse_in_use(target)?;
        Ok(Self { target, is_taken })
    }

    /// Gives the new file to the owner of the old one. Only root can do that; for other users the
    /// file stays their own.
    fn keep_owner(&self, file: &Path) {
        if let Ok(there) = fs::metadata(self.target) {
            let _ = chown(file, Some(there.uid()), Some(there.gid()));
        }
    }

    /// Renames the existing database; returns its new path.
    fn move_away(&self, settings: &Settings, now: Timestamp) -> Result<Option<PathBuf>> {
        refuse_in_use(self.target)?;
        if !self.is_taken {
            return Ok(None);
        }
        let kept = with_suffix(self.target, &format!(".before-{}", now.as_millis()));
        // If there is only a log and no file, the log is only moved.
        let exclusive = has_content(self.target).then(|| open_exclusive(self.target, settings));
        match &exclusive {
            // A damaged database is kept as it is, with its log.
            Some(Err(error)) if error.kind() != ErrorKind::Corrupt => {
                return Err(in_use(self.target));
            }
            _ => {}
        }
        if self.target.exists() {
            private::database(self.target)?;
            // The target keeps its name until the new file replaces it: a server that starts in
            // between must not find an empty place.
            let linked = fs::hard_link(self.target, &kept);
            linked
                .or_else(|_| fs::rename(self.target, &kept))
                .map_err(failed)?;
        }
        for suffix in ["-wal", "-shm", "-journal"] {
            let log = with_suffix(self.target, suffix);
            if log.exists() {
                // SQLite would apply a leftover log to the restored file.
                fs::rename(&log, with_suffix(&kept, suffix)).map_err(failed)?;
            }
        }
        drop(exclusive);
        Ok(Some(kept))
    }
}

/// Moves the log into the file; fails if another process has the file open.
fn open_exclusive(path: &Path, settings: &Settings) -> Result<Connection> {
    let conn = Connection::open(path).map_err(error::sql)?;
    conn.busy_timeout(settings.busy_timeout.min(std::time::Duration::from_secs(1)))
        .map_err(error::sql)?;
    let mode = conn.pragma_update_and_check(None, "journal_mode", "DELETE", |row| {
        row.get::<_, String>(0)
    });
    if mode.map_err(error::sql)? != "delete" {
        return Err(in_use(path));
    }
    // If the file is put back later, it must count as complete.
    integrity::mark_closed(&conn)?;
    Ok(conn)
}

/// Every process that has the file open has a socket beside it.
fn refuse_in_use(target: &Path) -> Result<()> {
    let Ok(listed) = fs::read_dir(with_suffix(target, ".wake")) else {
        return Ok(());
    };
    let sockets = listed.filter_map(|entry| Some(entry.ok()?.path()));
    let mut sockets = sockets.filter(|path| path.extension() == Some(OsStr::new("sock")));
    let hears = |path: PathBuf| {
        let socket = UnixDatagram::unbound();
        socket.is_ok_and(|socket| peers::at(&path, |path| socket.connect(path)).is_ok())
    };
    match sockets.any(hears) {
        true => Err(in_use(target)),
        false => Ok(()),
    }
}

fn in_use(target: &Path) -> Error {
    let message = "a process has this database open; stop `clinch serve` first";
    Error::new(ErrorKind::Conflict, message).with("path", target.display())
}

/// Marks every open operation of a file that no other process has open. Returns their number and
/// the file's new id.
fn mark(
    path: &Path,
    wake_dir: &Path,
    settings: &Settings,
    now: Timestamp,
    routes: &Routes,
) -> Result<(usize, [u8; 16])> {
    let mut conn = open::connect(path, settings, Purpose::Write)?;
    open::migrate(&mut conn, settings)?;
    let by = WorkerId::new("restore");
    let by = by.map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))?;
    let mut open = 0;
    {
        let mut db = Db::new(&conn);
        db.run(Query::DeleteRecord, [STORE_RECORD])?;
        let rows = db.all(Query::OpenOperations, [], |row| {
            Ok((row.op_id(0)?, row.moment(1)?))
        })?;
        for rows in rows.chunks(MARKED_AT_ONCE) {
            conn.execute_batch("BEGIN IMMEDIATE").map_err(error::sql)?;
            let mut tx = Tx::new(&mut db, now);
            let marks: Vec<Write> = rows.iter().map(|row| restored(*row, &by)).collect();
            // An operation with a recorded answer needs no mark: the Finalizer makes the answer
            // final.
            tx.commit(&marks, routes, Seen::default())?;
            tx.finish()?;
            conn.execute_batch("COMMIT").map_err(error::commit)?;
            open += rows.len();
        }
    }
    let opened = integrity::renew(&conn, wake_dir)?;
    // Leaves a single file without a log beside it.
    let mode = conn.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()));
    mode.map_err(error::sql)?;
    conn.close().map_err(|(_, error)| error::sql(error))?;
    Ok((open, opened))
}

fn restored((op_id, earliest_call): (OpId, Timestamp), by: &WorkerId) -> Write {
    Write::Amend(Amendment {
        op_id,
        event: Event::Restored { earliest_call },
        ok: None,
        checkpoint: None,
        by: by.clone(),
        reason: "restored from a backup".to_owned(),
        attempt_id: None,
    })
}
