//! Callers that wait for an operation to settle.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::OpId;
use tokio::sync::watch;

/// Waiters by operation. A settle in this process wakes them directly, a settle elsewhere by the
/// store's notices. A wake is only a hint: the waiter reads the row.
#[derive(Default)]
pub(crate) struct Waiters {
    looked_at: Mutex<Duration>,
    by_op: Mutex<BTreeMap<OpId, watch::Sender<()>>>,
}

/// Waits for one operation. Unregistered when dropped.
pub(crate) struct Waiter<'a> {
    waiters: &'a Waiters,
    op_id: OpId,
    /// `None` only while the waiter is dropped.
    news: Option<watch::Receiver<()>>,
}

impl Waiters {
    /// Register before reading the row, so that a settle in between is not missed.
    pub(crate) fn register(&self, op_id: OpId) -> Waiter<'_> {
        let mut by_op = self.lock();
        let sender = by_op.entry(op_id).or_insert_with(|| watch::Sender::new(()));
        let news = Some(sender.subscribe());
        drop(by_op);
        Waiter {
            waiters: self,
            op_id,
            news,
        }
    }

    pub(crate) fn wake(&self, op_id: OpId) {
        if let Some(sender) = self.lock().get(&op_id) {
            sender.send_replace(());
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
            sender.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OpId, watch::Sender<()>>> {
        self.by_op.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// Marks all wakes up to now as seen. Call this before reading the row, so that a wake during
    /// the read counts.
    pub(crate) fn look(&mut self) {
        if let Some(news) = &mut self.news {
            news.borrow_and_update();
        }
    }

    /// Returns when a wake came after the last `look`.
    pub(crate) async fn woken(&mut self) {
        if let Some(news) = &mut self.news {
            // The sender lives as long as this receiver does: waiting cannot fail.
            let _ = news.changed().await;
        }
    }
}

impl Drop for Waiter<'_> {
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
