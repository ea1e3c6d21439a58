//! What surrounds a call. Permits are RAII: dropping one gives it back.

use std::time::Duration;

use crate::{Command, Payload};

/// A permit that was given; dropping it gives it back.
pub trait Permit: Send {
    /// How the call went; a breaker listens. Dropping without a word counts as a failure
    /// there: a call that was cut off at its deadline is one.
    fn report(self: Box<Self>, ok: bool, took: Duration);
}

/// Why no permit was given. Our own rejections never count against the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejection {
    /// Which guard.
    pub guard: &'static str,
    /// Worth trying again after.
    pub after: Duration,
}

/// What a guard answers.
pub type Admission = Result<Box<dyn Permit>, Rejection>;

/// Stops calling a destination that keeps failing.
pub trait CircuitBreaker: Send + Sync {
    /// A permit for one call.
    fn try_acquire(&self, destination: &str) -> Admission;
    /// Where it stands.
    fn state(&self, destination: &str) -> CircuitState;
}

/// Where a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// Calls pass.
    Closed,
    /// No call passes.
    Open,
    /// A few calls pass, to see.
    HalfOpen,
}

/// Caps concurrent calls to a destination.
pub trait Bulkhead: Send + Sync {
    /// A permit for one call.
    fn try_acquire(&self, destination: &str) -> Admission;
}

/// Caps calls per time to a destination.
pub trait RateLimiter: Send + Sync {
    /// A permit for one call; a rejection says when the next is free.
    fn try_acquire(&self, destination: &str) -> Admission;
}

/// How long one attempt may take.
pub trait TimeoutPolicy: Send + Sync {
    /// The limit for one call.
    fn per_attempt(&self, destination: &str) -> Duration;
}

/// When to send a second copy of a slow call.
pub trait HedgePolicy: Send + Sync {
    /// Send one more after this; `None`: do not hedge.
    fn after(&self, destination: &str, copies_sent: u32) -> Option<Duration>;
}

/// Slows retries down in a storm. It only delays, it never ends an operation.
pub trait RetryBudget: Send + Sync {
    /// Zero: retry as planned; otherwise this much later.
    fn delay(&self, destination: &str) -> Duration;
}

/// Turns new work away before it is accepted. Replays are never shed.
pub trait LoadShed: Send + Sync {
    /// `Some`: turn it away and say when to come back.
    fn shed(&self, command: &Command, oldest_due: Duration) -> Option<Duration>;
}

/// An answer of our own where the provider gives none. Natural routes only.
pub trait Fallback: Send + Sync {
    /// `Some`: complete with this.
    fn fallback(&self, command: &Command) -> Option<Payload>;
}

/// No protection: every guard admits, nothing hedges, sheds or falls back. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unguarded;

impl Permit for Unguarded {
    fn report(self: Box<Self>, _ok: bool, _took: Duration) {}
}

impl CircuitBreaker for Unguarded {
    fn try_acquire(&self, _destination: &str) -> Admission {
        Ok(Box::new(Self))
    }
    fn state(&self, _destination: &str) -> CircuitState {
        CircuitState::Closed
    }
}

impl Bulkhead for Unguarded {
    fn try_acquire(&self, _destination: &str) -> Admission {
        Ok(Box::new(Self))
    }
}

impl RateLimiter for Unguarded {
    fn try_acquire(&self, _destination: &str) -> Admission {
        Ok(Box::new(Self))
    }
}

impl TimeoutPolicy for Unguarded {
    fn per_attempt(&self, _destination: &str) -> Duration {
        // The value that the requirement documents recommend.
        Duration::from_secs(3)
    }
}

impl HedgePolicy for Unguarded {
    fn after(&self, _destination: &str, _copies_sent: u32) -> Option<Duration> {
        None
    }
}

impl RetryBudget for Unguarded {
    fn delay(&self, _destination: &str) -> Duration {
        Duration::ZERO
    }
}

impl LoadShed for Unguarded {
    fn shed(&self, _command: &Command, _oldest_due: Duration) -> Option<Duration> {
        None
    }
}

impl Fallback for Unguarded {
    fn fallback(&self, _command: &Command) -> Option<Payload> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_4_the_default_admits_everything() {
        let calls = 1_000;
        let breaker: &dyn CircuitBreaker = &Unguarded;
        let limiter: &dyn RateLimiter = &Unguarded;
        assert!((0..calls).all(|_| breaker.try_acquire("psp").is_ok()));
        assert!((0..calls).all(|_| limiter.try_acquire("psp").is_ok()));
        assert_eq!(breaker.state("psp"), CircuitState::Closed);
        assert_eq!(HedgePolicy::after(&Unguarded, "psp", 1), None);
        assert_eq!(RetryBudget::delay(&Unguarded, "psp"), Duration::ZERO);
    }
}
