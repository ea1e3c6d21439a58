//! The server's clock as this process estimates it.
//!
//! A plan needs the time before its statement is sent. Asking for it would be a round trip, so
//! the time is carried on from an earlier answer by the local monotonic clock. Nothing trusts the
//! estimate: the statement compares it with the server's clock and writes nothing if the two are
//! further apart than [`ERROR_MAX`].
//!
//! The estimate is late rather than early, by the time that the answer was on its way: a row that
//! is accepted now must be due when the next statement looks for it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clinch_core::Timestamp;

/// How far an estimate may be from the server's clock.
pub(crate) const ERROR_MAX: Duration = Duration::from_millis(20);
/// After this long a new answer replaces an older one that came quicker: clocks drift apart.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(2);

/// An answer of the server.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// On the local monotonic clock.
    answered: Duration,
    server: Timestamp,
    took: Duration,
}

impl Sample {
    fn now(&self, monotonic: Duration) -> Timestamp {
        self.server + monotonic.saturating_sub(self.answered)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<Sample>>);

impl ServerClock {
    /// The estimate; `None`: the server has not been asked yet.
    pub(crate) fn now(&self, monotonic: Duration) -> Option<Timestamp> {
        let sample = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sample.map(|sample| sample.now(monotonic))
    }

    /// Learns from an answer; question and answer are on the local monotonic clock.
    pub(crate) fn learn(&self, server: Timestamp, asked: Duration, answered: Duration) {
        let took = answered.saturating_sub(asked);
        let fresh = Sample {
            answered,
            server,
            took,
        };
        let mut sample = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_better = sample.is_none_or(|old| {
            let estimate = old.now(answered);
            let error = estimate.since(server).max(server.since(estimate));
            took <= old.took
                || answered.saturating_sub(old.answered) > SAMPLE_AGE_MAX
                || error > ERROR_MAX + took
        });
        if is_better {
            *sample = Some(fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn an_estimate_goes_on_from_the_quickest_answer() {
        let clock = ServerClock::default();
        assert_eq!(clock.now(ms(5)), None);
        clock.learn(at(1_000), ms(10), ms(12));
        assert_eq!(clock.now(ms(22)), Some(at(1_010)));
        // Slower by far: its error may be larger.
        clock.learn(at(1_015), ms(20), ms(40));
        assert_eq!(clock.now(ms(42)), Some(at(1_030)));
    }

    #[test]
    fn a_clock_that_was_set_is_followed_at_once() {
        let clock = ServerClock::default();
        clock.learn(at(1_000), ms(10), ms(10));
        clock.learn(at(500), ms(20), ms(26));
        assert_eq!(clock.now(ms(27)), Some(at(501)));
    }

    #[test]
    fn an_old_answer_gives_way_to_a_slower_one() {
        let clock = ServerClock::default();
        clock.learn(at(1_000), ms(10), ms(10));
        clock.learn(at(21_005), ms(20_010), ms(20_020));
        assert_eq!(clock.now(ms(20_020)), Some(at(21_005)));
    }

    #[test]
    fn an_estimate_is_never_ahead() {
        // Read at 1,000 and answered 3 ms later: the server is at 1,003 by then.
        let clock = ServerClock::default();
        clock.learn(at(1_000), ms(10), ms(13));
        assert_eq!(clock.now(ms(13)), Some(at(1_000)));
    }
}
