//! Whether the file is the one that was last used here, whole, and still in its place.
//!
//! SQLite keeps new commits in a log beside the file, and takes a file without its log for a
//! whole one: whoever copies the file alone, or loses the log, loses commits without a word. So
//! the file says itself whether it needs its log, and a note beside it says which file it was:
//!
//! | what | says | written |
//! | --- | --- | --- |
//! | `clinch_file.state` | in use, or closed and whole without its log | into the file itself, not only its log, by who comes first and by who leaves last |
//! | `clinch_file.opened`, and `opened` in the folder beside the file | the same fresh number | by who comes first |
//! | `open` in that folder | locked, shared, by every process that has the file open | never |
//!
//! While the file is in use its log is never empty: a file that says "in use" with no log
//! beside it has lost commits. A file whose number is not the one beside it was replaced; none
//! at all is lost. While it is open, names that lead to other files than those that were opened
//! tell the same. What cannot be told: a copy of file, log and folder that was taken while they
//! changed, and a log that was replaced by another.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clinch_core::{Error, ErrorKind, Result};
use rusqlite::{Connection, OptionalExtension as _};
use uuid::Uuid;

use crate::error;
use crate::partial::beside;

/// What the file says of itself.
const CLOSED: i64 = 0;
const IN_USE: i64 = 1;
const BACKUP: i64 = 2;

/// What there is to do about a loss.
const TO_DO: &str = "put the right file back, restore a backup with `clinch restore`, or start \
                     once with `clinch serve --accept-data-loss`";

/// What was found before the file was opened.
pub(crate) struct Arrival {
    path: PathBuf,
    side: PathBuf,
    /// `None`: there is no folder beside the file, so nobody has it open.
    lock: Option<File>,
    is_alone: bool,
    has_log: bool,
    /// The number beside the file.
    noted: Option<Vec<u8>>,
    accepts_loss: bool,
}

impl Arrival {
    /// Looks before the file is opened, and so made. To be called when it is our turn.
    pub(crate) fn at(path: &Path, side: &Path, accepts_loss: bool) -> Result<Self> {
        let mut options = File::options();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = match options.open(side.join("open")) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let arrival = Self {
            path: path.to_owned(),
            side: side.to_owned(),
            is_alone: lock.as_ref().is_none_or(|lock| lock.try_lock().is_ok()),
            lock,
            has_log: has_content(&beside(path, "-wal")),
            noted: fs::read(side.join("opened")).ok(),
            accepts_loss,
        };
        let is_known = arrival.noted.is_some() || !arrival.is_alone;
        if is_known && !has_content(path) {
            let message = format!("the database that was here is gone or empty; {TO_DO}");
            arrival.refuse(&message)?;
        }
        Ok(arrival)
    }

    fn refuse(&self, message: &str) -> Result<()> {
        if self.accepts_loss {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Corrupt, message).with("path", self.path.display()))
    }

    /// Whether the file is whole, and the one that was last used here. Before anything is
    /// written to it.
    pub(crate) fn check(&self, conn: &Connection) -> Result<()> {
        if !self.is_alone {
            // Who came first has looked.
            return Ok(());
        }
        let replaced = || {
            let message = format!(
                "this is not the database that was last used here; it was replaced, perhaps by \
                 an older copy; {TO_DO}"
            );
            self.refuse(&message)
        };
        let Some((state, opened, before)) = marks(conn)? else {
            return self.noted.as_ref().map_or(Ok(()), |_| replaced());
        };
        if state == BACKUP {
            let message =
                format!("this is a backup: what is open in it may have been called since; {TO_DO}");
            return self.refuse(&message);
        }
        if state == IN_USE && !self.has_log {
            let message = format!(
                "the database was in use and its log, the -wal file beside it, is gone: commits \
                 are missing, unless another program took the log into the file; {TO_DO}"
            );
            return self.refuse(&message);
        }
        match &self.noted {
            Some(noted) if *noted != opened && *noted != before => replaced(),
            _ => Ok(()),
        }
    }

    /// Says that the file is in use. Its schema is up to date.
    pub(crate) fn enter(self, conn: &Connection) -> Result<Presence> {
        if self.is_alone {
            let opened = Uuid::new_v4().into_bytes();
            let before = self.noted.clone().unwrap_or_default();
            conn.execute(
                "UPDATE clinch_file SET state = ?1, opened = ?2, opened_before = ?3",
                (IN_USE, opened, before),
            )
            .map_err(error::sql)?;
            // Into the file itself. The log keeps its length, so it is never empty.
            checkpoint(conn, "FULL")?;
            note(&self.side, &opened)?;
        }
        if let Some(lock) = &self.lock {
            lock.lock_shared().map_err(failed)?;
        }
        let log = beside(&self.path, "-wal");
        let watch = Watch {
            file: Seen::at(self.path)?,
            log: Seen::at(log)?,
        };
        Ok(Presence {
            lock: self.lock,
            watch: Arc::new(watch),
        })
    }
}

/// This process has the file open.
pub(crate) struct Presence {
    lock: Option<File>,
    pub(crate) watch: Arc<Watch>,
}

