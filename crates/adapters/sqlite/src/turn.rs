//! Fair turns to write, among the processes that use one file.
//!
//! SQLite lets a writer that finds the file locked try again after a pause, so a process that
//! always has work could starve the others. Two advisory lock files prevent that. A process that
//! wants to write locks `next`, waits for `run` while it holds `next`, and then unlocks `next`. A
//! process that has just written finds `next` held by the process that waits, so the two alternate.
//! These locks only order the writers; SQLite's own lock protects the data. The kernel releases the
//! locks of a process that dies.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use clinch_core::{Error, ErrorKind, Result};

use crate::private;

/// The two lock files.
struct LockFiles {
    next: File,
    run: File,
}

impl LockFiles {
    fn open(dir: &Path) -> Result<Self> {
        let open = |name: &str| {
            let mut options = File::options();
            let options = options.create(true).append(true).mode(private::FILE);
            let file = options.open(dir.join(name));
            file.map_err(|error| {
                let message = "a lock file beside the database cannot be opened";
                Error::new(ErrorKind::Unavailable, message).caused_by(error)
            })
        };
        Ok(Self {
            next: open("next")?,
            run: open("run")?,
        })
    }

    /// True: it is our turn, without waiting. If false, this process may already hold `next`.
    fn try_lock(&self) -> bool {
        if self.next.try_lock().is_err() {
            return false;
        }
        let passed = self.run.try_lock().is_ok();
        if passed {
            self.release_next();
        }
        passed
    }

    /// Errors are ignored: without these locks writing is unfair, but still safe.
    fn wait(&self) {
        let _ = self.next.lock();
        let _ = self.run.lock();
        self.release_next();
    }

    fn release_next(&self) {
        let _ = self.next.unlock();
    }
}

/// Takes turns for the writer thread.
pub(crate) struct Turnstile {
    locks: Arc<LockFiles>,
    ask: Sender<()>,
    granted: Receiver<()>,
    /// An earlier request timed out and its wait goes on in the background.
    asked: bool,
    timeout: Duration,
}

/// This process's turn to write, until it is dropped.
pub struct Turn {
    locks: Arc<LockFiles>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = self.locks.run.unlock();
    }
}

impl Turnstile {
    pub(crate) fn open(dir: &Path, timeout: Duration) -> Result<Self> {
        let locks = Arc::new(LockFiles::open(dir)?);
        let (ask, asked) = channel::<()>();
        let (grant, granted) = channel();
        let waiting = locks.clone();
        let wait = move || {
            while asked.recv().is_ok() {
                waiting.wait();
                if grant.send(()).is_err() {
                    return;
                }
            }
        };
        let builder = thread::Builder::new().name("clinch-sqlite-turn".into());
        builder.spawn(wait).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "cannot start a thread").caused_by(error)
        })?;
        Ok(Self {
            locks,
            ask,
            granted,
            asked: false,
            timeout,
        })
    }

    /// Waits for this process's turn, at most `timeout`.
    pub(crate) fn take(&mut self) -> Result<Turn> {
        let turn = || Turn {
            locks: self.locks.clone(),
        };
        if !self.asked {
            if self.locks.try_lock() {
                return Ok(turn());
            }
            self.asked = self.ask.send(()).is_ok();
        }
        match self.granted.recv_timeout(self.timeout) {
            Ok(()) => {
                self.asked = false;
                Ok(turn())
            }
            Err(_) => {
                let message = "another process has been writing for too long; try again, and \
                               look for a process that is stopped or has a transaction open";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }
}

/// Waits for a single turn, at most `timeout`.
pub(crate) fn take_one(dir: &Path, timeout: Duration) -> Result<Turn> {
    Turnstile::open(dir, timeout)?.take()
}
