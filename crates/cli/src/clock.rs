//! The only module that reads the machine's clock and sleeps.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp, Unit};

/// The current time in whole milliseconds, the server's precision.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now)
}

/// The time `delay` from now; the latest possible time if that is too far.
pub(crate) fn after(delay: Duration) -> Timestamp {
    let signed = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    now().checked_add(signed).unwrap_or(Timestamp::MAX)
}

/// The time `age` before now.
pub(crate) fn before(age: Duration) -> Timestamp {
    let signed = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
    now().checked_sub(signed).unwrap_or(Timestamp::MIN)
}

pub(crate) async fn pause(delay: Duration) {
    tokio::time::sleep(delay).await;
}

/// A time limit that runs down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    start: Instant,
    limit: Option<Duration>,
}

impl Budget {
    /// Starts now; `None`: no limit.
    pub(crate) fn start(limit: Option<Duration>) -> Self {
        Self {
            start: Instant::now(),
            limit,
        }
    }

    /// Time since the start.
    pub(crate) fn spent(self) -> Duration {
        self.start.elapsed()
    }

    /// Time left, at most `most`.
    pub(crate) fn left(self, most: Duration) -> Duration {
        match self.limit {
            Some(limit) => limit.saturating_sub(self.spent()).min(most),
            None => most,
        }
    }
}
