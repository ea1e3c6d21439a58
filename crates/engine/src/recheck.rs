//! When to claim again if a row became due between a claim and the question when the next row is
//! due: the claim did not return the row, and the answer to the question is "now".

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The first such pause. It doubles while the following claims do not return the row either: then
/// another process has claimed the row, or only another process may.
const PAUSE: Duration = Duration::from_millis(5);

/// Maximum number of doublings: the pause stays at about ten seconds.
const DOUBLINGS_MAX: u32 = 11;

/// Counts consecutive answers "a row is due" although the preceding claim did not return it.
#[derive(Default)]
pub(crate) struct Recheck(AtomicU32);

impl Recheck {
    /// A claim returned rows.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// How long to rest after a claim that returned nothing, if the next row is due in `next`. At
    /// most `bound`.
    pub(crate) fn pause(&self, next: Option<Duration>, bound: Duration) -> Duration {
        match next {
            Some(Duration::ZERO) => {
                let times = self.0.fetch_add(1, Ordering::Relaxed);
                PAUSE
                    .saturating_mul(1 << times.min(DOUBLINGS_MAX))
                    .min(bound)
            }
            next => {
                self.reset();
                next.map_or(bound, |next| next.min(bound))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_now_is_looked_for_soon_and_ever_later() {
        let (recheck, hour) = (Recheck::default(), Duration::from_secs(3_600));
        let now = Some(Duration::ZERO);
        let pauses = (0..14).map(|_| recheck.pause(now, hour).as_millis());
        let pauses: Vec<_> = pauses.collect();
        assert_eq!(pauses[..3], [5, 10, 20]);
        assert_eq!(pauses[11..], [10_240; 3]);
        assert_eq!(recheck.pause(now, PAUSE / 5), PAUSE / 5, "never beyond");
        recheck.reset();
        assert_eq!(recheck.pause(now, hour), PAUSE);
    }

    #[test]
    fn what_is_due_later_is_waited_for() {
        let (recheck, hour) = (Recheck::default(), Duration::from_secs(3_600));
        assert_eq!(recheck.pause(Some(hour / 2), hour), hour / 2);
        assert_eq!(recheck.pause(Some(hour * 2), hour), hour);
        assert_eq!(recheck.pause(None, hour), hour);
        let _ = recheck.pause(Some(Duration::ZERO), hour);
        let _ = recheck.pause(None, hour);
        assert_eq!(recheck.pause(Some(Duration::ZERO), hour), PAUSE, "anew");
    }
}
