//! Where the line of each stream begins, while that is worth knowing.
//!
//! Rows that were taken leave dead entries at the front of the index. The server removes
//! them in time, unless some transaction holds an old snapshot open; until then each claim
//! would wade through all of them. So once a look from the very beginning was slow, looks
//! start at the first row that was seen, less what commits have told since, and that front is
//! moved on, beside the claims, when they become slow again. What nobody told is found by a
//! look from the beginning, which is made again after a while: the slower it is, the rarer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A statement that takes longer has waded.
const SLOW: Duration = Duration::from_millis(1);
/// What each row that it hands out may take beside.
const SLOW_PER_ROW: Duration = Duration::from_micros(5);
/// A look from the beginning takes at most one part in so many of the time.
const SHARE: u32 = 20;
/// How long one is not repeated, at least and at most.
const TRUSTED_MIN: Duration = Duration::from_secs(2);
const TRUSTED_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
struct Front {
    /// Nothing that was seen or told is due before.
    at: i64,
    /// From then on, on the monotonic clock, a look from the beginning is due.
    until: Duration,
}

#[derive(Debug, Default)]
struct Seen {
    fronts: HashMap<i32, Front>,
    /// While somebody looks: what commits have told since the look began.
    told: Option<HashMap<i32, i64>>,
    /// Raised when everything is forgotten: a look from before then counts no more.
    age: u64,
}

impl Seen {
    fn start(&self, streams: &[i32]) -> i64 {
        let front = |stream: &i32| self.fronts.get(stream).map(|front| front.at);
        let fronts: Option<Vec<i64>> = streams.iter().map(front).collect();
        let first = fronts.and_then(|fronts| fronts.into_iter().min());
        first.unwrap_or(i64::MIN)
    }
}

/// The front of every line.
#[derive(Debug, Default)]
pub(crate) struct Horizon(Mutex<Seen>);

/// A look that is to be made, beside the claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Where it starts.
    pub from: i64,
    age: u64,
}

impl Look {
    /// True: it starts at the beginning.
    fn is_whole(self) -> bool {
        self.from == i64::MIN
    }
}

impl Horizon {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a look at these streams starts.
    pub(crate) fn start(&self, streams: &[i32]) -> i64 {
        self.seen().start(streams)
    }

    /// Streams whose front is known, and those fronts.
    pub(crate) fn known(&self) -> (Vec<i32>, Vec<i64>) {
        let seen = self.seen();
        let fronts = seen.fronts.iter();
        fronts.map(|(stream, front)| (*stream, front.at)).unzip()
    }

    /// The look to make after a claim that took so long for so many rows; whoever is given one
    /// ends it.
    pub(crate) fn next_look(
        &self,
        streams: &[i32],
        took: Duration,
        rows: usize,
        now: Duration,
    ) -> Option<Look> {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let is_slow = took > SLOW.saturating_add(SLOW_PER_ROW.saturating_mul(rows));
        let mut seen = self.seen();
        let is_old = |stream: &i32| {
            let front = seen.fronts.get(stream);
            front.is_some_and(|front| front.until <= now)
        };
        let from = match streams.iter().any(is_old) {
            true => i64::MIN,
            // As it is now: it may have been lowered since the claim.
            false if is_slow => seen.start(streams),
            false => return None,
        };
        if seen.told.is_some() {
            return None;
        }
        seen.told = Some(HashMap::new());
        Some(Look {
            from,
            age: seen.age,
        })
    }

    /// A row of this stream is due from `at` on.
    pub(crate) fn lower(&self, stream: i32, at: i64) {
        let mut seen = self.seen();
        if let Some(front) = seen.fronts.get_mut(&stream) {
            front.at = front.at.min(at);
        }
        if let Some(told) = &mut seen.told {
            let first = told.entry(stream).or_insert(at);
            *first = at.min(*first);
        }
    }

    /// Forgets everything: news may have been missed.
    pub(crate) fn forget(&self) {
        let mut seen = self.seen();
        *seen = Seen {
            age: seen.age + 1,
            ..Seen::default()
        };
    }

