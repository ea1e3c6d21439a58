//! Protection around a call. Permits are RAII: dropping a permit gives it back.
//!
//! A guard belongs to one destination: routes that call the same destination share it. The engine
//! sees a [`Gate`], which says how much room there is before anything is claimed. The code that
//! makes the call takes the permits.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Command, Payload};

/// A permit for one call. Dropping it gives it back.
pub trait Permit: Send {
    /// Reports how the call went, for the breaker. A permit that is dropped without a report counts
    /// as a failed call: it was cut off at its deadline.
    fn report(self: Box<Self>, verdict: Verdict);
}

/// How a call went, as far as the provider's health is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The provider answered. A refusal is an answer.
    Answered {
        /// From the first byte to the answer.
        took: Duration,
    },
    /// The provider did not answer, or said that it cannot.
    Failed {
        /// From the first byte to the end.
        took: Duration,
    },
    /// No call was made, or its end says nothing about the provider: Clinch's own rejections do not
    /// count against it.
    Ignored,
}

/// Why no permit was given. Clinch's own rejections never count against the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejection {
    /// The guard that rejected the call.
    pub reason: Reason,
    /// Try again after this time.
    pub after: Duration,
}

/// Why a destination takes no call now. The names are those of `hold.reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Its breaker is open, or half open with all its permits in use.
    BreakerOpen,
    /// The maximum number of concurrent calls is running.
    BulkheadFull,
    /// Its rate limit is used up.
    RateLimited,
    /// The provider asked every caller to pause.
    Paused,
}

impl Reason {
    /// The name in documents and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BreakerOpen => "breaker_open",
            Self::BulkheadFull => "bulkhead_full",
            Self::RateLimited => "rate_limited",
            Self::Paused => "paused",
        }
    }
}

/// A guard's answer.
pub type Admission = Result<Box<dyn Permit>, Rejection>;

/// How many more calls a destination takes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Number of calls.
    pub calls: usize,
    /// The guard that bounds the number, if any.
    pub reason: Option<Reason>,
    /// When there may be more room. `None`: when a running call ends.
    pub again_in: Option<Duration>,
}

impl Room {
    /// No guard bounds the number of calls.
    pub const UNBOUNDED: Self = Self {
        calls: usize::MAX,
        reason: None,
        again_in: None,
    };

    /// The smaller room of two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if other.calls < self.calls {
            other
        } else {
            self
        }
    }

    /// No call can be made now.
    pub fn is_closed(self) -> bool {
        self.calls == 0
    }
}

/// The permits for one call that no executor of this process makes: a probe, or a remote worker's
/// attempt. Dropping them without a report counts as a failed call.
pub struct Admitted {
    /// Send the call no earlier than this: its moment in the rate limit.
    pub wait: Duration,
    /// The guards' permits.
    pub permits: Vec<Box<dyn Permit>>,
}

impl Admitted {
    /// Reports how the call went.
    pub fn report(self, verdict: Verdict) {
        for permit in self.permits {
            permit.report(verdict);
        }
    }
}

/// The engine's view of a destination's guards. Nothing is claimed for a destination without room:
/// its rows stay due and cost no write.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Routes with the same name share one set of guards.
    fn destination(&self) -> &str;

    /// The room right now. It reserves nothing: the call itself takes the permits.
    fn room(&self) -> Room;

    /// How much later than planned a retry is made.
    fn retry_delay(&self) -> Duration;

    /// Takes the permits for one call that no executor of this process makes: a probe, or a remote
    /// worker's attempt. It counts like any other call.
    async fn admit(&self) -> Result<Admitted, Rejection>;

    /// The provider asked every caller to pause for this long.
    async fn pause(&self, lasting: Duration);

    /// A remote worker makes a call that is not a retry.
    fn first_call(&self);
}

/// Stops calling a destination that keeps failing.
pub trait CircuitBreaker: Send + Sync {
    /// A permit for one call.
    ///
    /// - Half open it gives exactly its permits, however many callers ask.
    /// - A report of a permit from an earlier state does not count.
    fn try_acquire(&self) -> Admission;
    /// The current state.
    fn state(&self) -> CircuitState;
    /// How many calls it would let through.
    fn room(&self) -> Room;

