//! The single thread that writes, and how callers share its commits.
//!
//! Every call is a job. The writer takes the oldest waiting job, opens a transaction, runs the job,
//! and goes on with the jobs that have arrived in the meantime; then it commits once for all of
//! them and answers. No job waits for a timer: a lone caller gets a commit of its own.
//!
//! If a job fails, the transaction is rolled back and every job of the group runs again in a
//! transaction of its own, so that a failure only reaches its own caller. A job must therefore
//! tolerate being run twice.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clinch_core::ports::{Clock, Notice};
use clinch_core::{Error, ErrorKind, Result};
use clinch_stored::{Fault, Faults};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::checkpointer::Checkpointer;
use crate::db::{Db, Steps};
use crate::error;
use crate::integrity::{FileWatch, OpenMark};
use crate::kept::Kept;
use crate::query::Query;
use crate::turn::Turnstile;
use crate::tx::Tx;

/// Callers that may wait for the writer. Beyond this the store is overloaded and more waiting makes
/// it worse. Each caller waits with its own data, so this also bounds memory.
const WAITING_MAX: usize = 16_384;
/// Jobs in one commit: enough that a job's share of the commit costs almost nothing, few enough
/// that the first job does not wait long for the last.
const GROUP_MAX: usize = 1_024;
/// Changed rows after which a commit takes no further job: the first job must not wait too long.
const GROUP_WRITES_MAX: u64 = 20_000;

/// How long `close` waits for the disk and for other processes.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// A call that waits for the writer thread.
trait Job: Send {
    /// Runs in an open transaction and keeps its result for the answer.
    fn run(&mut self, tx: &mut Tx<'_, '_>) -> Result<()>;
    /// Called after the commit, or with the reason why there was no commit.
    fn answer(self: Box<Self>, outcome: Result<()>);
}

struct Call<F, T> {
    work: F,
    done: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F> Job for Call<F, T>
where
    F: FnMut(&mut Tx<'_, '_>) -> Result<T> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_, '_>) -> Result<()> {
        self.done = Some((self.work)(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        let lost = || Error::new(ErrorKind::Internal, "a job was answered without a result");
        let Self { done, reply, .. } = *self;
        // The caller may have stopped waiting.
        let _ = reply.send(outcome.and_then(|()| done.ok_or_else(lost)));
    }
}

/// The callers' side of the queue. The thread ends when the last `Writer` is dropped or after
/// [`Writer::close`].
#[derive(Clone)]
pub(crate) struct Writer {
    jobs: SyncSender<Box<dyn Job>>,
    end: Arc<Mutex<Option<Shutdown>>>,
}

/// Asks the thread to end, and receives the result of closing the file.
struct Shutdown {
    tell: Arc<AtomicBool>,
    ended: Receiver<Result<()>>,
}

/// The writer thread's side of the queue.
pub(crate) struct Jobs {
    waiting: Receiver<Box<dyn Job>>,
    is_closing: Arc<AtomicBool>,
    ended: SyncSender<Result<()>>,
}

pub(crate) fn channel() -> (Writer, Jobs) {
    let (jobs, waiting) = sync_channel(WAITING_MAX);
    let is_closing = Arc::<AtomicBool>::default();
    let (told, ended) = sync_channel(1);
    let end = Shutdown {
        tell: is_closing.clone(),
        ended,
    };
    let writer = Writer {
        jobs,
        end: Arc::new(Mutex::new(Some(end))),
    };
    let jobs = Jobs {
        waiting,
        is_closing,
        ended: told,
    };
    (writer, jobs)
}

impl Jobs {
    /// The next job; `None`: the thread must end.
    fn next(&self) -> Option<Box<dyn Job>> {
        let job = self.waiting.recv().ok()?;
        if self.is_closing.load(Ordering::SeqCst) {
            job.answer(Err(closed()));
            return None;
        }
        Some(job)
    }

