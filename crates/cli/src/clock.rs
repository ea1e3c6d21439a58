//! The one place that reads the machine's clock and waits on it.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp, Unit};

/// Now, in whole milliseconds: as fine as the server keeps time.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now)
}

/// So much later than now; the last moment there is when that is too far.
pub(crate) fn after(delay: Duration) -> Timestamp {
    let signed = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    now().checked_add(signed).unwrap_or(Timestamp::MAX)
}

/// So much earlier than now.
pub(crate) fn before(age: Duration) -> Timestamp {
    let signed = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
    now().checked_sub(signed).unwrap_or(Timestamp::MIN)
}

/// Waits.
pub(crate) async fn pause(delay: Duration) {
    tokio::time::sleep(delay).await;
}

/// Time that a caller allows, running out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    start: Instant,
    limit: Option<Duration>,
}

impl Budget {
    /// Starts to run now; `None` never runs out.
    pub(crate) fn start(limit: Option<Duration>) -> Self {
        Self {
            start: Instant::now(),
            limit,
        }
    }

    /// Since the start.
    pub(crate) fn spent(self) -> Duration {
        self.start.elapsed()
    }

    /// What is left, at most `most`.
    pub(crate) fn left(self, most: Duration) -> Duration {
        match self.limit {
            Some(limit) => limit.saturating_sub(self.spent()).min(most),
            None => most,
        }
    }
}
