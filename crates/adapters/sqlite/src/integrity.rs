//! Checks that the file is the one that was last used here, complete, and still in its place.
//!
//! SQLite keeps new commits in a log beside the file, and treats a file without its log as
//! complete. Whoever copies the file alone, or loses the log, silently loses commits. So the file
//! itself records whether it needs its log, and a marker beside the file records which file it was:
//!
//! | where | content | written |
//! | --- | --- | --- |
//! | `clinch_file.state` | in use, or closed and complete without its log | into the file itself, not only its log, by the first process that opens it and the last that closes it |
//! | `clinch_file.opened`, and `opened` in the folder beside the file | the same new random id | by the first process that opens the file |
//! | `open` in that folder | empty; every process that has the file open holds a shared lock on it | never |
//!
//! While the file is in use its log is never empty: a file that says "in use" without a log beside
//! it has lost commits. A file whose id differs from the marker was replaced; a marker without a
//! file means that the file is lost. While the file is open, its names must keep leading to the
//! files that were opened. Two cases cannot be detected: a copy of file, log and folder that was
//! taken while they changed, and a log that was replaced by another log.

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
use crate::partial::with_suffix;

/// Values of `clinch_file.state`.
const CLOSED: i64 = 0;
const IN_USE: i64 = 1;
const BACKUP: i64 = 2;

/// What an operator can do about a loss.
const REMEDY: &str = "put the right file back, restore a backup with `clinch restore`, or start \
                     once with `clinch serve --accept-data-loss`";

/// What was found before the file was opened.
pub(crate) struct OpenCheck {
    path: PathBuf,
    wake_dir: PathBuf,
    /// `None`: there is no folder beside the file, so no process has it open.
    lock: Option<File>,
    is_alone: bool,
    has_log: bool,
    /// The id in the marker beside the file.
    marker: Option<Vec<u8>>,
    accepts_loss: bool,
}

impl OpenCheck {
    /// Examines the file's surroundings before the file is opened, and thereby perhaps created. The
    /// caller must have its turn.
    pub(crate) fn before_open(path: &Path, wake_dir: &Path, accepts_loss: bool) -> Result<Self> {
        let mut options = File::options();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = match options.open(wake_dir.join("open")) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let open_check = Self {
            path: path.to_owned(),
            wake_dir: wake_dir.to_owned(),
            is_alone: lock.as_ref().is_none_or(|lock| lock.try_lock().is_ok()),
            lock,
            has_log: has_content(&with_suffix(path, "-wal")),
            marker: fs::read(wake_dir.join("opened")).ok(),
            accepts_loss,
        };
        let is_known = open_check.marker.is_some() || !open_check.is_alone;
        if is_known && !has_content(path) {
            let message = format!("the database that was here is gone or empty; {REMEDY}");
            open_check.refuse(&message)?;
        }
        Ok(open_check)
    }

    fn refuse(&self, message: &str) -> Result<()> {
        if self.accepts_loss {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Corrupt, message).with("path", self.path.display()))
    }

    /// Checks that the file is complete, and the one that was last used here. Called before
    /// anything is written to the file.
    pub(crate) fn check(&self, conn: &Connection) -> Result<()> {
        if !self.is_alone {
            // The process that opened the file first has checked it.
            return Ok(());
        }
        let replaced = || {
            let message = format!(
                "this is not the database that was last used here; it was replaced, perhaps by \
                 an older copy; {REMEDY}"
            );
            self.refuse(&message)
        };
        let Some((state, opened, before)) = marks(conn)? else {
            return self.marker.as_ref().map_or(Ok(()), |_| replaced());
        };
        if state == BACKUP {
            let message = format!(
                "this is a backup: its open operations may have made calls since; {REMEDY}"
            );
            return self.refuse(&message);
        }
        if state == IN_USE && !self.has_log {
            let message = format!(
                "the database was in use and its log, the -wal file beside it, is gone: commits \
                 are missing, unless another program took the log into the file; {REMEDY}"
            );
            return self.refuse(&message);
        }
        match &self.marker {
            Some(marker) if *marker != opened && *marker != before => replaced(),
            _ => Ok(()),
        }
    }

    /// Marks the file as in use. Its schema must be up to date.
    pub(crate) fn mark_in_use(self, conn: &Connection) -> Result<OpenMark> {
        if self.is_alone {
            let opened = Uuid::new_v4().into_bytes();
            let before = self.marker.clone().unwrap_or_default();
            conn.execute(
                "UPDATE clinch_file SET state = ?1, opened = ?2, opened_before = ?3",
                (IN_USE, opened, before),
            )
            .map_err(error::sql)?;
            // The checkpoint writes the mark into the file itself. It leaves the log's length as it
            // is, so the log is never empty.
            checkpoint(conn, "FULL")?;
            write_marker(&self.wake_dir, &opened)?;
        }
        if let Some(lock) = &self.lock {
            lock.lock_shared().map_err(failed)?;
        }
        let log = with_suffix(&self.path, "-wal");
        let watch = FileWatch {
            file: WatchedFile::at(self.path)?,
            log: WatchedFile::at(log)?,
        };
        Ok(OpenMark {
            lock: self.lock,
            watch: Arc::new(watch),
        })
    }
}

