//! What a route says about its calls.

use std::time::Duration;

use super::{Backoff, SplitMix};
use crate::Invalid;

/// The rules of a route that the protocol reads. The defaults are those of the configuration page,
/// so that an empty route is a safe one.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Whether a call may be repeated.
    pub safety: Safety,
    /// Length of a lease; extended while an attempt runs. The engine sets it to the lease of its own
    /// configuration.
    pub lease: Duration,
    /// Added to the lease when the age of a key at the provider is judged, because clocks differ.
    pub margin: Duration,
    /// How often and when to retry.
    pub retry: RetryRules,
    /// Attempts lost in a row before an operation counts as poison.
    pub deliveries_max: u32,
    /// Time from accept, or from `run_at` if that is later, to the last begin. Used if the command
    /// names no deadline.
    pub deadline: Option<Duration>,
    /// How to judge a probe's answers. Without a probe, operations with an unknown effect wait for
    /// an operator or end as FAILED with effect unknown.
    pub probe: Option<ProbeRules>,
    /// What the Reaper does with a lost attempt.
    pub reaper: ReaperStrategy,
    /// Whether operations of one biz_key run one at a time.
    pub order: Order,
    /// Calls that one attempt may send: more than one if the route hedges.
    pub copies: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            safety: Safety::Unsafe,
            lease: Duration::from_secs(30),
            margin: Duration::from_secs(60),
            retry: RetryRules::WORKER,
            deliveries_max: 3,
            deadline: Some(Duration::from_secs(24 * 60 * 60)),
            probe: None,
            reaper: ReaperStrategy::Auto,
            order: Order::None,
            copies: 1,
        }
    }
}

impl Rules {
    /// Refuses contradictory rules.
    pub fn validate(&self) -> Result<(), Invalid> {
        let refuse = |field, problem| Err(Invalid::new(field, problem));
        if self.lease.is_zero() {
            return refuse("lease", "must be longer than 0");
        }
        if self.retry.max_attempts == 0 {
            return refuse("max_attempts", "must be at least 1");
        }
        if self.deliveries_max == 0 {
            return refuse("deliveries_max", "must be at least 1");
        }
        if !(0.0..=1.0).contains(&self.retry.backoff.jitter) {
            return refuse("jitter", "must be between 0 and 1");
        }
        if self.copies == 0 {
            return refuse("copies", "must be at least 1");
        }
        if self.copies > 1 && self.safety == Safety::Unsafe {
            return refuse(
                "hedge",
                "needs a call that may be repeated: safety keyed or natural",
            );
        }
        if self.copies > 1 && self.order == Order::Key {
            return refuse(
                "hedge",
                "cannot keep the order of a key: two copies may overtake",
            );
        }
        match self.safety {
            Safety::Keyed { ttl, .. } if ttl <= self.lease + self.margin => refuse(
                "key_ttl",
                "must be longer than lease and margin together, or no call could be repeated",
            ),
            _ => Ok(()),
        }
    }

    /// Number of attempts lost in a row that makes an operation poison. It is below `max_attempts`,
    /// so that a payload that kills its worker is reported as poison.
    pub fn poison_at(&self) -> u32 {
        self.deliveries_max
            .min(self.retry.max_attempts.saturating_sub(1))
            .max(1)
    }
}

/// Whether a call may be repeated while it is unknown if an earlier call was applied.
///
/// ```
/// use clinch_core::policy::{Rules, Safety};
///
/// assert_eq!(Rules::default().safety, Safety::Unsafe);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safety {
    /// The provider remembers the outbound key.
    Keyed {
        /// How long after the first call.
        ttl: Duration,
        /// The provider also answers a repeated key with its first refusal.
        remembers_refusals: bool,
    },
    /// Repeating is harmless.
    Natural,
    /// May not be repeated. The default.
    Unsafe,
}

