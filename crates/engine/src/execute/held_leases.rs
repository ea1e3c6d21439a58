//! The attempts that this process leased to remote workers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::OpId;
use clinch_core::ports::{Admitted, Verdict};
use tokio::sync::Semaphore;

use super::Workers;

/// Remote workers that may wait on the bus at once. Each read may take a connection, and this
/// process's own workers need connections too. Further remote workers take turns.
const READERS_MAX: usize = 32;

/// The attempts that this process leased and that have no report yet.
pub(crate) struct Leases {
    by_op: Mutex<BTreeMap<OpId, HeldLease>>,
    /// Limits the remote workers that wait on the bus.
    pub(super) readers: Semaphore,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            by_op: Mutex::default(),
            readers: Semaphore::new(READERS_MAX),
        }
    }
}

/// One leased attempt.
pub(super) struct HeldLease {
    pub(super) fence: u64,
    /// Monotonic time at which it was leased.
    pub(super) since: Duration,
    /// Monotonic time at which the lease ends, as far as this process knows.
    pub(super) until: Duration,
    /// The permits of its destination's guards.
    pub(super) admitted: Admitted,
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<OpId, HeldLease>> {
        self.by_op.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, op_id: OpId, held: HeldLease) {
        self.lock().insert(op_id, held);
    }

    pub(super) fn take(&self, op_id: OpId, fence: u64) -> Option<HeldLease> {
        let mut by_op = self.lock();
        let ours = by_op.get(&op_id).is_some_and(|one| one.fence == fence);
        ours.then(|| by_op.remove(&op_id)).flatten()
    }

    pub(super) fn extend(&self, op_id: OpId, fence: u64, until: Duration) {
        if let Some(one) = self.lock().get_mut(&op_id)
            && one.fence == fence
        {
            one.until = one.until.max(until);
        }
    }

    fn ended(&self, now: Duration) -> Vec<(OpId, u64)> {
        let by_op = self.lock();
        let ended = by_op.iter().filter(|(_, one)| one.until <= now);
        ended.map(|(op_id, one)| (*op_id, one.fence)).collect()
    }

    pub(super) fn first_end(&self) -> Option<Duration> {
        self.lock().values().map(|one| one.until).min()
    }
}

impl Workers {
    /// A leased attempt ended: reports the verdict to its guards, and returns how long the attempt
    /// took.
    pub(super) fn lease_ended(
        &self,
        held: HeldLease,
        verdict: impl FnOnce(Duration) -> Verdict,
    ) -> Duration {
        let took = self.ports.clock.monotonic().saturating_sub(held.since);
        held.admitted.report(verdict(took));
        self.wakes.call_ended();
        took
    }

    /// The operation is settled, perhaps by a report to another process.
    pub(crate) fn lease_settled(&self, op_id: OpId) {
        let held = self.leases.lock().remove(&op_id);
        if let Some(held) = held {
            self.lease_ended(held, |_| Verdict::Ignored);
        }
    }

    /// Frees the guards' permits of attempts whose lease has ended and that are no longer live:
    /// lost attempts, and attempts that were reported to another process.
    pub(super) async fn sweep_leases(&self) {
        let now = self.ports.clock.monotonic();
        let ended = self.leases.ended(now);
        if ended.is_empty() {
            return;
        }
        let ops: Vec<OpId> = ended.iter().map(|(op_id, _)| *op_id).collect();
        let Ok(rows) = self.ports.inspect.get(&ops).await else {
            return;
        };
        for ((op_id, fence), row) in ended.into_iter().zip(rows) {
            let state = row.map(|row| row.state);
            if state.as_ref().is_some_and(|state| state.is_current(fence)) {
                // Another process extended the lease, or the Reaper has not reached the row yet.
                let until = now.saturating_add(self.config.fallback_poll);
                self.leases.extend(op_id, fence, until);
            } else if let Some(held) = self.leases.take(op_id, fence) {
                let is_lost = state.is_some_and(|state| state.deliveries > 0);
                self.lease_ended(held, |took| match is_lost {
                    true => Verdict::Failed { took },
                    false => Verdict::Ignored,
                });
            }
        }
    }
}
