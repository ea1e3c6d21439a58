//! Copies committed pages from the log into the file (a checkpoint), without delaying the writer.
//!
//! SQLite appends commits to a log and starts the log again from the front once every page is in
//! the file and no reader needs it. A thread of its own copies the pages while the writer goes on.
//! Under load the writer adds pages all the time, so this thread alone would never finish. When few
//! pages are left, the writer therefore copies the rest between two commits, and its next commit
//! starts at the front of the log. The log file then keeps its size: overwriting it costs less than
//! extending it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use clinch_core::{Error, ErrorKind, Result};
use rusqlite::Connection;

/// Log size in pages that starts a checkpoint (8 MiB of 4 KiB pages): a page that many commits
/// changed is copied once.
const START_PAGES: i32 = 2_048;
/// Pages left that the writer may copy between two commits.
const REST_PAGES: i32 = 512;

/// Decides when pages are copied, and by which thread.
pub(crate) struct Checkpointer {
    pages: AtomicI32,
    /// Few pages are left: the writer copies them.
    finish: AtomicBool,
    wake: SyncSender<()>,
}

impl Checkpointer {
    /// Starts the thread. It ends when the last handle is dropped.
    pub(crate) fn start(conn: Connection) -> Result<Arc<Self>> {
        let (wake, wakes) = sync_channel(1);
        let log = Arc::new(Self {
            pages: AtomicI32::new(0),
            finish: AtomicBool::new(false),
            wake,
        });
        let weak = Arc::downgrade(&log);
        let work = move || {
            run(&conn, &wakes, |rest| {
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
    pub(crate) fn between_commits(&self, conn: &Connection) {
        if self.pages.load(Ordering::Relaxed) < START_PAGES {
            return;
        }
        if self.finish.swap(false, Ordering::Relaxed) {
            checkpoint(conn);
            self.pages.store(0, Ordering::Relaxed);
        } else {
            // If the channel is full, the thread has its wake-up already.
            let _ = self.wake.try_send(());
        }
    }
}

fn run(conn: &Connection, wakes: &Receiver<()>, mut left: impl FnMut(i32)) {
    while wakes.recv().is_ok() {
        left(checkpoint(conn));
    }
}

/// Copies the pages that can be copied without waiting; returns how many are left. A failed copy is
/// repeated by the next checkpoint or when the file is opened again.
fn checkpoint(conn: &Connection) -> i32 {
    let done = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        Ok((row.get::<_, i32>(1)?, row.get::<_, i32>(2)?))
    });
    match done {
        Ok((pages, copied)) => pages - copied,
        Err(_) => i32::MAX,
    }
}
