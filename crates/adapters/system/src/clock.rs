//! This machine's clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use clinch_core::Timestamp;
use clinch_core::ports::Clock;

/// The wall clock and the monotonic clock of this machine. It sleeps on tokio's timer, which wakes
/// up to a millisecond late. Clones share the zero of their monotonic time; clocks that were
/// created separately do not.
#[derive(Debug, Clone)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Monotonic time starts now.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let epoch = Timestamp::from_millis(0);
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => epoch + after,
            Err(before) => epoch - before.duration(),
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        if duration.is_zero() {
            // The timer would take a millisecond for this. Yielding lets other tasks run too.
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(duration).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_lasts_as_long_as_it_says() {
        let clock = SystemClock::new();
        let before = clock.monotonic();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(clock.sleep(Duration::from_millis(5)));
        assert!(clock.monotonic() - before >= Duration::from_millis(5));
    }

    #[test]
    fn a_sleep_of_nothing_asks_no_timer() {
        let without_timer = tokio::runtime::Builder::new_current_thread().build();
        let runtime = without_timer.expect("a runtime");
        runtime.block_on(SystemClock::new().sleep(Duration::ZERO));
    }

    #[test]
    fn the_wall_clock_shows_this_century() {
        // 2020-01-01.
        assert!(SystemClock::new().now().as_millis() > 1_577_836_800_000);
    }
}