    /// The state with its times, for operators.
    ///
    /// - A breaker that does not keep the times reports only its state.
    fn status(&self) -> CircuitStatus {
        CircuitStatus {
            state: self.state(),
            since: None,
            open_for: None,
            is_forced: false,
            is_told: false,
        }
    }

    /// An operator closes the breaker. False: this breaker cannot be closed by hand.
    ///
    /// - Its calls so far are forgotten: the breaker judges by the calls after this.
    /// - A report of a permit from before does not count.
    fn reset(&self) -> bool {
        false
    }

    /// Opens the breaker because an operator or another process says so. False: this breaker cannot
    /// be opened from outside.
    ///
    /// - After `open_for` a trial decides whether the breaker closes.
    /// - While an operator keeps it open, a caller that is rejected is told to try again soon,
    ///   because a reset can come at any time.
    fn open(&self, _opened: Opened) -> bool {
        false
    }

    /// Calls `watcher` after every change of state from now on, outside of the breaker's lock. A
    /// breaker without states ignores it: the default. The first watcher stays.
    fn watch(&self, _watcher: CircuitWatcher) {}
}

/// A breaker as operators see it. Times are relative to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitStatus {
    /// Its state.
    pub state: CircuitState,
    /// How long ago it left the state closed. Trials that failed since do not restart it.
    pub since: Option<Duration>,
    /// How long it stays open. `None`: it is not open, or is open until an operator resets it.
    pub open_for: Option<Duration>,
    /// An operator opened it.
    pub is_forced: bool,
    /// An operator or another process changed it last; false: the calls of this process did.
    pub is_told: bool,
}

/// How a breaker is opened from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// How long ago the destination went down.
    pub since: Duration,
    /// How long the breaker stays open. `None`: until [`CircuitBreaker::reset`].
    pub open_for: Option<Duration>,
    /// An operator opened it.
    pub is_forced: bool,
}

/// Is told about every change of a breaker's state.
pub type CircuitWatcher = Box<dyn Fn(CircuitChange) + Send + Sync>;

/// A change of a breaker's state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CircuitChange {
    /// The state after it.
    pub state: CircuitState,
    /// The share of failed calls that led to it; of a breaker that opened or closed.
    pub failure_rate: Option<f64>,
    /// How long the breaker stays open.
    pub lasting: Option<Duration>,
    /// An operator or another process said so; false: the calls of this process led to it.
    pub is_told: bool,
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CircuitState {
    /// Calls pass.
    Closed,
    /// No call passes.
    Open,
    /// A few calls pass, to test the destination.
    HalfOpen,
}

impl CircuitState {
    /// The name in documents and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Caps concurrent calls to a destination.
#[async_trait]
pub trait Bulkhead: Send + Sync {
    /// A permit for one call. Waits for it no longer than the bulkhead's own bound.
    async fn acquire(&self) -> Admission;
    /// How many calls it would let through at once.
    fn room(&self) -> Room;
}

/// Caps calls per time to a destination. It is a port, so that several nodes can share one limit.
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Reserves one call and returns how long to wait before sending it.
    ///
    /// - A reservation is spent, whether or not the call is made.
    /// - A wait over the limiter's own bound is a rejection and reserves nothing.
    async fn reserve(&self) -> Result<Duration, Rejection>;

    /// The provider asked every caller to pause for this long (`Retry-After`). A shorter pause does
    /// not end a longer one.
    async fn pause(&self, lasting: Duration);

    /// How many calls would pass without a wait, as far as this process knows.
    fn room(&self) -> Room;

    /// An operator ends the pause, on every node that shares the limiter. False: this limiter
    /// cannot end a pause, or could not reach the others.
    ///
    /// - Without a pause nothing changes.
    async fn resume(&self) -> bool {
        false
    }

    /// Whether other nodes learn of a pause from this limiter.
    fn is_shared(&self) -> bool {
        false
    }
}

/// How long one attempt may take.
pub trait TimeoutPolicy: Send + Sync {
    /// The limit for one call, from its first byte.
    fn per_attempt(&self) -> Duration;
    /// The limit for the whole attempt, including waits for permits and further copies.
    fn total(&self) -> Duration;
}

