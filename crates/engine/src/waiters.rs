//! Callers that wait for an operation to settle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::OpId;
use clinch_core::ports::Operation;
use tokio::sync::watch;

/// The final row of an operation, if this process knows it. A terminal row never changes.
type End = Option<Arc<Operation>>;

/// Waiters by operation. A settle in this process wakes them directly, and often with the final
/// row. A settle elsewhere wakes them by the store's notices, which are only a hint: then the
/// waiter reads the row.
#[derive(Default)]
pub(crate) struct Waiters {
    looked_at: Mutex<Duration>,
    by_op: Mutex<BTreeMap<OpId, watch::Sender<End>>>,
}

/// Waits for one operation. Unregistered when dropped.
pub(crate) struct Waiter {
    waiters: Arc<Waiters>,
    op_id: OpId,
    /// `None` only while the waiter is dropped.
    news: Option<watch::Receiver<End>>,
}

impl Waiters {
    /// Register before reading the row, or before accepting it, so that a settle in between is not
    /// missed.
    pub(crate) fn register(self: &Arc<Self>, op_id: OpId) -> Waiter {
        let mut by_op = self.lock();
        let sender = by_op
            .entry(op_id)
            .or_insert_with(|| watch::Sender::new(None));
        let news = Some(sender.subscribe());
        drop(by_op);
        Waiter {
            waiters: self.clone(),
            op_id,
            news,
        }
    }

    /// The operation settled, or may have. `end` makes the final row, if it is known; it is called
    /// only for an operation that has a waiter.
    pub(crate) fn wake(&self, op_id: OpId, end: impl FnOnce() -> Option<Operation>) {
        if let Some(sender) = self.lock().get(&op_id) {
            sender.send_modify(|told| {
                if told.is_none() {
                    *told = end().map(Arc::new);
                }
            });
        }
    }

    /// True at most once per `every`: then the caller reads the rows.
    pub(crate) fn is_time_to_look(&self, now: Duration, every: Duration) -> bool {
        let mut looked_at = self
            .looked_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let due = now.saturating_sub(*looked_at) >= every;
        if due {
            *looked_at = now;
        }
        due
    }

    /// Every operation that has a waiter.
    pub(crate) fn waited_for(&self) -> Vec<OpId> {
        self.lock().keys().copied().collect()
    }

    /// Notices were lost: wakes every waiter.
    pub(crate) fn wake_all(&self) {
        for sender in self.lock().values() {
            sender.send_modify(|_| {});
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OpId, watch::Sender<End>>> {
        self.by_op.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    pub(crate) fn op_id(&self) -> OpId {
        self.op_id
    }

    /// The final row, if this process settled the operation and knows it. Marks all wakes up to now
    /// as seen: call this before reading the row, so that a wake during the read counts.
    pub(crate) fn look(&mut self) -> Option<Operation> {
        let news = self.news.as_mut()?;
        let end = news.borrow_and_update().clone();
        end.map(Arc::unwrap_or_clone)
    }

    /// Returns when a wake came after the last `look`.
    pub(crate) async fn woken(&mut self) {
        if let Some(news) = &mut self.news {
            // The sender lives as long as this receiver does: waiting cannot fail.
            let _ = news.changed().await;
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut by_op = self.waiters.lock();
        self.news = None;
        let last = by_op
            .get(&self.op_id)
            .is_some_and(|sender| sender.receiver_count() == 0);
        if last {
            by_op.remove(&self.op_id);
        }
    }
}
