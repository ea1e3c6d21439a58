//! Group commit: concurrent callers share store calls.
//!
//! The first caller starts a driver; while its commit is under way, others queue up and go
//! into the next one together. Nobody waits for a timer, and a lone caller waits for nobody.
//! The queue is bounded: who finds it full waits for room.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Amendment, Answer, BeginRequest, Changed, Extension, NewOperation, Operation,
    Refused, Reschedule, Spawner,
};
use clinch_core::{Error, ErrorKind, OpId, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::panics::caught;
use crate::settle::may_help;
use crate::{Config, Ports};

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
        Group::new($config, $ports.spawner.clone(), Box::new(commit))
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
    spawner: Arc<dyn Spawner>,
}

struct Shared<I, O> {
    queue: Mutex<Queue<I, O>>,
    room: Arc<Semaphore>,
    batch: usize,
    commit: Box<Commit<I, O>>,
}

/// An item, its caller, and its room in the queue: the room is taken until the commit, also
/// when the caller goes away.
type Waiting<I, O> = (I, oneshot::Sender<Result<O>>, OwnedSemaphorePermit);

struct Queue<I, O> {
    waiting: VecDeque<Waiting<I, O>>,
    driving: bool,
}

impl<I: Clone + Send + 'static, O: Send + 'static> Group<I, O> {
    fn new(config: &Config, spawner: Arc<dyn Spawner>, commit: Box<Commit<I, O>>) -> Self {
        let queue = Queue {
            waiting: VecDeque::new(),
            driving: false,
        };
        let shared = Shared {
            queue: Mutex::new(queue),
            room: Arc::new(Semaphore::new(config.queue_max.max(1))),
            batch: config.batch.max(1),
            commit,
        };
        Self {
            shared: Arc::new(shared),
            spawner,
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
    /// happens all the same.
    pub(crate) async fn call(&self, item: I) -> Result<O> {
        let lost = |_| Error::new(ErrorKind::Ambiguous, "the commit was not confirmed");
        let room = self.shared.room.clone().acquire_owned().await;
        let room = room.map_err(|_| Error::new(ErrorKind::Unavailable, "the engine stopped"))?;
        let (reply, answer) = oneshot::channel();
        if self.shared.push(item, reply, room) {
            self.spawner.spawn(Box::pin(drive(self.shared.clone())));
        }
        answer.await.map_err(lost)?
    }
}

impl<I, O> Shared<I, O> {
    fn lock(&self) -> MutexGuard<'_, Queue<I, O>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True: nobody drives, so the caller starts it.
    fn push(&self, item: I, reply: oneshot::Sender<Result<O>>, room: OwnedSemaphorePermit) -> bool {
        let mut queue = self.lock();
        queue.waiting.push_back((item, reply, room));
        !std::mem::replace(&mut queue.driving, true)
    }

    /// The next batch, or the end of the drive.
    fn next(&self) -> Vec<Waiting<I, O>> {
        let mut queue = self.lock();
        let count = queue.waiting.len().min(self.batch);
        queue.driving = count > 0;
        queue.waiting.drain(..count).collect()
    }
}

async fn drive<I: Clone + Send + 'static, O: Send + 'static>(shared: Arc<Shared<I, O>>) {
    loop {
        let batch = shared.next();
        if batch.is_empty() {
            return;
        }
        let pair = |(item, reply, room)| (item, (reply, room));
        let (items, replies): (Vec<I>, Vec<_>) = batch.into_iter().map(pair).unzip();
        let results = commit(&shared, items).await;
        for ((reply, room), result) in replies.into_iter().zip(results) {
            drop(room);
            // A caller that went away does not need its answer.
            let _ = reply.send(result);
        }
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