/// How often and when to retry.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryRules {
    /// Calls in all, the first included.
    pub max_attempts: u32,
    /// The delay between them.
    pub backoff: Backoff,
    /// Upper bound of a provider's `Retry-After`.
    pub retry_after_max: Duration,
}

impl RetryRules {
    const HOUR: Duration = Duration::from_secs(3_600);
    /// The default: 5 calls, 1 s doubling up to 5 min.
    pub const WORKER: Self = Self::new(5, Backoff::WORKER);
    /// ADR-010's: 3 retries after 30 s, 60 s and 120 s.
    pub const OUTBOX: Self = Self::new(4, Backoff::OUTBOX);
    /// The core SDK document's: 6 calls, 200 ms up to 10 s.
    pub const SDK: Self = Self::new(6, Backoff::SDK);

    const fn new(max_attempts: u32, backoff: Backoff) -> Self {
        Self {
            max_attempts,
            backoff,
            retry_after_max: Self::HOUR,
        }
    }

    /// The delay after the `attempt`-th call: the delay that the provider asked for (capped),
    /// otherwise the backoff.
    pub fn delay(&self, attempt: u32, asked: Option<Duration>, rng: &mut SplitMix) -> Duration {
        match asked {
            Some(asked) => asked.min(self.retry_after_max),
            None => self.backoff.delay(attempt, rng),
        }
    }
}

/// How a probe's answers are judged.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeRules {
    /// The provider shows a call at the latest this long after it was made, so a later "not found"
    /// is final. `None`: a "not found" proves nothing.
    pub not_found_final_after: Option<Duration>,
    /// Maximum number of answers without a verdict. Then probing ends.
    pub inconclusive_max: u32,
    /// The delay between probes.
    pub backoff: Backoff,
}

impl Default for ProbeRules {
    fn default() -> Self {
        Self {
            not_found_final_after: None,
            inconclusive_max: 10,
            backoff: Backoff::WORKER,
        }
    }
}

/// What the Reaper does with an attempt whose lease has ended. No strategy overrides safety.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReaperStrategy {
    /// As safety says: repeat if allowed, otherwise probe.
    #[default]
    Auto,
    /// Probe even if repeating is allowed.
    Probe,
    /// The same as `Auto`. A name of its own, because the requirement documents use it.
    Retry,
    /// FAILED, with effect unknown.
    Fail,
}

/// Whether operations of one biz_key run one at a time, in seq order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// In any order, in parallel.
    #[default]
    None,
    /// One at a time per (domain, biz_key).
    Key,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_19_defaults_are_valid_and_safe() {
        let rules = Rules::default();
        assert_eq!(rules.validate(), Ok(()));
        assert_eq!(rules.safety, Safety::Unsafe);
        assert_eq!(rules.retry.max_attempts, 5);
        assert_eq!(RetryRules::OUTBOX.max_attempts, 4);
        assert_eq!(RetryRules::SDK.max_attempts, 6);
    }

    #[test]
    fn poison_is_named_before_the_attempts_are_used_up() {
        let mut rules = Rules::default();
        assert_eq!(rules.poison_at(), 3);
        rules.retry.max_attempts = 2;
        assert_eq!(rules.poison_at(), 1);
    }

    #[test]
    fn contradictions_are_refused() {
        let keyed = |secs| Safety::Keyed {
            ttl: Duration::from_secs(secs),
            remembers_refusals: false,
        };
        let with = |safety| Rules {
            safety,
            ..Rules::default()
        };
        assert!(with(keyed(90)).validate().is_err());
        assert!(with(keyed(91)).validate().is_ok());
        let mut zero = Rules::default();
        zero.retry.max_attempts = 0;
        assert_eq!(zero.validate().expect_err("zero").field, "max_attempts");
    }

    #[test]
    fn retry_after_is_believed_up_to_its_cap() {
        let day = Duration::from_secs(86_400);
        let delay = RetryRules::WORKER.delay(1, Some(day), &mut SplitMix::new(0));
        assert_eq!(delay, Duration::from_secs(3_600));
    }
}
