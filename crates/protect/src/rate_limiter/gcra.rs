//! The generic cell rate algorithm, in whole numbers.
//!
//! Time is counted in units of `1 ns / permits`: there the interval between two permits is
//! exactly `per` in nanoseconds, so nothing is rounded and nothing drifts. Only what is
//! handed out is rounded, up, to a nanosecond.

use std::time::Duration;

use clinch_core::ports::{Reason, Rejection, Room};

#[derive(Debug)]
pub(super) struct Gcra {
    permits: u128,
    /// Between two permits, in units.
    interval: u128,
    /// How far the next arrival may lie ahead: all of the burst but one.
    tolerance: u128,
    /// When the next permit is due in theory, in units.
    arrival: u128,
    paused_until: Duration,
}

impl Gcra {
    pub(super) fn new(permits: u32, per: Duration, burst: u32) -> Self {
        let interval = per.as_nanos();
        Self {
            permits: u128::from(permits.max(1)),
            interval: interval.max(1),
            tolerance: interval * u128::from(burst.saturating_sub(1)),
            arrival: 0,
            paused_until: Duration::ZERO,
        }
    }

    /// The wait for the next permit, which is taken then, if it is no longer than `wait_max`.
    pub(super) fn reserve(
        &mut self,
        now: Duration,
        wait_max: Duration,
    ) -> Result<Duration, Rejection> {
        let at = self.units(now);
        let wait = self.duration(self.free_at().saturating_sub(at));
        let pause = self.paused_until.saturating_sub(now);
        if wait <= wait_max {
            self.arrival = self.arrival.max(at).saturating_add(self.interval);
            return Ok(wait);
        }
        // One nanosecond earlier the wait would still be too long.
        let after = wait.saturating_sub(wait_max).max(pause);
        let reason = if pause.is_zero() {
            Reason::RateLimited
        } else {
            Reason::Paused
        };
        Err(Rejection { reason, after })
    }

    pub(super) fn pause(&mut self, now: Duration, lasting: Duration) {
        if lasting.is_zero() {
            return;
        }
        self.paused_until = self.paused_until.max(now.saturating_add(lasting));
        // The burst is spent at its end: one call then, the others at the rate.
        let empty = self.units(self.paused_until).saturating_add(self.tolerance);
        self.arrival = self.arrival.max(empty);
    }

    pub(super) fn room(&self, now: Duration) -> Room {
        let closed = |reason, again_in| Room {
            calls: 0,
            reason: Some(reason),
            again_in: Some(again_in),
        };
        if now < self.paused_until {
            return closed(Reason::Paused, self.paused_until - now);
        }
        let at = self.units(now);
        if self.free_at() > at {
            let wait = self.duration(self.free_at() - at);
            return closed(Reason::RateLimited, wait);
        }
        let left = at + self.tolerance + self.interval - self.arrival.max(at);
        Room {
            calls: usize::try_from(left / self.interval).unwrap_or(usize::MAX),
            reason: Some(Reason::RateLimited),
            again_in: None,
        }
    }

    /// The next permit can be used from here on.
    fn free_at(&self) -> u128 {
        self.arrival.saturating_sub(self.tolerance)
    }

    /// At most 2^94 nanoseconds and 2^32 permits: no overflow.
    fn units(&self, time: Duration) -> u128 {
        time.as_nanos() * self.permits
    }

    fn duration(&self, units: u128) -> Duration {
        const SECOND: u128 = 1_000_000_000;
        let nanos = units.div_ceil(self.permits);
        let seconds = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
        Duration::new(seconds, (nanos % SECOND) as u32)
    }
}
