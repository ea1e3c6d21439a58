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
    by_op: Mutex<BTreeMap<OpId, watch::Sender<bool>>>,
}

/// A place to wait. Dropping it leaves no trace.
pub(crate) struct Waiter<'a> {
    waiters: &'a Waiters,
    op_id: OpId,
    settled: watch::Receiver<bool>,
}

impl Waiters {
    /// Registers before looking at the row: what happens in between is not missed.
    pub(crate) fn register(&self, op_id: OpId) -> Waiter<'_> {
        let mut by_op = self.lock();
        let sender = by_op
            .entry(op_id)
            .or_insert_with(|| watch::Sender::new(false));
        let settled = sender.subscribe();
        drop(by_op);
        Waiter {
            waiters: self,
            op_id,
            settled,
        }
    }

    pub(crate) fn wake(&self, op_id: OpId) {
        if let Some(sender) = self.lock().get(&op_id) {
            sender.send_replace(true);
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
            sender.send_replace(true);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OpId, watch::Sender<bool>>> {
        self.by_op.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    pub(crate) async fn woken(&mut self) {
        // The sender lives as long as this receiver does: waiting cannot fail.
        let _ = self.settled.wait_for(|settled| *settled).await;
        let _ = self.settled.borrow_and_update();
    }

    /// After a wake that was no settle: wait for the next one.
    pub(crate) fn again(&self) {
        if let Some(sender) = self.waiters.lock().get(&self.op_id) {
            sender.send_replace(false);
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut by_op = self.waiters.lock();
        let last = by_op
            .get(&self.op_id)
            .is_some_and(|s| s.receiver_count() <= 1);
        if last {
            by_op.remove(&self.op_id);
        }
    }
}
