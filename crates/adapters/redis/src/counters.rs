//! Numbers that operators ask for, counted since the start of the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Is told when this process becomes the leader (true) and when it stops being the leader.
pub type LeaderWatcher = Box<dyn Fn(bool) + Send + Sync>;

/// What this process did on the server.
#[derive(Default)]
pub(crate) struct Counters {
    recovered: AtomicU64,
    sleeps: AtomicU64,
    slept_ms: AtomicU64,
    leader: OnceLock<LeaderWatcher>,
}

impl Counters {
    /// Hints whose loan had ended, taken again by XAUTOCLAIM.
    pub(crate) fn add_recovered(&self, count: u64) {
        self.recovered.fetch_add(count, Ordering::Relaxed);
    }

    /// The scheduler slept.
    pub(crate) fn add_sleep(&self, lasting: Duration) {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        self.slept_ms
            .fetch_add(crate::millis(lasting), Ordering::Relaxed);
    }

    pub(crate) fn tell_leader(&self, is_leading: bool) {
        if let Some(watcher) = self.leader.get() {
            watcher(is_leading);
        }
    }
}

impl crate::Redis {
    /// Hints that this process took over because their loan had ended.
    pub fn recovered(&self) -> u64 {
        self.shared.counters.recovered.load(Ordering::Relaxed)
    }

    /// How often the scheduler of this process slept.
    pub fn scheduler_sleeps(&self) -> u64 {
        self.shared.counters.sleeps.load(Ordering::Relaxed)
    }

    /// How long the scheduler of this process slept in all, in milliseconds.
    pub fn scheduler_slept_ms(&self) -> u64 {
        self.shared.counters.slept_ms.load(Ordering::Relaxed)
    }

    /// Calls `watcher` when this process becomes or stops being the leader. The first watcher stays.
    pub fn watch_leader(&self, watcher: LeaderWatcher) {
        let _ = self.shared.counters.leader.set(watcher);
    }
}