/// When to send a further copy of a slow call.
pub trait HedgePolicy: Send + Sync {
    /// How long after the last copy to send one more. `None`: send no more.
    fn after(&self, copies_sent: u32) -> Option<Duration>;
    /// Maximum number of copies of one attempt, including the first.
    fn copies_max(&self) -> u32;
}

/// Slows down retries while there are too many. It only delays; it never ends an operation.
pub trait RetryBudget: Send + Sync {
    /// A call that is not a retry is made.
    fn deposit(&self);
    /// Takes one retry. Zero: retry as planned. Otherwise retry this much later.
    fn withdraw(&self) -> Duration;
}

/// Turns callers away before their work is accepted. Replays are never shed, nor is work that the
/// application creates itself.
pub trait LoadShed: Send + Sync {
    /// `Some`: turn the command away and say when to try again. `oldest_due` is how long the oldest
    /// operation of its domain and destination has waited although it could have run.
    fn shed(&self, command: &Command, oldest_due: Duration) -> Option<Duration>;
}

/// A substitute answer for when the provider gives none. Natural routes only.
pub trait Fallback: Send + Sync {
    /// `Some`: complete the operation with this payload.
    fn fallback(&self, command: &Command) -> Option<Payload>;
}

/// No protection: every guard admits, nothing hedges, sheds or falls back. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unguarded;

impl Permit for Unguarded {
    fn report(self: Box<Self>, _verdict: Verdict) {}
}

#[async_trait]
impl Gate for Unguarded {
    fn destination(&self) -> &str {
        ""
    }
    fn room(&self) -> Room {
        Room::UNBOUNDED
    }
    fn retry_delay(&self) -> Duration {
        Duration::ZERO
    }
    async fn admit(&self) -> Result<Admitted, Rejection> {
        Ok(Admitted {
            wait: Duration::ZERO,
            permits: Vec::new(),
        })
    }
    async fn pause(&self, _lasting: Duration) {}
    fn first_call(&self) {}
}

impl CircuitBreaker for Unguarded {
    fn try_acquire(&self) -> Admission {
        Ok(Box::new(Self))
    }
    fn state(&self) -> CircuitState {
        CircuitState::Closed
    }
    fn room(&self) -> Room {
        Room::UNBOUNDED
    }
}

#[async_trait]
impl Bulkhead for Unguarded {
    async fn acquire(&self) -> Admission {
        Ok(Box::new(Self))
    }
    fn room(&self) -> Room {
        Room::UNBOUNDED
    }
}

#[async_trait]
impl RateLimiter for Unguarded {
    async fn reserve(&self) -> Result<Duration, Rejection> {
        Ok(Duration::ZERO)
    }
    async fn pause(&self, _lasting: Duration) {}
    fn room(&self) -> Room {
        Room::UNBOUNDED
    }
}

impl TimeoutPolicy for Unguarded {
    fn per_attempt(&self) -> Duration {
        // The value that the requirement documents recommend.
        Duration::from_secs(3)
    }
    fn total(&self) -> Duration {
        // RUN-1's longest processing time.
        Duration::from_secs(30)
    }
}

impl HedgePolicy for Unguarded {
    fn after(&self, _copies_sent: u32) -> Option<Duration> {
        None
    }
    fn copies_max(&self) -> u32 {
        1
    }
}

impl RetryBudget for Unguarded {
    fn deposit(&self) {}
    fn withdraw(&self) -> Duration {
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
    fn core_3_core_4_the_default_admits_everything() {
        let calls = 1_000;
        let breaker: &dyn CircuitBreaker = &Unguarded;
        let gate: &dyn Gate = &Unguarded;
        assert!((0..calls).all(|_| breaker.try_acquire().is_ok()));
        assert_eq!(breaker.state(), CircuitState::Closed);
        assert_eq!(gate.room(), Room::UNBOUNDED);
        assert_eq!(HedgePolicy::after(&Unguarded, 1), None);
        assert_eq!(RetryBudget::withdraw(&Unguarded), Duration::ZERO);
    }

    #[test]
    fn the_narrower_room_counts() {
        let one = Room {
            calls: 1,
            reason: Some(Reason::RateLimited),
            again_in: None,
        };
        assert_eq!(Room::UNBOUNDED.min(one), one);
        assert_eq!(one.min(Room::UNBOUNDED), one);
        assert!(!one.is_closed());
    }
}
