//! Durations that can be summed up: their number, sum and approximate median.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Buckets for each doubling of a duration: a median is at most 1/16 off.
const STEPS: u64 = 8;
/// Longer durations, of 32 years and more, count as this long.
const MINUTES_MAX: u64 = (1 << 24) - 1;

/// Durations in minutes. Two of them can be added, and the median of the sum is still known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Durations {
    count: u64,
    /// Sum of the durations.
    minutes: u64,
    /// Number of durations in each bucket. There are at most 176 buckets.
    buckets: BTreeMap<u8, u64>,
}

/// Durations below 8 minutes have a bucket each; above, each doubling has eight buckets.
fn bucket(minutes: u64) -> u8 {
    let minutes = minutes.min(MINUTES_MAX);
    if minutes < STEPS {
        return u8::try_from(minutes).unwrap_or(u8::MAX);
    }
    let doublings = u64::from(minutes.ilog2()) - 3;
    let step = (minutes >> doublings) - STEPS;
    u8::try_from((doublings + 1) * STEPS + step).unwrap_or(u8::MAX)
}

/// The shortest duration of a bucket.
fn shortest(bucket: u64) -> u64 {
    match bucket / STEPS {
        0 => bucket,
        octave => (STEPS + bucket % STEPS) << (octave - 1),
    }
}

impl Durations {
    /// Adds a duration.
    pub fn add(&mut self, minutes: u64) {
        self.count += 1;
        self.minutes = self.minutes.saturating_add(minutes.min(MINUTES_MAX));
        *self.buckets.entry(bucket(minutes)).or_default() += 1;
    }

    /// Adds all durations of another.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.minutes = self.minutes.saturating_add(other.minutes);
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Their mean in minutes.
    pub fn mean(&self) -> Option<u64> {
        self.minutes.checked_div(self.count)
    }

    /// Their median in minutes: exact for one or two durations, otherwise at most 1/16 off.
    pub fn median(&self) -> Option<u64> {
        if self.count <= 2 {
            return self.mean();
        }
        let low = self.at((self.count - 1) / 2)?;
        let high = self.at(self.count / 2)?;
        Some(low.midpoint(high))
    }

    /// About the duration of this rank, from 0.
    fn at(&self, rank: u64) -> Option<u64> {
        let mut shorter = 0;
        for (bucket, count) in &self.buckets {
            shorter += count;
            if shorter > rank {
                let bucket = u64::from(*bucket);
                return Some(shortest(bucket).midpoint(shortest(bucket + 1) - 1));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(minutes: &[u64]) -> Durations {
        let mut durations = Durations::default();
        minutes.iter().for_each(|one| durations.add(*one));
        durations
    }

    #[test]
    fn every_duration_is_in_the_bucket_that_begins_before_it() {
        let long = (0..24).map(|power| 1_u64 << power);
        for minutes in (0..5_000).chain(long).chain([MINUTES_MAX]) {
            let bucket = u64::from(bucket(minutes));
            assert!(bucket <= 175, "{minutes}");
            let range = shortest(bucket)..shortest(bucket + 1);
            assert!(range.contains(&minutes), "{minutes} is not in {range:?}");
        }
        assert_eq!(bucket(u64::MAX), 175);
    }

    #[test]
    fn the_median_is_known_also_of_a_sum() {
        assert_eq!(of(&[]).median(), None);
        assert_eq!(of(&[1_000]).median(), Some(1_000));
        assert_eq!(of(&[1_000, 3_000]).median(), Some(2_000));
        assert_eq!(of(&[1, 2, 6]).median(), Some(2));
        assert_eq!(of(&[0, 1, 4, 7]).median(), Some(2));
        let (few, many): (Vec<u64>, Vec<u64>) = ((1..400).collect(), (400..2_000).collect());
        let mut sum = of(&few);
        sum.merge(&of(&many));
        assert_eq!(sum, of(&[few, many].concat()));
        let median = sum.median().expect("there are some");
        assert!(median.abs_diff(1_000) <= 1_000 / 16, "{median}");
        assert_eq!((sum.count(), sum.mean()), (1_999, Some(1_000)));
    }

    #[test]
    fn absurd_durations_are_counted() {
        let all = of(&[u64::MAX, u64::MAX, u64::MAX]);
        assert_eq!(all.count(), 3);
        assert!(all.median().is_some_and(|median| median <= MINUTES_MAX));
    }
}
