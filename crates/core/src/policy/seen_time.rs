//! Which clock to trust before data is deleted for good.

use std::time::Duration;

use crate::Timestamp;

/// The store's clock, and the time that its processes vouch for. The age of data to prune counts by
/// the earlier of the two, so a clock that jumps ahead does not make data old.
///
/// The seen time is stored. It follows the clock in steps of at most `jump_max` and never goes
/// back. After a longer jump it advances only with the monotonic time of running processes, until
/// the clock is right again or an operator confirms the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeenTime {
    /// The time of the store's clock.
    pub now: Timestamp,
    /// The latest time that the processes vouch for.
    pub seen_at: Timestamp,
}

impl SeenTime {
    /// The seen time after reading the clock. `stored` is `None` in a new store. `reckoned` is a
    /// process's estimate: its last reading plus the time since on its monotonic clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use clinch_core::{Timestamp, policy::SeenTime};
    ///
    /// let day = Duration::from_secs(86_400);
    /// let seen = Timestamp::from_millis(0);
    /// let jumped = SeenTime::advanced(Some(seen), seen + day * 500, Some(seen + day), day);
    /// assert_eq!(jumped.trusted(), seen + day);
    /// assert!(jumped.is_held_back());
    /// ```
    pub fn advanced(
        stored: Option<Timestamp>,
        now: Timestamp,
        reckoned: Option<Timestamp>,
        jump_max: Duration,
    ) -> Self {
        let Some(stored) = stored else {
            return Self { now, seen_at: now };
        };
        let vouched = reckoned.unwrap_or(stored).min(now).max(stored);
        let seen_at = if now <= vouched + jump_max {
            now.max(stored)
        } else {
            vouched
        };
        Self { now, seen_at }
    }

    /// The time by which ages are counted.
    pub fn trusted(&self) -> Timestamp {
        self.seen_at.min(self.now)
    }

    /// The clock is ahead of the seen time.
    pub fn is_held_back(&self) -> bool {
        self.seen_at < self.now
    }

    /// How far the clock is ahead of the seen time.
    pub fn ahead(&self) -> Duration {
        self.now.since(self.seen_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn look(now: Timestamp, reckoned: Option<Timestamp>) -> SeenTime {
        SeenTime::advanced(Some(START), now, reckoned, DAY)
    }

    #[test]
    fn core_6_a_new_store_believes_its_clock() {
        let first = SeenTime::advanced(None, START, None, DAY);
        assert_eq!((first.trusted(), first.is_held_back()), (START, false));
    }

    #[test]
    fn core_6_the_seen_time_follows_a_clock_that_does_not_jump() {
        for step in [Duration::ZERO, Duration::from_secs(600), DAY] {
            let seen = look(START + step, None);
            assert_eq!((seen.seen_at, seen.is_held_back()), (START + step, false));
        }
        // Away for a week while this process ran: its monotonic clock says so.
        let seen = look(START + DAY * 7, Some(START + DAY * 7));
        assert_eq!(seen.seen_at, START + DAY * 7);
    }

    #[test]
    fn core_6_a_jump_ahead_makes_nothing_old() {
        let seen = look(START + DAY * 500, None);
        assert_eq!((seen.trusted(), seen.ahead()), (START, DAY * 500));
        // Real time goes on meanwhile, and never faster than the clock.
        let hour = Duration::from_secs(3_600);
        assert_eq!(
            look(START + DAY * 500, Some(START + hour)).seen_at,
            START + hour
        );
        assert_eq!(
            look(START + hour, Some(START + DAY * 9)).seen_at,
            START + hour
        );
    }

    #[test]
    fn core_6_a_clock_that_goes_back_takes_nothing_back() {
        let seen = look(START - DAY, Some(START + DAY));
        assert_eq!((seen.seen_at, seen.is_held_back()), (START, false));
        assert_eq!(seen.trusted(), START - DAY);
    }
}