    /// Answers the jobs that still wait: the store is closed.
    fn end(self, how: Result<()>) {
        let Self { waiting, ended, .. } = self;
        while let Ok(job) = waiting.try_recv() {
            job.answer(Err(closed()));
        }
        // There is no receiver if the store was dropped without `close`.
        let _ = ended.send(how);
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, "the store is closed")
}

impl Writer {
    /// Runs `work` in a transaction that other callers may share; the answer comes after the
    /// commit. The work is done even if the caller stops waiting.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Tx<'_, '_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let done = None;
        let job = Box::new(Call { work, done, reply });
        self.jobs.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) => {
                let message =
                    "too many callers are waiting to write to the database file; slow down";
                Error::new(ErrorKind::Full, message)
            }
            TrySendError::Disconnected(_) => closed(),
        })?;
        let lost = |_| Error::new(ErrorKind::Ambiguous, "the writer ended during a commit");
        answer.await.map_err(lost)?
    }

    /// Ends the thread after its current job and returns when the file is closed. Blocks.
    pub(crate) fn close(&self) -> Result<()> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Shutdown { tell, ended }) = end.take() else {
            return Ok(());
        };
        tell.store(true, Ordering::SeqCst);
        // The thread may be blocked waiting for a job: an empty one wakes it. If the queue is full,
        // the thread has jobs and needs no wake-up.
        let (reply, _) = oneshot::channel();
        let work = |_: &mut Tx<'_, '_>| Ok::<(), Error>(());
        let done = None;
        let _ = self.jobs.try_send(Box::new(Call { work, done, reply }));
        ended.recv_timeout(CLOSE_MAX).unwrap_or_else(|_| {
            let message = "the database file was not closed in time; keep its log, the -wal file";
            Err(Error::new(ErrorKind::Unavailable, message))
        })
    }
}

/// The state of the writer thread.
pub(crate) struct WriterLoop {
    pub clock: Arc<dyn Clock>,
    pub faults: Arc<Faults>,
    pub turnstile: Turnstile,
    pub checkpointer: Arc<Checkpointer>,
    pub watch: Arc<FileWatch>,
    /// Called after each commit, before the answers.
    pub notify: Box<dyn Fn(Vec<Notice>) + Send>,
    pub steps: Steps,
}

/// A job and its result so far.
type Ran = (Box<dyn Job>, Result<()>);

/// How a shared transaction ended.
enum Group {
    /// Every job succeeded and its changes are durable.
    Committed(Vec<Ran>, Vec<Notice>),
    /// A job failed and the transaction was rolled back: each job must run alone.
    RolledBack(Vec<Ran>),
    /// Nothing was committed, or the commit is ambiguous. Running each job alone would not help.
    Failed(Vec<Ran>, Error),
}

impl WriterLoop {
    /// Serves jobs until every caller is gone or the store is closed, then closes the file.
    pub(crate) fn run(mut self, conn: &Connection, jobs: Jobs, open_mark: OpenMark) {
        self.serve(conn, &jobs);
        let left = match self.turnstile.take() {
            Ok(_turn) => open_mark.release(conn),
            Err(error) => Err(error),
        };
        jobs.end(left);
    }

    fn serve(&mut self, conn: &Connection, jobs: &Jobs) {
        let mut db = Db::new(conn);
        db.steps = self.steps.clone();
        while let Some(first) = jobs.next() {
            if let Some(fault) = self.faults.take() {
                self.run_armed(&mut db, first, fault);
                continue;
            }
            match self.share(&mut db, first, jobs) {
                Group::Committed(ran, notices) => self.conclude(ran, notices),
                Group::Failed(ran, error) => {
                    for (job, _) in ran {
                        job.answer(Err(error.clone()));
                    }
                }
                Group::RolledBack(ran) => {
                    for (job, _) in ran {
                        self.run_alone(&mut db, job);
                    }
                }
            }
            self.checkpointer.between_commits(conn);
        }
    }

    fn conclude(&self, ran: Vec<Ran>, notices: Vec<Notice>) {
        (self.notify)(notices);
        for (job, outcome) in ran {
            job.answer(outcome);
        }
    }

    fn run_alone(&mut self, db: &mut Db<'_>, job: Box<dyn Job>) {
        match self.transact(db, vec![job], || None) {
            Group::Committed(ran, notices) => self.conclude(ran, notices),
            Group::Failed(ran, error) => {
                for (job, _) in ran {
                    job.answer(Err(error.clone()));
                }
            }
            Group::RolledBack(ran) => {
                for (job, outcome) in ran {
                    job.answer(outcome);
                }
            }
        }
    }

    /// Runs `first`, and every job that arrives while the transaction is open, in one transaction.
    fn share(&mut self, db: &mut Db<'_>, first: Box<dyn Job>, jobs: &Jobs) -> Group {
        self.transact(db, vec![first], || jobs.waiting.try_recv().ok())
    }

