//! Requests of one account in the last minute.

use std::collections::VecDeque;
use std::time::Duration;

/// How far GitHub looks back when it counts the requests of an account.
const WINDOW_SECONDS: u64 = 60;

/// Requests of an account by the second in which they began.
#[derive(Debug, Default)]
pub(super) struct Pace {
    seconds: VecDeque<(u64, u32)>,
    count: u32,
}

impl Pace {
    /// Counts a request, if there were less than `most` in the last minute; otherwise says for how long
    /// to wait.
    pub(super) fn take(&mut self, now: Duration, most: u32) -> Result<(), Duration> {
        let second = now.as_secs();
        self.forget(second);
        match self.seconds.front() {
            Some((first, _)) if self.count >= most => {
                let free = Duration::from_secs(first + WINDOW_SECONDS + 1);
                return Err(free.saturating_sub(now));
            }
            _ => {}
        }
        match self.seconds.back_mut() {
            Some((last, count)) if *last == second => *count += 1,
            _ => self.seconds.push_back((second, 1)),
        }
        self.count += 1;
        Ok(())
    }

    /// The request that was counted last is not made.
    pub(super) fn give_back(&mut self) {
        if let Some((_, count)) = self.seconds.back_mut().filter(|(_, count)| *count > 0) {
            *count -= 1;
            self.count -= 1;
        }
    }

    /// Whether there was no request in the last minute.
    pub(super) fn is_idle(&mut self, now: Duration) -> bool {
        self.forget(now.as_secs());
        self.count == 0
    }

    fn forget(&mut self, now: u64) {
        while let Some((second, count)) = self.seconds.front().copied() {
            if second + WINDOW_SECONDS >= now {
                break;
            }
            self.count -= count;
            self.seconds.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_no_more_requests_than_allowed() {
        let at = Duration::from_millis;
        let mut pace = Pace::default();
        for n in 0..10 {
            assert_eq!(pace.take(at(500 + n * 100), 10), Ok(()));
        }
        // Five of them began in the first second, which is over a minute and a second later.
        assert_eq!(pace.take(at(1_500), 10), Err(at(59_500)));
        assert_eq!(pace.take(at(60_999), 10), Err(at(1)));
        for _ in 0..5 {
            assert_eq!(pace.take(at(61_000), 10), Ok(()));
        }
        assert_eq!(pace.take(at(61_000), 10), Err(at(1_000)));
        pace.give_back();
        assert_eq!(pace.take(at(61_000), 10), Ok(()));
        assert!(!pace.is_idle(at(121_000)));
        assert!(pace.is_idle(at(122_000)));
    }

    #[test]
    fn nothing_is_given_back_that_was_not_taken() {
        let mut pace = Pace::default();
        pace.give_back();
        assert_eq!(pace.take(Duration::ZERO, 1), Ok(()));
        pace.give_back();
        pace.give_back();
        assert!(pace.is_idle(Duration::ZERO));
        assert_eq!(pace.take(Duration::ZERO, 1), Ok(()));
        assert!(pace.take(Duration::ZERO, 1).is_err());
    }
}