/// This process has the file open.
pub(crate) struct OpenMark {
    lock: Option<File>,
    pub(crate) watch: Arc<FileWatch>,
}

impl OpenMark {
    /// The last process to close the file moves the log into the file and marks it as closed. The
    /// caller must have its turn. A file that was replaced meanwhile is left alone.
    pub(crate) fn release(self, conn: &Connection) -> Result<()> {
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

/// The paths of the file and its log, and the files that they led to when opened.
#[derive(Debug)]
pub(crate) struct FileWatch {
    file: WatchedFile,
    log: WatchedFile,
}

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    place: (u64, u64),
    /// A file never becomes shorter while it is in use.
    length: AtomicU64,
}

impl WatchedFile {
    fn at(path: PathBuf) -> Result<Self> {
        let there = fs::metadata(&path).map_err(failed)?;
        Ok(Self {
            place: (there.dev(), there.ino()),
            length: AtomicU64::new(there.len()),
            path,
        })
    }
}

impl FileWatch {
    /// - `Unavailable`: the path no longer leads to the file that was opened. Nothing more may be
    ///   written: a process that starts later would not find it.
    pub(crate) fn check(&self) -> Result<()> {
        let is_same = |seen: &WatchedFile| {
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

/// State, id of the last opening, and the id before that.
type Marks = (i64, Vec<u8>, Vec<u8>);

/// `None`: the file is new, or of a release without these marks.
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

/// Marks the file of this connection as a backup: it must be restored before use.
pub(crate) fn mark_backup(conn: &Connection) -> Result<()> {
    set(conn, "UPDATE clinch_file SET state = ?1", BACKUP)
}

/// Marks the file of this connection as complete and not open.
pub(crate) fn mark_closed(conn: &Connection) -> Result<()> {
    let text = "UPDATE clinch_file SET state = ?1 WHERE state = 1";
    set(conn, text, CLOSED)
}

/// Does nothing to a file of a release that had no marks.
fn set(conn: &Connection, text: &str, state: i64) -> Result<()> {
    if marks(conn)?.is_some() {
        conn.execute(text, [state]).map_err(error::sql)?;
    }
    Ok(())
}

/// Gives a restored file a new id and marks it as closed. The marker is written once the file is in
/// its place. Its schema must be up to date.
pub(crate) fn renew(conn: &Connection, wake_dir: &Path) -> Result<[u8; 16]> {
    let opened = Uuid::new_v4().into_bytes();
    let before = fs::read(wake_dir.join("opened")).unwrap_or_default();
    conn.execute(
        "UPDATE clinch_file SET state = ?1, opened = ?2, opened_before = ?3",
        (CLOSED, opened, before),
    )
    .map_err(error::sql)?;
    Ok(opened)
}

/// Writes the marker beside the file, on disk.
pub(crate) fn write_marker(wake_dir: &Path, opened: &[u8]) -> Result<()> {
    let (new, name) = (wake_dir.join("opened.new"), wake_dir.join("opened"));
    let write = || {
        let mut options = File::options();
        let options = options.create(true).truncate(true).write(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(opened)?;
        file.sync_all()?;
        fs::rename(&new, &name)?;
        File::open(wake_dir)?.sync_all()
    };
    write().map_err(failed)
}

/// Moves commits from the log into the file. If readers prevent that, the next process that opens
/// or closes the file does it.
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