    fn transact(
        &mut self,
        db: &mut Db<'_>,
        jobs: Vec<Box<dyn Job>>,
        mut more: impl FnMut() -> Option<Box<dyn Job>>,
    ) -> Group {
        let unrun = |jobs: Vec<Box<dyn Job>>| jobs.into_iter().map(|job| (job, Ok(()))).collect();
        let turn = match self.watch.check().and_then(|()| self.turnstile.take()) {
            Ok(turn) => turn,
            Err(error) => return Group::Failed(unrun(jobs), error),
        };
        if let Err(error) = db.control(Query::BeginWrite) {
            return Group::Failed(unrun(jobs), error::sql(error));
        }
        if let Err(error) = db.check_kept() {
            roll_back(db);
            return Group::Failed(unrun(jobs), error);
        }
        let (start, mut ran) = (db.writes(), Vec::with_capacity(jobs.len()));
        let mut tx = Tx::new(db, self.clock.now());
        let mut next = jobs.into_iter();
        while let Some(mut job) = next.next().or_else(&mut more) {
            tx.now = self.clock.now();
            let outcome = caught(|| job.run(&mut tx));
            // A failed job may have changed rows and the state of `tx`: the rollback undoes both.
            let has_failed = outcome.is_err();
            ran.push((job, outcome));
            if has_failed {
                ran.extend(next.map(|job| (job, Ok(()))));
                roll_back(tx.db);
                drop(turn);
                return Group::RolledBack(ran);
            }
            let is_full = tx.db.writes() - start > GROUP_WRITES_MAX;
            if ran.len() >= GROUP_MAX || is_full {
                break;
            }
        }
        let outcome = commit(&mut tx);
        drop(turn);
        match outcome {
            Ok(notices) => Group::Committed(ran, notices),
            Err(error) => Group::Failed(ran, error),
        }
    }

    /// Fails the next writing call in the way that a test asked for.
    fn run_armed(&mut self, db: &mut Db<'_>, mut job: Box<dyn Job>, fault: Fault) {
        let down = || Error::new(ErrorKind::Unavailable, "the store is down (injected)");
        match fault {
            Fault::BeforeCommit => job.answer(Err(down())),
            Fault::MidCommit => {
                let begun = db.control(Query::BeginWrite).map_err(error::sql);
                let begun = begun.and_then(|()| db.check_kept());
                let mut tx = Tx::new(db, self.clock.now());
                let outcome = begun.and_then(|()| job.run(&mut tx));
                roll_back(tx.db);
                job.answer(outcome.and_then(|()| Err(down())));
            }
            Fault::AfterCommit => {
                let lost = Error::new(
                    ErrorKind::Ambiguous,
                    "the commit was not confirmed (injected)",
                );
                match self.transact(db, vec![job], || None) {
                    Group::Committed(ran, notices) => {
                        (self.notify)(notices);
                        for (job, outcome) in ran {
                            job.answer(outcome.and_then(|()| Err(lost.clone())));
                        }
                    }
                    Group::Failed(ran, _) | Group::RolledBack(ran) => {
                        for (job, outcome) in ran {
                            job.answer(outcome.and_then(|()| Err(down())));
                        }
                    }
                }
            }
        }
    }
}

fn commit(tx: &mut Tx<'_, '_>) -> Result<Vec<Notice>> {
    let notices = match tx.finish() {
        Ok(notices) => notices,
        Err(error) => {
            roll_back(tx.db);
            return Err(error);
        }
    };
    match tx.db.control(Query::Commit) {
        Ok(()) => {
            tx.db.names.committed();
            tx.db.keep();
            Ok(notices)
        }
        Err(failed) => {
            roll_back(tx.db);
            Err(error::commit(failed))
        }
    }
}

fn roll_back(db: &mut Db<'_>) {
    if !db.conn().is_autocommit() {
        // ROLLBACK fails only if SQLite has already rolled back by itself.
        let _ = db.conn().execute_batch("ROLLBACK");
    }
    db.names.rolled_back();
    db.kept = Kept::default();
}

/// A panic in one job must not end the thread that serves all of them.
fn caught(work: impl FnOnce() -> Result<()>) -> Result<()> {
    let panicked = |_: Box<dyn Any + Send>| {
        Err(Error::new(
            ErrorKind::Internal,
            "the adapter panicked; nothing was written",
        ))
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
}