    /// Ends a look that saw these first due times; `None`: it failed. Returns the streams with
    /// a row before the front that nobody had told of.
    pub(crate) fn end(
        &self,
        look: Look,
        firsts: Option<&HashMap<i32, i64>>,
        took: Duration,
        now: Duration,
    ) -> Vec<i32> {
        let mut seen = self.seen();
        if seen.age != look.age {
            return Vec::new();
        }
        let told = seen.told.take().unwrap_or_default();
        let trusted = took.saturating_mul(SHARE).clamp(TRUSTED_MIN, TRUSTED_MAX);
        let mut untold = Vec::new();
        for (stream, first) in firsts.into_iter().flatten() {
            let known = seen.fronts.get(stream).copied();
            untold.extend(known.filter(|known| *first < known.at).map(|_| *stream));
            if look.is_whole() && took <= SLOW {
                seen.fronts.remove(stream);
                continue;
            }
            let until = match known {
                Some(known) if !look.is_whole() => known.until,
                _ => now + trusted,
            };
            let at = told.get(stream).map_or(*first, |told| *first.min(told));
            seen.fronts.insert(*stream, Front { at, until });
        }
        untold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(300);
    const WADED: Duration = Duration::from_millis(500);
    const NOW: Duration = Duration::from_secs(100);

    fn looked(horizon: &Horizon, firsts: &[(i32, i64)], took: Duration, now: Duration) -> Vec<i32> {
        let streams: Vec<i32> = firsts.iter().map(|(stream, _)| *stream).collect();
        let look = horizon.next_look(&streams, took, 0, now).expect("a look");
        horizon.end(look, Some(&firsts.iter().copied().collect()), took, now)
    }

    #[test]
    fn nothing_is_kept_while_looks_are_fast() {
        let horizon = Horizon::default();
        assert_eq!(horizon.next_look(&[1], FAST, 0, NOW), None);
        let many = Duration::from_millis(5);
        assert_eq!(horizon.next_look(&[1], many, 1_000, NOW), None);
        assert_eq!(horizon.start(&[1]), i64::MIN);
    }

    #[test]
    fn a_slow_look_says_where_the_next_one_starts() {
        let horizon = Horizon::default();
        looked(&horizon, &[(1, 50), (2, 70)], WADED, NOW);
        assert_eq!(horizon.start(&[1, 2]), 50);
        assert_eq!(horizon.start(&[2]), 70);
        assert_eq!(horizon.start(&[2, 3]), i64::MIN, "3 was never looked at");
        horizon.lower(2, 10);
        assert_eq!(horizon.start(&[2]), 10);
    }

    #[test]
    fn what_is_told_during_a_look_is_not_missed() {
        let horizon = Horizon::default();
        let look = horizon.next_look(&[1], WADED, 0, NOW).expect("a look");
        assert_eq!(
            horizon.next_look(&[1], WADED, 0, NOW),
            None,
            "one at a time"
        );
        horizon.lower(1, 40);
        horizon.end(look, Some(&HashMap::from([(1, 90)])), WADED, NOW);
        assert_eq!(horizon.start(&[1]), 40);
    }

    #[test]
    fn a_look_from_before_everything_was_forgotten_counts_no_more() {
        let horizon = Horizon::default();
        let look = horizon.next_look(&[1], WADED, 0, NOW).expect("a look");
        horizon.forget();
        horizon.end(look, Some(&HashMap::from([(1, 90)])), WADED, NOW);
        assert_eq!(horizon.start(&[1]), i64::MIN);
    }

    #[test]
    fn a_look_from_the_beginning_is_made_again_and_finds_what_nobody_told() {
        let horizon = Horizon::default();
        looked(&horizon, &[(1, 50)], WADED, NOW);
        let later = NOW + WADED * SHARE;
        let soon = horizon.next_look(&[1], FAST, 0, later - FAST);
        assert_eq!(soon, None, "its cost is bounded");
        assert_eq!(looked(&horizon, &[(1, 20)], WADED, later), [1]);
        assert_eq!(horizon.start(&[1]), 20);
    }

    #[test]
    fn a_front_moves_on_when_claims_wade_again() {
        let horizon = Horizon::default();
        looked(&horizon, &[(1, 50)], WADED, NOW);
        let slow = SLOW * 2;
        let look = horizon.next_look(&[1], slow, 0, NOW).expect("a look");
        assert_eq!(look.from, 50);
        horizon.end(look, Some(&HashMap::from([(1, 60)])), slow, NOW);
        assert_eq!(horizon.start(&[1]), 60);
        let whole = horizon.next_look(&[1], FAST, 0, NOW + WADED * SHARE);
        assert_eq!(
            whole.map(|look| look.from),
            Some(i64::MIN),
            "no later than before"
        );
    }

    #[test]
    fn a_front_that_was_lowered_before_a_look_is_where_it_starts() {
        let horizon = Horizon::default();
        looked(&horizon, &[(1, 50)], WADED, NOW);
        horizon.lower(1, 30);
        let look = horizon.next_look(&[1], SLOW * 2, 0, NOW).expect("a look");
        assert_eq!(look.from, 30);
    }

    #[test]
    fn once_the_beginning_is_near_again_the_front_is_dropped() {
        let horizon = Horizon::default();
        looked(&horizon, &[(1, 50)], WADED, NOW);
        let later = NOW + TRUSTED_MAX;
        let look = horizon.next_look(&[1], FAST, 0, later).expect("a look");
        horizon.end(look, Some(&HashMap::from([(1, 60)])), FAST, later);
        assert_eq!(horizon.start(&[1]), i64::MIN);
    }
}
