//! Callers that wait for an operation to settle.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::OpId;
use tokio::sync::watch;

/// Waiters by operation. Woken by the settle itself in this process, and by the store's news
/// for settles elsewhere. A wake is a hint: who is woken reads the row.
#[derive(Default)]
pub(crate) struct Waiters {
    looked_at: Mutex<Duration>,
    by_op: Mutex<BTreeMap<OpId, watch::Sender<()>>>,
}

/// A place to wait. Dropping it leaves no trace.
pub(crate) struct Waiter<'a> {
    waiters: &'a Waiters,
    op_id: OpId,
    /// `None` only while it is dropped.
    news: Option<watch::Receiver<()>>,
}

impl Waiters {
    /// Registers before looking at the row: what happens in between is not missed.
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

    /// True once within `every`: the caller looks at the rows.
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

    /// Every operation that somebody waits for.
    pub(crate) fn waited_for(&self) -> Vec<OpId> {
        self.lock().keys().copied().collect()
    }

    /// News were lost: everyone looks.
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
    /// Everything up to now has been seen. Said before the row is read: a wake that comes
    /// after this one counts, whatever the read shows.
    pub(crate) fn look(&mut self) {
        if let Some(news) = &mut self.news {
            news.borrow_and_update();
        }
    }

    /// Returns when there was a wake since the last look.
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
