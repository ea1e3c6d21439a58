//! Completed jobs, counted where the system says that a job is completed.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts completions, and wakes the measure that waits for them.
#[derive(Debug, Default)]
pub struct Counter {
    count: AtomicU64,
    changed: Notify,
}

impl Counter {
    /// One more job is completed.
    pub fn add(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.changed.notify_one();
    }

    /// Jobs completed so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until this number of jobs is completed. One caller at a time.
    pub async fn reach(&self, count: u64) {
        while self.count() < count {
            self.changed.notified().await;
        }
    }
}
