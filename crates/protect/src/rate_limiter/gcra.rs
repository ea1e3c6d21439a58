//! The generic cell rate algorithm, in whole numbers, with a strict cap.
//!
//! The algorithm alone spaces calls well, but a full bucket and its refill can fall into one
//! window: twice the cap at worst. So the last `permits` moments are kept too, and each new moment
//! lies at least `per` after the one that it replaces.
//!
//! Time is counted in units of `1 ns / permits`. In this unit the interval between two permits is
//! exactly `per` in nanoseconds, so nothing is rounded and nothing drifts. Only the returned waits
//! are rounded, up to a nanosecond.

use std::collections::VecDeque;
use std::time::Duration;

use clinch_core::ports::{Reason, Rejection, Room};

#[derive(Debug)]
pub(super) struct Gcra {
    permits: u128,
    /// The interval between two permits, in units.
    interval: u128,
    /// How far ahead the next arrival may lie: the whole burst less one.
    tolerance: u128,
    /// The theoretical arrival time of the next permit, in units.
    arrival: u128,
    per: Duration,
    /// The last moments that were given out, at most `permits`, in order.
    given: VecDeque<Duration>,
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
            per,
            given: VecDeque::new(),
            paused_until: Duration::ZERO,
        }
    }

    /// The wait for the next permit. If the wait is at most `wait_max`, the permit is taken.
    pub(super) fn reserve(
        &mut self,
        now: Duration,
        wait_max: Duration,
    ) -> Result<Duration, Rejection> {
        let at = self.units(now);
        let spaced = self.duration(self.free_at().saturating_sub(at));
        let wait = spaced.max(self.window_opens_in(now));
        let pause = self.paused_until.saturating_sub(now);
        if wait <= wait_max {
            let moment = now.saturating_add(wait);
            // Spaced moments are exact; only the window moves them by whole nanoseconds.
            let at = if wait > spaced {
                self.units(moment)
            } else {
                at
            };
            self.arrival = self.arrival.max(at).saturating_add(self.interval);
            if self.is_window_known() {
                self.given.pop_front();
            }
            self.given.push_back(moment);
            return Ok(wait);
        }
        // One nanosecond earlier, the wait would still be too long.
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
        // After the pause the burst is used up: one call at its end, the others at the rate.
        let empty = self.units(self.paused_until).saturating_add(self.tolerance);
        self.arrival = self.arrival.max(empty);
    }

    /// Ends a pause as if its time had passed now: one call at once, the others at the rate.
    pub(super) fn resume(&mut self, now: Duration) {
        if now >= self.paused_until {
            return;
        }
        self.paused_until = Duration::ZERO;
        let empty = self.units(now).saturating_add(self.tolerance);
        self.arrival = self.arrival.min(empty);
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
        let spaced = self.duration(self.free_at().saturating_sub(at));
        let wait = spaced.max(self.window_opens_in(now));
        if !wait.is_zero() {
            return closed(Reason::RateLimited, wait);
        }
        let left = at + self.tolerance + self.interval - self.arrival.max(at);
        let burst = usize::try_from(left / self.interval).unwrap_or(usize::MAX);
        Room {
            calls: burst.min(self.left_in_window(now)),
            reason: Some(Reason::RateLimited),
            again_in: None,
        }
    }

    /// Whether as many moments as fit into `per` were given out.
    fn is_window_known(&self) -> bool {
        self.given.len() as u128 >= self.permits
    }

    /// How long until the call before the last `permits` calls is `per` old.
    fn window_opens_in(&self, now: Duration) -> Duration {
        let first = self.given.front().filter(|_| self.is_window_known());
        let opens = first.map(|first| first.saturating_add(self.per));
        opens.unwrap_or_default().saturating_sub(now)
    }

    fn left_in_window(&self, now: Duration) -> usize {
        let over = |at: &Duration| at.saturating_add(self.per) <= now;
        let recent = self.given.len() - self.given.partition_point(over);
        usize::try_from(self.permits)
            .unwrap_or(usize::MAX)
            .saturating_sub(recent)
    }

    /// From when the next permit can be used.
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