impl Presence {
    /// The last to leave brings everything into the file and says that it is closed. To be
    /// called when it is our turn. A file that is not the one that was opened is left alone.
    pub(crate) fn leave(self, conn: &Connection) -> Result<()> {
        let is_last = |lock: &File| lock.unlock().is_ok() && lock.try_lock().is_ok();
        if !self.lock.as_ref().is_some_and(is_last) {
            return Ok(());
        }
        self.watch.check()?;
        conn.execute("UPDATE clinch_file SET state = ?1", [CLOSED])
            .map_err(error::sql)?;
        checkpoint(conn, "TRUNCATE")
    }
}

/// The names of the file and its log, and what they led to.
#[derive(Debug)]
pub(crate) struct Watch {
    file: Seen,
    log: Seen,
}

#[derive(Debug)]
struct Seen {
    path: PathBuf,
    place: (u64, u64),
    /// A file never becomes shorter while it is in use.
    length: AtomicU64,
}

impl Seen {
    fn at(path: PathBuf) -> Result<Self> {
        let there = fs::metadata(&path).map_err(failed)?;
        Ok(Self {
            place: (there.dev(), there.ino()),
            length: AtomicU64::new(there.len()),
            path,
        })
    }
}

impl Watch {
    /// `Unavailable`: what was opened is no longer what has its name. Nothing is written to it
    /// any more: whoever starts next would not find it.
    pub(crate) fn check(&self) -> Result<()> {
        let is_same = |seen: &Seen| {
            let there = fs::metadata(&seen.path).ok();
            let there = there.filter(|there| (there.dev(), there.ino()) == seen.place);
            there.map(|there| there.len())
        };
        let lost = match (is_same(&self.file), is_same(&self.log)) {
            (Some(length), Some(_)) => {
                let before = self.file.length.fetch_max(length, Ordering::Relaxed);
                (length < before).then_some("the database file was cut short")
            }
            (None, _) => Some("the database file was removed or replaced"),
            (_, None) => Some("the log of the database, its -wal file, was removed or replaced"),
        };
        match lost {
            None => Ok(()),
            Some(what) => {
                let message = format!(
                    "{what} while it was open; nothing more is written: stop this server, put \
                     the right files back, and start it again"
                );
                Err(Error::new(ErrorKind::Unavailable, message)
                    .with("code", "store_lost")
                    .with("path", self.file.path.display()))
            }
        }
    }
}

/// State, number of the last opening, and the number before.
type Marks = (i64, Vec<u8>, Vec<u8>);

/// `None`: the file is of a release that had none, or new.
fn marks(conn: &Connection) -> Result<Option<Marks>> {
    let there = "SELECT 1 FROM sqlite_schema WHERE name = 'clinch_file'";
    let there = conn.query_row(there, [], |_| Ok(())).optional();
    if there.map_err(error::sql)?.is_none() {
        return Ok(None);
    }
    let read = "SELECT state, opened, opened_before FROM clinch_file";
    let read = conn.query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    read.optional().map_err(error::sql)
}

/// The copy that this is the connection to is a backup: it has to be restored.
pub(crate) fn mark_backup(conn: &Connection) -> Result<()> {
    set(conn, "UPDATE clinch_file SET state = ?1", BACKUP)
}

/// The file that this is the connection to is whole, and nobody has it open.
pub(crate) fn mark_closed(conn: &Connection) -> Result<()> {
    let text = "UPDATE clinch_file SET state = ?1 WHERE state = 1";
    set(conn, text, CLOSED)
}

/// Nothing happens to a file of a release that had no marks.
fn set(conn: &Connection, text: &str, state: i64) -> Result<()> {
    if marks(conn)?.is_some() {
        conn.execute(text, [state]).map_err(error::sql)?;
    }
    Ok(())
}

/// A restored file is another one from now on, and whole; its number goes beside it once it is
/// in its place. Its schema is up to date.
pub(crate) fn renew(conn: &Connection, side: &Path) -> Result<[u8; 16]> {
    let opened = Uuid::new_v4().into_bytes();
    let before = fs::read(side.join("opened")).unwrap_or_default();
    conn.execute(
        "UPDATE clinch_file SET state = ?1, opened = ?2, opened_before = ?3",
        (CLOSED, opened, before),
    )
    .map_err(error::sql)?;
    Ok(opened)
}

/// Puts the number beside the file, on disk.
pub(crate) fn note(side: &Path, opened: &[u8]) -> Result<()> {
    let (new, name) = (side.join("opened.new"), side.join("opened"));
    let write = || {
        let mut options = File::options();
        let options = options.create(true).truncate(true).write(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(opened)?;
        file.sync_all()?;
        fs::rename(&new, &name)?;
        File::open(side)?.sync_all()
    };
    write().map_err(failed)
}

/// Moves commits from the log into the file. One that readers are in the way of is done by
/// whoever comes or leaves next.
fn checkpoint(conn: &Connection, how: &str) -> Result<()> {
    let text = format!("PRAGMA wal_checkpoint({how})");
    let done = conn.query_row(&text, [], |_| Ok(()));
    done.map_err(error::sql)
}

pub(crate) fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| there.len() > 0)
}

fn failed(error: std::io::Error) -> Error {
    let message = format!("a file beside the database cannot be read or written: {error}");
    Error::new(ErrorKind::Unavailable, message).caused_by(error)
}
