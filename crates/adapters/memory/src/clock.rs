//! A clock that moves when it is told to.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Timestamp;
use clinch_core::ports::Clock;
use tokio::sync::watch;

/// Stands still until [`ManualClock::advance`]. Sleepers wake when their time has come.
#[derive(Debug)]
pub struct ManualClock {
    start: Timestamp,
    passed: watch::Sender<Duration>,
    /// How many sleep until when.
    sleepers: Mutex<BTreeMap<Duration, usize>>,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self {
            start,
            passed: watch::Sender::new(Duration::ZERO),
            sleepers: Mutex::default(),
        }
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        self.passed
            .send_modify(|passed| *passed = passed.saturating_add(by));
    }

    /// Moves it forward to this monotonic time; never back.
    pub fn advance_to(&self, at: Duration) {
        self.passed.send_modify(|passed| *passed = at.max(*passed));
    }

    /// The monotonic time at which the first sleeper wakes.
    pub fn next_wake(&self) -> Option<Duration> {
        self.sleepers().keys().next().copied()
    }

    fn sleepers(&self) -> MutexGuard<'_, BTreeMap<Duration, usize>> {
        let sleepers = self.sleepers.lock();
        sleepers.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    /// Starts at a moment that no test should care about.
    fn default() -> Self {
        Self::new(Timestamp::from_millis(1_800_000_000_000))
    }
}

/// A place among the sleepers; dropping it leaves.
struct Bed<'a> {
    clock: &'a ManualClock,
    until: Duration,
}

impl<'a> Bed<'a> {
    fn take(clock: &'a ManualClock, until: Duration) -> Self {
        *clock.sleepers().entry(until).or_default() += 1;
        Self { clock, until }
    }
}

impl Drop for Bed<'_> {
    fn drop(&mut self) {
        let mut sleepers = self.clock.sleepers();
        if let Some(count) = sleepers.get_mut(&self.until) {
            *count -= 1;
            if *count == 0 {
                sleepers.remove(&self.until);
            }
        }
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.start + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        *self.passed.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let mut passed = self.passed.subscribe();
        let until = self.monotonic().saturating_add(duration);
        let _bed = Bed::take(self, until);
        // The sender lives as long as `self`: waiting cannot fail.
        let _ = passed.wait_for(|passed| *passed >= until).await;
    }
}
