//! How long to wait before the next attempt.

use std::time::Duration;

use super::SplitMix;

/// Exponential backoff with jitter: `base * 2^(n-1)`, jitter ±`jitter`, then capped
/// (decision 3 of the requirements). Pure: the same seed gives the same delay.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// The delay after the first attempt, before jitter.
    pub base: Duration,
    /// Upper bound of the delay.
    pub cap: Duration,
    /// Fraction of the delay that jitter may add or subtract, 0 … 1.
    pub jitter: f64,
}

impl Backoff {
    /// The default: 1 s doubling up to 5 min.
    pub const WORKER: Self = Self::new(Duration::from_secs(1), Duration::from_secs(300));
    /// ADR-010's: 30 s, 60 s, 120 s.
    pub const OUTBOX: Self = Self::new(Duration::from_secs(30), Duration::from_secs(300));
    /// The core SDK document's: 200 ms up to 10 s.
    pub const SDK: Self = Self::new(Duration::from_millis(200), Duration::from_secs(10));

    /// A backoff with ±10 % jitter.
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            jitter: 0.1,
        }
    }

    /// The delay after the `attempt`-th attempt (from 1).
    pub fn delay(&self, attempt: u32, rng: &mut SplitMix) -> Duration {
        // Past 2^32, every realistic base is above every realistic cap.
        let doublings = attempt.saturating_sub(1).min(32);
        let exponential = self.base.as_secs_f64() * f64::from(2_u32).powi(doublings as i32);
        let swing = (rng.next_f64() * 2.0 - 1.0) * self.jitter.clamp(0.0, 1.0);
        let jittered = exponential * (1.0 + swing);
        Duration::try_from_secs_f64(jittered)
            .unwrap_or(self.cap)
            .min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of requirement document 000 §3.5.
    #[test]
    fn run_3_backoff_doubles_with_ten_percent_jitter_and_a_cap() {
        let expected_ms = [(1, 1_000), (2, 2_000), (3, 4_000), (4, 8_000), (5, 16_000)];
        for seed in 0..200 {
            for (attempt, ms) in expected_ms {
                let delay = Backoff::WORKER.delay(attempt, &mut SplitMix::new(seed));
                let (low, high) = (ms * 9 / 10, ms * 11 / 10);
                assert!((low..=high).contains(&(delay.as_millis() as u64)));
            }
            let capped = Backoff::WORKER.delay(10, &mut SplitMix::new(seed));
            assert_eq!(capped, Duration::from_secs(300));
            let far = Backoff::WORKER.delay(u32::MAX, &mut SplitMix::new(seed));
            assert_eq!(far, Duration::from_secs(300));
        }
    }

    #[test]
    fn jitter_spreads_and_repeats_by_seed() {
        let delay = |seed| Backoff::SDK.delay(3, &mut SplitMix::new(seed));
        assert_eq!(delay(7), delay(7));
        let distinct: std::collections::BTreeSet<_> = (0..100).map(delay).collect();
        assert!(distinct.len() > 90);
    }

    #[test]
    fn a_huge_base_is_capped() {
        let backoff = Backoff::new(Duration::MAX, Duration::from_secs(1));
        assert_eq!(
            backoff.delay(9, &mut SplitMix::new(1)),
            Duration::from_secs(1)
        );
    }
}
