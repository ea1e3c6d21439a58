//! Notices to waiting readers.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clinch_core::ports::{Clock, Notice};
use tokio::sync::watch;

/// Maximum notices that are kept for slow readers: more than a burst of commits makes, and small in
/// memory.
const KEPT_MAX: usize = 4_096;

/// The last notices, numbered from 2, so that a reader's position is never 0.
#[derive(Debug)]
pub struct News {
    kept: Mutex<VecDeque<Notice>>,
    last: watch::Sender<u64>,
    /// Counts how often a row may have become due.
    due: watch::Sender<u64>,
}

impl Default for News {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            // 0 is the position of a reader that has not read yet.
            last: watch::Sender::new(1),
            due: watch::Sender::new(1),
        }
    }
}

impl News {
    /// Publishes notices. Called after their commit.
    pub fn tell(&self, notices: Vec<Notice>) {
        if notices.is_empty() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let count = notices.len() as u64;
        let is_due = |notice: &Notice| matches!(notice, Notice::Due(_) | Notice::Lagged);
        let is_due = notices.iter().any(is_due);
        kept.extend(notices);
        let surplus = kept.len().saturating_sub(KEPT_MAX);
        kept.drain(..surplus);
        self.last.send_modify(|last| *last += count);
        if is_due {
            self.due.send_modify(|count| *count += 1);
        }
    }

    /// Changes when a row may have become due. For callers that wait for a row to claim.
    pub fn watch_due(&self) -> watch::Receiver<u64> {
        self.due.subscribe()
    }

    /// The number of the last notice. For callers that wait for any notice.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The port's `news`: the notices after `seen`. With `seen` 0: the notices after the call.
    pub async fn after(&self, seen: u64, wait: Duration, clock: &dyn Clock) -> (Vec<Notice>, u64) {
        let mut last = self.watch();
        let from = if seen == 0 { *last.borrow() } else { seen };
        wait_for(&mut last, clock, wait, |last| *last > from).await;
        self.since(from)
    }

    fn since(&self, seen: u64) -> (Vec<Notice>, u64) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let last = *self.last.borrow();
        let missed = last.saturating_sub(seen);
        if missed as usize > kept.len() {
            return (vec![Notice::Lagged], last);
        }
        let skip = kept.len() - missed as usize;
        (kept.iter().skip(skip).cloned().collect(), last)
    }
}

/// Waits until `ready`, or until `wait` has passed on the clock.
pub async fn wait_for(
    last: &mut watch::Receiver<u64>,
    clock: &dyn Clock,
    wait: Duration,
    ready: impl FnMut(&u64) -> bool,
) -> bool {
    tokio::select! {
        biased;
        changed = last.wait_for(ready) => changed.is_ok(),
        () = clock.sleep(wait) => false,
    }
}
