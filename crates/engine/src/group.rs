//! Group commit: concurrent callers share store calls.
//!
//! The first caller starts a driver. While its commit is in progress, other writes of any kind
//! queue up and go into the next commit together. There is no timer: a lone caller's write is
//! committed at once. The queue is bounded: a caller that finds it full waits for room.
//!
//! A commit that does not return does not block the others: after a while a second driver continues
//! with the queue, so that several commits may be outstanding. The order of commits does not
//! matter: each write is guarded by its own fence or keys. A write that waits in the queue for
//! longer than the store timeout is withdrawn, and nothing of it happens.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Amendment, Answer, BeginRequest, Changed, Clock, Extension, LetterChange,
    LetterChanged, NewOperation, Operation, Refused, Reschedule, Spawner, Store, Write, Written,
};
use clinch_core::{Error, ErrorKind, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::panics::caught;
use crate::{Config, Ports};

/// Maximum number of commits that may be outstanding because the store does not answer. With more
/// of them the store is down, and a further call would only wait too.
const STALLED_MAX: usize = 7;

/// A commit blocks the queue for at most this fraction of the store timeout (1/10). Then another
/// driver continues with the queue.
const STALLED_AFTER: u32 = 10;

/// The result of a change of a row.
pub(crate) type Outcome = Result<Result<Changed, Refused>>;

/// Commits the writes of this process together, except those that are a commit of their own.
pub(crate) struct GroupCommit {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    room: Arc<Semaphore>,
    /// One permit for each commit that may be stalled.
    stalled: Arc<Semaphore>,
    batch: usize,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    spawner: Arc<dyn Spawner>,
    store: Arc<dyn Store>,
    routes: Arc<Routes>,
}

/// A write and its caller.
struct Waiting {
    number: u64,
    write: Write,
    reply: oneshot::Sender<Result<Written>>,
    /// Its room in the queue, taken until the commit, even if the caller disconnects.
    room: OwnedSemaphorePermit,
}

struct Queue {
    /// In the order of their numbers.
    waiting: VecDeque<Waiting>,
    last: u64,
    driving: bool,
}

impl GroupCommit {
    pub(crate) fn new(ports: &Ports, routes: &Arc<Routes>, config: &Config) -> Self {
        let queue = Queue {
            waiting: VecDeque::new(),
            last: 0,
            driving: false,
        };
        let shared = Shared {
            queue: Mutex::new(queue),
            room: Arc::new(Semaphore::new(config.queue_max.max(1))),
            stalled: Arc::new(Semaphore::new(STALLED_MAX)),
            batch: config.batch.max(1),
            timeout: config.store_timeout,
            clock: ports.clock.clone(),
            spawner: ports.spawner.clone(),
            store: ports.store.clone(),
            routes: routes.clone(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(crate) async fn accept(&self, new: NewOperation) -> Result<Accepted> {
        self.call(Write::Accept(new)).await?.accepted()
    }

    pub(crate) async fn begin(&self, begin: BeginRequest) -> Result<Result<Operation, Refused>> {
        self.call(Write::Begin(begin)).await?.begun()
    }

    pub(crate) async fn extend(&self, extension: Extension) -> Outcome {
        self.call(Write::Extend(extension)).await?.changed()
    }

    pub(crate) async fn settle(&self, answer: Answer) -> Outcome {
        self.call(Write::Settle(answer)).await?.changed()
    }

    pub(crate) async fn reschedule(&self, attempt: Reschedule) -> Outcome {
        self.call(Write::Reschedule(attempt)).await?.changed()
    }

    pub(crate) async fn amend(&self, amendment: Amendment) -> Outcome {
        self.call(Write::Amend(amendment)).await?.changed()
    }

    /// Commits changes of rows, at most `batch` of them in one commit. A write that fails fails
    /// alone.
    pub(crate) async fn change_all(&self, writes: Vec<Write>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(writes.len());
        for batch in writes.chunks(self.shared.batch) {
            let written = commit(&self.shared, batch.to_vec()).await;
            outcomes.extend(
                written
                    .into_iter()
                    .map(|one| one.and_then(Written::changed)),
            );
        }
        outcomes
    }

    /// Commits new operations in a commit of their own: all or none.
    pub(crate) async fn accept_all(&self, new: Vec<NewOperation>) -> Result<Vec<Accepted>> {
        let writes: Vec<Write> = new.into_iter().map(Write::Accept).collect();
        let written = attempt(&self.shared, &writes).await?;
        written.into_iter().map(Written::accepted).collect()
    }

    /// Commits changes of dead letters in a commit of their own: all or none.
    pub(crate) async fn change_letters(
        &self,
        changes: Vec<LetterChange>,
    ) -> Result<Vec<LetterChanged>> {
        let writes: Vec<Write> = changes.into_iter().map(Write::Letter).collect();
        let written = attempt(&self.shared, &writes).await?;
        written.into_iter().map(Written::letter).collect()
    }

    /// Commits a write together with other waiting writes. If the caller disconnects, the commit
    /// happens nevertheless. A write whose turn does not come in time is withdrawn: `Unavailable`.
    pub(crate) async fn call(&self, write: Write) -> Result<Written> {
        let shared = &self.shared;
        let lost = |_| Error::new(ErrorKind::Ambiguous, "the commit was not confirmed");
        let mut late = pin!(shared.clock.sleep(shared.timeout));
        let room = tokio::select! {
            biased;
            room = shared.room.clone().acquire_owned() => room,
            () = &mut late => return Err(too_slow()),
        };
        let room = room.map_err(|_| Error::new(ErrorKind::Unavailable, "the engine stopped"))?;
        let (reply, mut answer) = oneshot::channel();
        let (number, starts) = shared.push(write, reply, room);
        if starts {
            start(shared);
        }
        tokio::select! {
            biased;
            answer = &mut answer => return answer.map_err(lost)?,
            () = &mut late => {}
        }
        if shared.withdraw(number) {
            return Err(too_slow());
        }
        answer.await.map_err(lost)?
    }
}

fn too_slow() -> Error {
    let message = "the store is too slow or does not answer; nothing was changed";
    Error::new(ErrorKind::Unavailable, message)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the write's number. True: no driver runs, so the caller starts one.
    fn push(
        &self,
        write: Write,
        reply: oneshot::Sender<Result<Written>>,
        room: OwnedSemaphorePermit,
    ) -> (u64, bool) {
        let mut queue = self.lock();
        queue.last += 1;
        let number = queue.last;
        queue.waiting.push_back(Waiting {
            number,
            write,
            reply,
            room,
        });
        (number, !std::mem::replace(&mut queue.driving, true))
    }

    /// Withdraws a write that still waits, so that it is not committed. False: it no longer waits.
    fn withdraw(&self, number: u64) -> bool {
        let waiting = &mut self.lock().waiting;
        let found = waiting.binary_search_by_key(&number, |one| one.number);
        found.is_ok_and(|at| waiting.remove(at).is_some())
    }

    /// The next writes to commit. Empty: the driver ends.
    fn next(&self) -> Vec<Waiting> {
        let mut queue = self.lock();
        let count = queue.waiting.len().min(self.batch);
        queue.driving = count > 0;
        queue.waiting.drain(..count).collect()
    }
}

fn start(shared: &Arc<Shared>) {
    shared.spawner.spawn(Box::pin(drive(shared.clone())));
}

async fn drive(shared: Arc<Shared>) {
    loop {
        let batch = shared.next();
        if batch.is_empty() {
            return;
        }
        let mut served = pin!(serve(&shared, batch));
        tokio::select! {
            biased;
            () = &mut served => {
                // The callers that this commit answered run first, so that their next writes join
                // the next group instead of forming the one after it.
                yield_once().await;
                continue;
            }
            () = shared.clock.sleep(shared.timeout / STALLED_AFTER) => {}
        }
        match shared.stalled.clone().try_acquire_owned() {
            Ok(_stalled) => {
                // Another driver continues with the queue; this one ends with its commit.
                start(&shared);
                served.await;
                return;
            }
            Err(_) => served.await,
        }
    }
}

/// Lets every task that is ready now run before this one continues.
async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Commits the writes and answers their callers.
async fn serve(shared: &Shared, batch: Vec<Waiting>) {
    let pair = |one: Waiting| (one.write, (one.reply, one.room));
    let (writes, replies): (Vec<Write>, Vec<_>) = batch.into_iter().map(pair).unzip();
    let results = commit(shared, writes).await;
    for ((reply, room), result) in replies.into_iter().zip(results) {
        drop(room);
        // The caller may have disconnected.
        let _ = reply.send(result);
    }
}

/// Commits all writes together. If that fails with an error that retrying does not fix, each write
/// is committed alone: one caller's mistake, or one damaged row, must not fail the others.
async fn commit(shared: &Shared, writes: Vec<Write>) -> Vec<Result<Written>> {
    match attempt(shared, &writes).await {
        Ok(written) => written.into_iter().map(Ok).collect(),
        Err(error) if writes.len() > 1 && !may_help(&error) => {
            let mut results = Vec::with_capacity(writes.len());
            for write in &writes {
                let written = attempt(shared, std::slice::from_ref(write)).await;
                results.push(written.and_then(only));
            }
            results
        }
        Err(error) => writes.iter().map(|_| Err(error.clone())).collect(),
    }
}

async fn attempt(shared: &Shared, writes: &[Write]) -> Result<Vec<Written>> {
    let panicked = |_| Error::new(ErrorKind::Ambiguous, "the store adapter panicked");
    let committed = Box::pin(shared.store.commit(writes, &shared.routes));
    let written = caught(committed).await.map_err(panicked)??;
    if written.len() == writes.len() {
        Ok(written)
    } else {
        let message = "the store adapter returned a wrong number of results";
        Err(Error::new(ErrorKind::Ambiguous, message))
    }
}

fn only(written: Vec<Written>) -> Result<Written> {
    let missing = || Error::new(ErrorKind::Ambiguous, "the store adapter returned no result");
    written.into_iter().next().ok_or_else(missing)
}

/// Whether retrying may help. Every write of an attempt carries its fence, so repeating a write
/// whose commit is ambiguous is safe: the second is refused as stale or settled.
pub(crate) fn may_help(error: &Error) -> bool {
    error.is_retryable() || error.kind() == ErrorKind::Ambiguous
}
