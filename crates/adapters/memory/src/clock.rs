//! A clock that moves when it is told to.

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
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self {
            start,
            passed: watch::Sender::new(Duration::ZERO),
        }
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        self.passed.send_modify(|passed| *passed += by);
    }
}

impl Default for ManualClock {
    /// Starts at a moment that no test should care about.
    fn default() -> Self {
        Self::new(Timestamp::from_millis(1_800_000_000_000))
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
        // The sender lives as long as `self`: waiting cannot fail.
        let _ = passed.wait_for(|passed| *passed >= until).await;
    }
}
