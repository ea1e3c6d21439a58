//! Moving committed pages from the log into the file, off the writers' path.
//!
//! SQLite appends commits to a log and starts it anew once every page of it is in the file
//! and no reader needs it. A thread of its own copies the pages while the writer goes on;
//! since the writer never rests under load, the thread alone would never be done. So when
//! little is left, the writer copies the rest between two commits, and its next commit
//! starts at the front of the log: the log's file keeps its size, and writing over it costs
//! less than making it longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use clinch_core::{Error, ErrorKind, Result};
use rusqlite::Connection;

/// Pages in the log that start a checkpoint (16 MiB of 8 KiB pages): many commits share the
/// copy of a page that they all changed.
const START_PAGES: i32 = 2_048;
/// Pages that are few enough for the writer to copy between two commits.
const REST_PAGES: i32 = 512;

/// How long the log is, and who is to shorten it.
pub(crate) struct Log {
    pages: AtomicI32,
    /// Little is left: the writer does the rest.
    finish: AtomicBool,
    poke: SyncSender<()>,
}

impl Log {
    /// Starts the thread. It ends with the last handle.
    pub(crate) fn start(conn: Connection) -> Result<Arc<Self>> {
        let (poke, pokes) = sync_channel(1);
        let log = Arc::new(Self {
            pages: AtomicI32::new(0),
            finish: AtomicBool::new(false),
            poke,
        });
        let weak = Arc::downgrade(&log);
        let work = move || {
            run(&conn, &pokes, |rest| {
                if let Some(log) = weak.upgrade() {
                    log.finish.store(rest <= REST_PAGES, Ordering::Relaxed);
                }
            });
        };
        let builder = thread::Builder::new().name("clinch-sqlite-log".into());
        builder.spawn(work).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "cannot start a thread").caused_by(error)
        })?;
        Ok(log)
    }

    /// Called by SQLite after each commit of the writer.
    pub(crate) fn grew(&self, pages: i32) {
        self.pages.store(pages, Ordering::Relaxed);
    }

    /// Called by the writer between two commits.
    pub(crate) fn tend(&self, conn: &Connection) {
        if self.pages.load(Ordering::Relaxed) < START_PAGES {
            return;
        }
        if self.finish.swap(false, Ordering::Relaxed) {
            checkpoint(conn);
            self.pages.store(0, Ordering::Relaxed);
        } else {
            // Full means that it is told already.
            let _ = self.poke.try_send(());
        }
    }
}

fn run(conn: &Connection, pokes: &Receiver<()>, mut left: impl FnMut(i32)) {
    while pokes.recv().is_ok() {
        left(checkpoint(conn));
    }
}

/// Copies what can be copied without waiting for anybody; how many pages are left. One that
/// fails is made up for by the next, and by the next opening of the file.
fn checkpoint(conn: &Connection) -> i32 {
    let done = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        Ok((row.get::<_, i32>(1)?, row.get::<_, i32>(2)?))
    });
    match done {
        Ok((pages, copied)) => pages - copied,
        Err(_) => i32::MAX,
    }
}
