//! Accepts share commits: calls that come while others are under way go into the next
//! transaction together. Nobody waits for a timer, and a lone caller waits for nobody.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clinch_core::policy::Routes;
use clinch_core::ports::{Accepted, NewOperation};
use clinch_core::{Error, ErrorKind, Result};
use tokio::sync::{Semaphore, oneshot};

use crate::Shared;
use crate::run::Work;
use crate::store::give_seqs;
use crate::tx::Tx;

/// Transactions at the same time: while one is on its way to the disk the next is made.
const DRIVERS_MAX: usize = 2;
/// Operations of one transaction, unless one call alone has more.
const ITEMS_MAX: usize = 1_000;
/// Calls that wait: far more than there are connections, little enough to remember.
const WAITING_MAX: usize = 16_384;

/// One call.
pub(crate) struct Call {
    pub new: Vec<NewOperation>,
    pub routes: Arc<Routes>,
}

type Reply = oneshot::Sender<Result<Vec<Accepted>>>;

/// Calls that wait for a transaction.
pub(crate) struct Group {
    queue: Mutex<Queue>,
    room: Semaphore,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Arc<Call>, Reply)>,
    drivers: usize,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            queue: Mutex::default(),
            room: Semaphore::new(WAITING_MAX),
        }
    }
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True: somebody else has to take it, so the caller starts a driver.
    fn push(&self, call: Call, reply: Reply) -> bool {
        let mut queue = self.lock();
        queue.waiting.push_back((Arc::new(call), reply));
        let starts = queue.drivers < DRIVERS_MAX;
        queue.drivers += usize::from(starts);
        starts
    }

    /// The calls of the next transaction; none ends the driver.
    fn next(&self) -> Vec<(Arc<Call>, Reply)> {
        let mut queue = self.lock();
        let (mut calls, mut items) = (Vec::new(), 0);
        while let Some((call, _)) = queue.waiting.front() {
            items += call.new.len();
            if items > ITEMS_MAX && !calls.is_empty() {
                break;
            }
            calls.extend(queue.waiting.pop_front());
        }
        queue.drivers -= usize::from(calls.is_empty());
        calls
    }
}

impl Shared {
    /// Accepts in the next transaction. If the caller goes away it happens all the same.
    pub(crate) async fn accept(self: &Arc<Self>, call: Call) -> Result<Vec<Accepted>> {
        let closed = |_| Error::new(ErrorKind::Unavailable, "the store is closed");
        let _room = self.group.room.acquire().await.map_err(closed)?;
        let (reply, answer) = oneshot::channel();
        if self.group.push(call, reply) {
            tokio::spawn(drive(self.clone()));
        }
        let message = "the call was not finished; read back whether it happened";
        let lost = |_| Error::new(ErrorKind::Ambiguous, message);
        answer.await.map_err(lost)?
    }

    async fn accept_together(
        self: &Arc<Self>,
        calls: Vec<Arc<Call>>,
    ) -> Result<Vec<Vec<Accepted>>> {
        let accepted = self.transact(move |tx| work(tx, calls.clone()));
        let (mut accepted, seqs) = accepted.await?;
        for accepted in &mut accepted {
            give_seqs(accepted, &seqs);
        }
        Ok(accepted)
    }
}

fn work<'t>(tx: &'t mut Tx<'_>, calls: Vec<Arc<Call>>) -> Work<'t, Vec<Vec<Accepted>>> {
    Box::pin(async move {
        let mut accepted = Vec::with_capacity(calls.len());
        tx.prepare_calls(&calls).await?;
        for call in &calls {
            accepted.push(tx.accept_all(&call.new, &call.routes).await?);
        }
        Ok(accepted)
    })
}

async fn drive(shared: Arc<Shared>) {
    loop {
        // Whoever was just answered may come back with more.
        tokio::task::yield_now().await;
        let calls = shared.group.next();
        if calls.is_empty() {
            return;
        }
        let (calls, replies): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
        // A caller that went away does not need its answer.
        match shared.accept_together(calls.clone()).await {
            Ok(accepted) => {
                for (reply, accepted) in replies.into_iter().zip(accepted) {
                    let _ = reply.send(Ok(accepted));
                }
            }
            // One caller's mistake is not the others': each goes alone.
            Err(error) if calls.len() > 1 && is_somebodys(&error) => {
                for (call, reply) in calls.into_iter().zip(replies) {
                    let alone = shared.accept_together(vec![call]).await;
                    let _ = reply.send(alone.and_then(only));
                }
            }
            Err(error) => {
                for reply in replies {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }
}

fn is_somebodys(error: &Error) -> bool {
    !error.is_retryable() && error.kind() != ErrorKind::Ambiguous
}

fn only(accepted: Vec<Vec<Accepted>>) -> Result<Vec<Accepted>> {
    let missing = || Error::new(ErrorKind::Internal, "an accept without an answer");
    accepted.into_iter().next().ok_or_else(missing)
}
