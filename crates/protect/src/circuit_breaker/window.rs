//! Ring buffers with running totals: old entries are forgotten one by one, never all at once.

use std::time::Duration;

use super::config::Window;

/// How one call went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) failed: bool,
    pub(super) slow: bool,
}

/// A number of calls, and how many of them failed or were slow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) slow: u64,
}

impl Totals {
    pub(super) fn add(&mut self, mark: Mark) {
        self.calls += 1;
        self.failed += u64::from(mark.failed);
        self.slow += u64::from(mark.slow);
    }

    fn remove(&mut self, other: Self) {
        self.calls = self.calls.saturating_sub(other.calls);
        self.failed = self.failed.saturating_sub(other.failed);
        self.slow = self.slow.saturating_sub(other.slow);
    }
}

impl From<Mark> for Totals {
    fn from(mark: Mark) -> Self {
        let mut totals = Self::default();
        totals.add(mark);
        totals
    }
}

/// The window of a closed breaker.
#[derive(Debug)]
pub(super) struct Sliding {
    totals: Totals,
    ring: Ring,
}

#[derive(Debug)]
enum Ring {
    Count {
        size: usize,
        marks: Vec<Mark>,
        oldest: usize,
    },
    Time {
        width: Duration,
        buckets: Vec<Totals>,
        /// The bucket that is being filled, counted from the clock's zero.
        newest: u128,
    },
}

impl Sliding {
    pub(super) fn new(window: Window) -> Self {
        let ring = match window {
            Window::Count(calls) => Ring::Count {
                size: calls.max(1) as usize,
                marks: Vec::new(),
                oldest: 0,
            },
            Window::Time { span, buckets } => Ring::Time {
                width: (span / buckets.max(1)).max(Duration::from_nanos(1)),
                buckets: vec![Totals::default(); buckets.max(1) as usize],
                newest: 0,
            },
        };
        Self {
            totals: Totals::default(),
            ring,
        }
    }

    /// Records a call that ended at `now` and returns the totals of the window.
    pub(super) fn record(&mut self, mark: Mark, now: Duration) -> Totals {
        match &mut self.ring {
            Ring::Count {
                size,
                marks,
                oldest,
            } => {
                if marks.len() < *size {
                    marks.push(mark);
                } else if let Some(slot) = marks.get_mut(*oldest) {
                    self.totals.remove(std::mem::replace(slot, mark).into());
                    *oldest = (*oldest + 1) % *size;
                }
            }
            Ring::Time {
                width,
                buckets,
                newest,
            } => {
                let current = now.as_nanos() / width.as_nanos();
                let size = buckets.len() as u128;
                // Going around more than once clears nothing further.
                for step in 1..=current.saturating_sub(*newest).min(size) {
                    let place = ((*newest + step) % size) as usize;
                    if let Some(bucket) = buckets.get_mut(place) {
                        self.totals.remove(std::mem::take(bucket));
                    }
                }
                *newest = current.max(*newest);
                if let Some(bucket) = buckets.get_mut((*newest % size) as usize) {
                    bucket.add(mark);
                }
            }
        }
        self.totals.add(mark);
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clinch_core::policy::SplitMix;

    const SECOND: Duration = Duration::from_secs(1);

    fn mark(bits: u64) -> Mark {
        Mark {
            failed: bits & 1 == 1,
            slow: bits & 2 == 2,
        }
    }

    fn sum<'a>(marks: impl IntoIterator<Item = &'a Mark>) -> Totals {
        let mut totals = Totals::default();
        marks.into_iter().for_each(|mark| totals.add(*mark));
        totals
    }

    #[test]
    fn a_count_window_holds_exactly_the_last_calls() {
        let mut rng = SplitMix::new(7);
        let mut window = Sliding::new(Window::Count(20));
        let mut all = Vec::new();
        for _ in 0..10_000 {
            all.push(mark(rng.next_u64()));
            let last = &all[all.len().saturating_sub(20)..];
            assert_eq!(window.record(all[all.len() - 1], Duration::ZERO), sum(last));
        }
    }

    #[test]
    fn a_time_window_holds_exactly_the_calls_of_its_buckets() {
        let mut rng = SplitMix::new(8);
        let (span, buckets) = (10 * SECOND, 10);
        let mut window = Sliding::new(Window::Time { span, buckets });
        let mut now = Duration::ZERO;
        let mut all: Vec<(Duration, Mark)> = Vec::new();
        for _ in 0..10_000 {
            // Mostly short steps, at times one past the whole window.
            let step = if rng.next_u64().is_multiple_of(50) {
                15_000
            } else {
                900
            };
            now += Duration::from_millis(rng.next_u64() % step);
            all.push((now, mark(rng.next_u64())));
            let first_bucket = now.as_secs().saturating_sub(9);
            let inside = all.iter().filter(|(at, _)| at.as_secs() >= first_bucket);
            let expected = sum(inside.map(|(_, mark)| mark));
            assert_eq!(window.record(all[all.len() - 1].1, now), expected);
        }
    }

    #[test]
    fn a_time_that_steps_back_is_taken_as_the_newest() {
        let span = 2 * SECOND;
        let mut window = Sliding::new(Window::Time { span, buckets: 2 });
        window.record(mark(1), 9 * SECOND);
        assert_eq!(window.record(mark(0), SECOND).calls, 2);
    }
}
