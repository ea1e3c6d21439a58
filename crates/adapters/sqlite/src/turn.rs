//! Whose turn it is to write, among processes on one file.
//!
//! SQLite lets a writer that finds the file locked try again after a pause; one that always
//! has work would let the other starve. Two advisory locks make a turnstile: who wants to
//! write takes `next`, waits there for `run`, and gives `next` back. Who has just written
//! finds `next` taken by the one who waits, so the two alternate. The locks are a courtesy,
//! not a protection: that is SQLite's own lock. A process that dies leaves none behind.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use clinch_core::{Error, ErrorKind, Result};

use crate::private;

/// The two locks.
struct Gate {
    next: File,
    run: File,
}

impl Gate {
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

    /// True: it is our turn, without waiting. Otherwise we may stand in the gate already.
    fn try_pass(&self) -> bool {
        if self.next.try_lock().is_err() {
            return false;
        }
        let passed = self.run.try_lock().is_ok();
        if passed {
            self.leave_gate();
        }
        passed
    }

    /// A lock that fails otherwise than by waiting is done without.
    fn wait(&self) {
        let _ = self.next.lock();
        let _ = self.run.lock();
        self.leave_gate();
    }

    fn leave_gate(&self) {
        let _ = self.next.unlock();
    }
}

/// The writer's way in.
pub(crate) struct Turnstile {
    gate: Arc<Gate>,
    ask: Sender<()>,
    granted: Receiver<()>,
    /// A wait that was given up goes on by itself.
    asked: bool,
    patience: Duration,
}

/// Our turn, until it is dropped.
pub struct Turn {
    gate: Arc<Gate>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = self.gate.run.unlock();
    }
}

impl Turnstile {
    pub(crate) fn open(dir: &Path, patience: Duration) -> Result<Self> {
        let gate = Arc::new(Gate::open(dir)?);
        let (ask, asked) = channel::<()>();
        let (grant, granted) = channel();
        let waiting = gate.clone();
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
            gate,
            ask,
            granted,
            asked: false,
            patience,
        })
    }

    /// Waits for our turn, at most the patience.
    pub(crate) fn take(&mut self) -> Result<Turn> {
        let turn = || Turn {
            gate: self.gate.clone(),
        };
        if !self.asked {
            if self.gate.try_pass() {
                return Ok(turn());
            }
            self.asked = self.ask.send(()).is_ok();
        }
        match self.granted.recv_timeout(self.patience) {
            Ok(()) => {
                self.asked = false;
                Ok(turn())
            }
            Err(_) => {
                let message = "another process has been writing for too long; try again, and \
                               look for one that is stopped or has a transaction open";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }
}

/// Waits for a turn of one call, at most the patience.
pub(crate) fn take_one(dir: &Path, patience: Duration) -> Result<Turn> {
    Turnstile::open(dir, patience)?.take()
}
