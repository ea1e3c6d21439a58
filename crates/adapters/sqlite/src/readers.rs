//! Connections that only read, each on a thread of its own. Readers see the last commit and never
//! wait for the writer.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use clinch_core::{Error, ErrorKind, Result};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::db::{Db, Steps};
use crate::error;
use crate::names::Names;
use crate::query::Query;

/// Callers that may wait for a reader. The reason is that of the writer's bound.
const WAITING_MAX: usize = 16_384;

type Job = Box<dyn FnOnce(&mut Db<'_>) + Send>;

/// A connection for short reads on the caller's own thread: reading a row by its id takes less time
/// than waking another thread.
pub(crate) struct InlineReader(Mutex<(Connection, Names)>, Steps);

impl InlineReader {
    pub(crate) fn new(conn: Connection, steps: Steps) -> Self {
        Self(Mutex::new((conn, Names::default())), steps)
    }

    /// `None`: another caller is using the connection; use the pool.
    pub(crate) fn try_call<T>(
        &self,
        work: impl FnOnce(&mut Db<'_>) -> Result<T>,
    ) -> Option<Result<T>> {
        let mut guard = self.0.try_lock().ok()?;
        let (conn, names) = &mut *guard;
        let mut db = Db::new(conn);
        db.steps = self.1.clone();
        db.names = std::mem::take(names);
        let read = on_a_snapshot(&mut db, work);
        db.names.committed();
        *names = std::mem::take(&mut db.names);
        Some(read)
    }
}

/// The pool. Its threads end when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Readers {
    jobs: SyncSender<Job>,
}

impl Readers {
    pub(crate) fn start(connections: Vec<Connection>, steps: &Steps) -> Result<Self> {
        let (jobs, waiting) = sync_channel(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for conn in connections {
            let (waiting, steps) = (waiting.clone(), steps.clone());
            let builder = thread::Builder::new().name("clinch-sqlite-read".into());
            let started = builder.spawn(move || run(&conn, &waiting, steps));
            started.map_err(|error| {
                Error::new(ErrorKind::Unavailable, "cannot start a thread").caused_by(error)
            })?;
        }
        Ok(Self { jobs })
    }

    /// Runs `work` on one snapshot.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Db<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |db: &mut Db<'_>| {
            // The caller may have stopped waiting.
            let _ = reply.send(on_a_snapshot(db, work));
        });
        self.jobs.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::new(
                ErrorKind::Full,
                "too many callers are waiting to read; slow down",
            ),
            TrySendError::Disconnected(_) => {
                Error::new(ErrorKind::Unavailable, "the store is closed")
            }
        })?;
        let lost = |_| Error::new(ErrorKind::Internal, "a read panicked");
        answer.await.map_err(lost)?
    }
}

fn on_a_snapshot<T>(db: &mut Db<'_>, work: impl FnOnce(&mut Db<'_>) -> Result<T>) -> Result<T> {
    db.control(Query::BeginRead).map_err(error::sql)?;
    db.kept.new_keys.is_current = false;
    let read = work(db);
    // Nothing was written, so a failed COMMIT loses nothing.
    let ended = db.control(Query::Commit);
    read.and_then(|value| ended.map(|()| value).map_err(error::sql))
}

fn run(conn: &Connection, waiting: &Mutex<Receiver<Job>>, steps: Steps) {
    let mut db = Db::new(conn);
    db.steps = steps;
    loop {
        let next = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        match next {
            Ok(job) => job(&mut db),
            Err(_) => return,
        }
        db.names.committed();
    }
}
