//! What remote workers hold, as far as this process leased it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::ports::{Admitted, Verdict};
use clinch_core::{Domain, OpId};
use tokio::sync::{Semaphore, watch};

use crate::node::Node;

/// Wakes the workers that wait for work of a domain.
pub(crate) struct DueNews(BTreeMap<Domain, watch::Sender<u64>>);

impl DueNews {
    pub(crate) fn new<'a>(domains: impl Iterator<Item = &'a Domain>) -> Self {
        let news = |domain: &Domain| (domain.clone(), watch::Sender::new(0));
        Self(domains.map(news).collect())
    }

    /// Rows of this domain may be due; `None`: of any.
    pub(crate) fn tell(&self, domain: Option<&Domain>) {
        let told = self.0.iter();
        let told = told.filter(|(of, _)| domain.is_none_or(|domain| *of == domain));
        told.for_each(|(_, news)| news.send_modify(|count| *count += 1));
    }

    pub(super) fn subscribe(&self, domain: &Domain) -> Option<watch::Receiver<u64>> {
        self.0.get(domain).map(watch::Sender::subscribe)
    }
}

/// Workers that wait on the bus at once: each read may take a connection of its own, and those
/// of our own workers must find one too. More take turns.
const READERS_MAX: usize = 32;

/// The attempts that this process has leased and not heard of since.
pub(crate) struct Leases {
    by_op: Mutex<BTreeMap<OpId, InHand>>,
    /// Who waits on the bus.
    pub(super) readers: Semaphore,
    /// A worker waits for a destination without room: the end of a lease is news.
    pub(crate) starved: AtomicBool,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            by_op: Mutex::default(),
            readers: Semaphore::new(READERS_MAX),
            starved: AtomicBool::new(false),
        }
    }
}

/// One leased attempt.
pub(super) struct InHand {
    pub(super) fence: u64,
    /// Monotonic time of the lease.
    pub(super) since: Duration,
    /// Monotonic time at which it ends, as far as is known here.
    pub(super) until: Duration,
    /// What its destination gave for it.
    pub(super) admitted: Admitted,
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<OpId, InHand>> {
        self.by_op.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, op_id: OpId, in_hand: InHand) {
        self.lock().insert(op_id, in_hand);
    }

    pub(super) fn take(&self, op_id: OpId, fence: u64) -> Option<InHand> {
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

impl Node {
    /// A leased attempt ended: tells its guards how, and returns how long it took.
    pub(super) fn lease_ended(
        &self,
        in_hand: InHand,
        verdict: impl FnOnce(Duration) -> Verdict,
    ) -> Duration {
        let took = self.ports.clock.monotonic().saturating_sub(in_hand.since);
        in_hand.admitted.report(verdict(took));
        self.call_ended();
        took
    }

    /// The operation is settled, perhaps by a report to another process.
    pub(crate) fn lease_settled(&self, op_id: OpId) {
        let in_hand = self.leases.lock().remove(&op_id);
        if let Some(in_hand) = in_hand {
            self.lease_ended(in_hand, |_| Verdict::Ignored);
        }
    }

    /// Lets go of attempts whose lease has ended and that are not live any more: lost ones, and
    /// those that were reported on to another process.
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
                // Extended through another process, or the Reaper has not reached it.
                let until = now.saturating_add(self.config.fallback_poll);
                self.leases.extend(op_id, fence, until);
            } else if let Some(in_hand) = self.leases.take(op_id, fence) {
                let is_lost = state.is_some_and(|state| state.deliveries > 0);
                self.lease_ended(in_hand, |took| match is_lost {
                    true => Verdict::Failed { took },
                    false => Verdict::Ignored,
                });
            }
        }
    }
}
