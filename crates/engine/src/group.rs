//! Group commit: concurrent callers share store calls.
//!
//! The first caller starts a driver; while its commit is under way, others queue up and go
//! into the next one together. Nobody waits for a timer, and a lone caller waits for nobody.
//! The queue is bounded: who finds it full waits for room.
//!
//! A commit that does not come back does not hold up the others: after a while another driver
//! goes on with the queue, so that several commits may be outstanding. Their order means
//! nothing: each item is guarded by its own fence or keys. An item that waits in the queue for
//! longer than a store call may take is withdrawn, and nothing of it happens.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Amendment, Answer, BeginRequest, Changed, Clock, Extension, NewOperation, Operation,
    Refused, Reschedule, Spawner,
};
use clinch_core::{Error, ErrorKind, OpId, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::panics::caught;
use crate::settle::may_help;
use crate::{Config, Ports};

/// Commits of one kind that may be outstanding because the store does not answer. A store that
/// leaves more unanswered is down, and further calls would only wait with them.
const STALLED_MAX: usize = 7;

/// A commit that takes longer than this part of the store's timeout holds up nobody else.
const STALLED_AFTER: u32 = 10;

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Commit<I, O> = dyn Fn(Vec<I>) -> Task<Result<Vec<O>>> + Send + Sync;

/// Every shared store call of the hot path.
pub(crate) struct Groups {
    pub accept: Group<NewOperation, Accepted>,
    pub begin: Group<BeginRequest, Result<Operation, Refused>>,
    pub extend: Group<Extension, Result<Changed, Refused>>,
    pub settle: Group<Answer, Result<Changed, Refused>>,
    pub reschedule: Group<Reschedule, Result<Changed, Refused>>,
    pub amend: Group<Amendment, Result<Changed, Refused>>,
    pub finalize: Group<OpId, Result<Changed, Refused>>,
}

/// A call as a boxed task on its own copy of the store and the routes.
macro_rules! shared {
    ($ports:expr, $routes:expr, $config:expr, |$store:ident, $items:ident, $by:ident| $call:expr) => {{
        let (store, routes) = ($ports.store.clone(), $routes.clone());
        let commit = move |$items: Vec<_>| {
            let ($store, $by) = (store.clone(), routes.clone());
            Box::pin(async move { $call.await }) as Task<_>
        };
        Group::new($config, $ports, Box::new(commit))
    }};
}

impl Groups {
    pub(crate) fn new(
        ports: &Ports,
        routes: &Arc<Routes>,
        runnable: &Arc<Routes>,
        config: &Config,
    ) -> Self {
        Self {
            accept: shared!(ports, routes, config, |s, new, by| s.accept(&new, &by)),
            begin: shared!(ports, runnable, config, |s, begins, by| s
                .begin(&begins, &by)),
            extend: shared!(ports, routes, config, |s, leases, _by| s.extend(&leases)),
            settle: shared!(ports, routes, config, |s, answers, by| s
                .settle(&answers, &by)),
            reschedule: shared!(ports, routes, config, |s, ends, by| s
                .reschedule(&ends, &by)),
            amend: shared!(ports, routes, config, |s, changes, by| s
                .amend(&changes, &by)),
            finalize: shared!(ports, routes, config, |s, ops, by| s.finalize(&ops, &by)),
        }
    }
}

/// Callers of one store method.
pub(crate) struct Group<I, O> {
    shared: Arc<Shared<I, O>>,
}

struct Shared<I, O> {
    queue: Mutex<Queue<I, O>>,
    room: Arc<Semaphore>,
    /// One for each commit that does not come back.
    stalled: Arc<Semaphore>,
    batch: usize,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    spawner: Arc<dyn Spawner>,
    commit: Box<Commit<I, O>>,
}

/// An item and its caller.
struct Waiting<I, O> {
    number: u64,
    item: I,
    reply: oneshot::Sender<Result<O>>,
    /// Its room in the queue: taken until the commit, also when the caller goes away.
    room: OwnedSemaphorePermit,
}

struct Queue<I, O> {
    /// By number.
    waiting: VecDeque<Waiting<I, O>>,
    last: u64,
    driving: bool,
}

impl<I: Clone + Send + 'static, O: Send + 'static> Group<I, O> {
    fn new(config: &Config, ports: &Ports, commit: Box<Commit<I, O>>) -> Self {
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
            commit,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Commits all of these, together with whoever else waits; an item that fails fails alone.
    pub(crate) async fn call_all(&self, items: Vec<I>) -> Vec<Result<O>> {
        let mut results = Vec::with_capacity(items.len());
        for batch in items.chunks(self.shared.batch) {
            results.extend(commit(&self.shared, batch.to_vec()).await);
        }
        results
    }

    /// Commits `item` together with whoever else waits. If the caller goes away the commit
    /// happens all the same. An item whose turn does not come in time is withdrawn:
    /// `Unavailable`.
    pub(crate) async fn call(&self, item: I) -> Result<O> {
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
        let (number, starts) = shared.push(item, reply, room);
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

impl<I, O> Shared<I, O> {
    fn lock(&self) -> MutexGuard<'_, Queue<I, O>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The item's number. True: nobody drives, so the caller starts it.
    fn push(
        &self,
        item: I,
        reply: oneshot::Sender<Result<O>>,
        room: OwnedSemaphorePermit,
    ) -> (u64, bool) {
        let mut queue = self.lock();
        queue.last += 1;
        let number = queue.last;
        queue.waiting.push_back(Waiting {
            number,
            item,
            reply,
            room,
        });
        (number, !std::mem::replace(&mut queue.driving, true))
    }

    /// True: it was still waiting, and is not committed.
    fn withdraw(&self, number: u64) -> bool {
        let waiting = &mut self.lock().waiting;
        let found = waiting.binary_search_by_key(&number, |one| one.number);
        found.is_ok_and(|at| waiting.remove(at).is_some())
    }

    /// The next batch, or the end of the drive.
    fn next(&self) -> Vec<Waiting<I, O>> {
        let mut queue = self.lock();
        let count = queue.waiting.len().min(self.batch);
        queue.driving = count > 0;
        queue.waiting.drain(..count).collect()
    }
}

fn start<I: Clone + Send + 'static, O: Send + 'static>(shared: &Arc<Shared<I, O>>) {
    shared.spawner.spawn(Box::pin(drive(shared.clone())));
}

async fn drive<I: Clone + Send + 'static, O: Send + 'static>(shared: Arc<Shared<I, O>>) {
    loop {
        let batch = shared.next();
        if batch.is_empty() {
            return;
        }
        let mut served = pin!(serve(&shared, batch));
        tokio::select! {
            biased;
            () = &mut served => continue,
            () = shared.clock.sleep(shared.timeout / STALLED_AFTER) => {}
        }
        match shared.stalled.clone().try_acquire_owned() {
            Ok(_stalled) => {
                // Another one goes on with the queue; this one ends with its commit.
                start(&shared);
                served.await;
                return;
            }
            Err(_) => served.await,
        }
    }
}

/// Commits a batch and answers its callers.
async fn serve<I: Clone + Send + 'static, O: Send + 'static>(
    shared: &Shared<I, O>,
    batch: Vec<Waiting<I, O>>,
) {
    let pair = |one: Waiting<I, O>| (one.item, (one.reply, one.room));
    let (items, replies): (Vec<I>, Vec<_>) = batch.into_iter().map(pair).unzip();
    let results = commit(shared, items).await;
    for ((reply, room), result) in replies.into_iter().zip(results) {
        drop(room);
        // A caller that went away does not need its answer.
        let _ = reply.send(result);
    }
}

/// One commit for all. If it fails in a way that trying again does not help, each goes alone:
/// one caller's mistake, or one damaged row, is not the others'.
async fn commit<I: Clone + Send + 'static, O: Send + 'static>(
    shared: &Shared<I, O>,
    items: Vec<I>,
) -> Vec<Result<O>> {
    let count = items.len();
    let retry = (count > 1).then(|| items.clone());
    match (attempt(shared, items).await, retry) {
        (Ok(results), _) => results.into_iter().map(Ok).collect(),
        (Err(error), Some(items)) if !may_help(&error) => {
            let mut results = Vec::with_capacity(count);
            for item in items {
                let result = attempt(shared, vec![item]).await;
                results.push(result.and_then(only));
            }
            results
        }
        (Err(error), _) => (0..count).map(|_| Err(error.clone())).collect(),
    }
}

async fn attempt<I: Clone + Send + 'static, O: Send + 'static>(
    shared: &Shared<I, O>,
    items: Vec<I>,
) -> Result<Vec<O>> {
    let count = items.len();
    let panicked = |_| Error::new(ErrorKind::Ambiguous, "the store adapter panicked");
    let results = caught((shared.commit)(items)).await.map_err(panicked)??;
    if results.len() == count {
        Ok(results)
    } else {
        let message = "the store adapter answered with another number of results";
        Err(Error::new(ErrorKind::Ambiguous, message))
    }
}

fn only<O>(results: Vec<O>) -> Result<O> {
    let missing = || Error::new(ErrorKind::Ambiguous, "the store adapter gave no result");
    results.into_iter().next().ok_or_else(missing)
}
