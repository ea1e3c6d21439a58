//! This process's clock, for waits and timeouts only. Everything stored uses the server's clock.

use std::time::Duration;

pub(crate) type Moment = tokio::time::Instant;

pub(crate) fn now() -> Moment {
    Moment::now()
}

/// The moment `duration` from now, at most ten years ahead.
pub(crate) fn after(duration: Duration) -> Moment {
    const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    now() + duration.min(LONGEST)
}

pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// `None` if the work took longer than `limit`.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
}

/// Pauses between tries: doubling, up to a bound.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    /// A server that is back is used again within a few seconds.
    const LAST: Duration = Duration::from_secs(3);

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = Self::FIRST.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        pause.min(Self::LAST)
    }
}
