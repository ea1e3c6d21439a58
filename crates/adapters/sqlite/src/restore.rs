//! What a restored file means, and how it takes its place.

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
use crate::open::{self, Use};
use crate::partial::{Partial, beside, failed, folder_of};
use crate::presence::{self, has_content};
use crate::query::Query;
use crate::restore_keys::{self, BackupKeys, RestoredKeys};
use crate::tx::Tx;
use crate::{Settings, Sqlite, absolute, bell, error, filesystem, private, side_of, turn};

/// Rows that a restore marks in one commit.
const MARKED_AT_ONCE: usize = 1_000;

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Open operations, all of them marked: their effect is unknown.
    pub open: usize,
    /// Where the database is kept that was there before.
    pub kept: Option<PathBuf>,
    /// What became of API keys.
    pub keys: RestoredKeys,
}

impl Sqlite {
    /// Makes a file out of a backup, ready to be opened. The backup cannot know what was
    /// called since it was taken, so every open operation is marked: effect unknown.
    ///
    /// - It is a store of its own from here on: it gets another id when it is first served.
    /// - The backup is checked and not changed. One with a log beside it is a database in use,
    ///   not a backup: `Invalid`.
    /// - `target` appears under its name only when it is complete.
    /// - A database that is there is `Invalid`, or kept under another name if it may be
    ///   replaced; while any process has it open, `Conflict`.
    /// - API keys of the database that is there stay as they are there; `unknown` says what
    ///   becomes of those that only the backup knows.
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
        let place = Place::look(&target, existing)?;
        if has_content(&beside(backup, "-wal")) {
            let message = "this is a database in use: a log lies beside it; take a copy of it \
                           with `clinch backup`";
            return Err(Error::new(ErrorKind::Invalid, message).with("path", backup.display()));
        }
        let partial = Partial::begin(&target)?;
        partial.fill(backup)?;
        verify(partial.path(), settings).map_err(|e| e.with("backup", backup.display()))?;
        let side = side_of(&target)?;
        let (open, opened) = mark(partial.path(), &side, settings, clock.now(), routes)?;
        // Whoever opens the file meanwhile waits for its turn, and finds the new one.
        let _turn = turn::take_one(&side, settings.busy_timeout)?;
        let current = restore_keys::of_database(&target, settings)?;
        let keys = restore_keys::adopt(partial.path(), &current, unknown, clock.now())?;
        let kept = place.clear(settings, clock.now())?;
        place.hand_down(partial.path());
        partial.publish()?;
        presence::note(&side, &opened)?;
        Ok(Restored { open, kept, keys })
    }
}

/// Where the restored file goes.
struct Place<'a> {
    target: &'a Path,
    is_taken: bool,
}

impl<'a> Place<'a> {
    fn look(target: &'a Path, existing: Existing) -> Result<Self> {
        let is_taken = has_content(target) || has_content(&beside(target, "-wal"));
        if is_taken && existing == Existing::Refuse {
            let message = "there is a database, or the log of one; restoring over it has to be \
                           said, and keeps it under another name";
            return Err(Error::new(ErrorKind::Invalid, message).with("path", target.display()));
        }
        refuse_in_use(target)?;
        Ok(Self { target, is_taken })
    }

    /// Gives the new file to the owner of the old one. Who may not give a file away is not the
    /// owner's administrator, and keeps it.
    fn hand_down(&self, file: &Path) {
        if let Ok(there) = fs::metadata(self.target) {
            let _ = chown(file, Some(there.uid()), Some(there.gid()));
        }
    }

    /// Gives what is there another name; returns that name.
    fn clear(&self, settings: &Settings, now: Timestamp) -> Result<Option<PathBuf>> {
        refuse_in_use(self.target)?;
        if !self.is_taken {
            return Ok(None);
        }
        let kept = beside(self.target, &format!(".before-{}", now.as_millis()));
        // Without a file, a log is only moved.
        let exclusive = has_content(self.target).then(|| take_alone(self.target, settings));
        match &exclusive {
            // Damaged: it is kept as it is, log and all.
            Some(Err(error)) if error.kind() != ErrorKind::Corrupt => {
                return Err(in_use(self.target));
            }
            _ => {}
        }
        if self.target.exists() {
            private::database(self.target)?;
            // Its own name stays taken until the new file has it: a server that starts in
            // between must not find an empty place.
            let linked = fs::hard_link(self.target, &kept);
            linked
                .or_else(|_| fs::rename(self.target, &kept))
                .map_err(failed)?;
        }
        for suffix in ["-wal", "-shm", "-journal"] {
            let log = beside(self.target, suffix);
            if log.exists() {
                // A log that is found beside another file would be played into it.
                fs::rename(&log, beside(&kept, suffix)).map_err(failed)?;
            }
        }
        drop(exclusive);
        Ok(Some(kept))
    }
}

/// Takes the log into the file, which nobody else may have open then.
fn take_alone(path: &Path, settings: &Settings) -> Result<Connection> {
    let conn = Connection::open(path).map_err(error::sql)?;
    conn.busy_timeout(settings.busy_timeout.min(std::time::Duration::from_secs(1)))
        .map_err(error::sql)?;
    let mode = conn.pragma_update_and_check(None, "journal_mode", "DELETE", |row| {
        row.get::<_, String>(0)
    });
    if mode.map_err(error::sql)? != "delete" {
        return Err(in_use(path));
    }
    // Whoever puts it back finds it whole.
    presence::mark_closed(&conn)?;
    Ok(conn)
}

/// Every process that has the file open listens beside it.
fn refuse_in_use(target: &Path) -> Result<()> {
    let Ok(listed) = fs::read_dir(beside(target, ".wake")) else {
        return Ok(());
    };
    let sockets = listed.filter_map(|entry| Some(entry.ok()?.path()));
    let mut sockets = sockets.filter(|path| path.extension() == Some(OsStr::new("sock")));
    let hears = |path: PathBuf| {
        let socket = UnixDatagram::unbound();
        socket.is_ok_and(|socket| bell::at(&path, |path| socket.connect(path)).is_ok())
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

/// Marks every open operation of a file that nobody else has open: how many, and the number that
/// the file has from now on.
fn mark(
    path: &Path,
    side: &Path,
    settings: &Settings,
    now: Timestamp,
    routes: &Routes,
) -> Result<(usize, [u8; 16])> {
    let mut conn = open::connect(path, settings, Use::Write)?;
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
            // A recorded outcome is an answer: the Finalizer makes it final.
            tx.commit(&marks, routes, Seen::default())?;
            tx.finish()?;
            conn.execute_batch("COMMIT").map_err(error::commit)?;
            open += rows.len();
        }
    }
    let opened = presence::renew(&conn, side)?;
    // One file, without a log beside it.
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
