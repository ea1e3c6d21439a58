//! Caps calls per time at a destination.

mod gcra;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Invalid;
use clinch_core::ports::{Clock, RateLimiter, Reason, Rejection, Room};

use self::gcra::Gcra;
use crate::sync::{Mutex, lock};

/// Longest period of a rate. Beyond it the arithmetic would not be exact.
pub const PER_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Maximum permits of a rate. This many moments are stored, to count exactly.
pub const PERMITS_MAX: u32 = 100_000;

/// A number of calls in a period. There is no default rate: only the provider knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateConfig {
    /// Number of calls in each period.
    pub permits: u32,
    /// The period.
    pub per: Duration,
    /// Calls that may be sent at once after a quiet time. Default: `permits`. A smaller burst
    /// spreads the calls: with 1 they are evenly spaced.
    pub burst: Option<u32>,
    /// Longest wait that a reservation may return.
    pub wait_max: Duration,
}

impl RateConfig {
    /// The default longest wait: short enough to spend inside a running attempt.
    pub const WAIT_MAX: Duration = Duration::from_millis(100);

    /// `permits` calls per `per`, with a burst of as many.
    pub fn new(permits: u32, per: Duration) -> Self {
        Self {
            permits,
            per,
            burst: None,
            wait_max: Self::WAIT_MAX,
        }
    }

    /// Refuses zero permits and a period of zero.
    pub fn validate(&self) -> Result<(), Invalid> {
        let refuse = |problem: &str| Err(Invalid::new("rate", problem));
        if self.permits == 0 {
            return refuse("permits must be at least 1; pause the domain to stop its calls");
        }
        if self.per.is_zero() || self.per > PER_MAX {
            return refuse("per must be longer than 0 and at most 366 days");
        }
        if self.per.as_nanos() < u128::from(self.permits) {
            return refuse("must be at most one call per nanosecond");
        }
        if self.permits > PERMITS_MAX {
            let problem = format!("permits must be at most {PERMITS_MAX}; name a shorter `per`");
            return refuse(&problem);
        }
        if self.burst == Some(0) {
            return refuse("burst must be at least 1");
        }
        Ok(())
    }
}

/// A rate limiter with reservations: every caller gets a moment of its own.
///
/// - In any period of length `per` it gives out at most `permits` moments, wherever the period
///   begins. A caller that sends later than its moment delays only its own call.
/// - It starts afresh with its process: two processes that follow each other within `per` may
///   together send twice as much. Concurrent processes each have their own rate; implement the port
///   to share one.
/// - A rejected caller is told how long it would have had to wait for its reservation. Other
///   callers may come first.
/// - After a pause the burst is used up: one call at the end of the pause, then the rate.
pub struct Rate {
    gcra: Mutex<Gcra>,
    wait_max: Duration,
    clock: Arc<dyn Clock>,
}

impl Rate {
    /// A limiter with its whole burst.
    pub fn new(config: RateConfig, clock: Arc<dyn Clock>) -> Result<Self, Invalid> {
        config.validate()?;
        let burst = config.burst.unwrap_or(config.permits);
        Ok(Self {
            gcra: Mutex::new(Gcra::new(config.permits, config.per, burst)),
            wait_max: config.wait_max,
            clock,
        })
    }

    fn with<T>(&self, step: impl FnOnce(&mut Gcra, Duration) -> T) -> T {
        let mut gcra = lock(&self.gcra);
        let now = self.clock.monotonic();
        step(&mut gcra, now)
    }
}

#[async_trait]
impl RateLimiter for Rate {
    async fn reserve(&self) -> Result<Duration, Rejection> {
        self.with(|gcra, now| gcra.reserve(now, self.wait_max))
    }

    async fn pause(&self, lasting: Duration) {
        self.with(|gcra, now| gcra.pause(now, lasting));
    }

    fn room(&self) -> Room {
        self.with(|gcra, now| gcra.room(now))
    }

    async fn resume(&self) -> bool {
        self.with(|gcra, now| gcra.resume(now));
        true
    }
}

/// No rate limit, but a provider's `Retry-After` still pauses every caller. When the pause ends,
/// all callers may call at once: without a rate nothing says how few would be right.
pub struct PauseOnly {
    until: Mutex<Duration>,
    clock: Arc<dyn Clock>,
}

impl PauseOnly {
    /// A limiter without a pause.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            until: Mutex::new(Duration::ZERO),
            clock,
        }
    }

    /// The rest of the pause.
    fn left(&self) -> Duration {
        let until = *lock(&self.until);
        until.saturating_sub(self.clock.monotonic())
    }
}

#[async_trait]
impl RateLimiter for PauseOnly {
    async fn reserve(&self) -> Result<Duration, Rejection> {
        match self.left() {
            Duration::ZERO => Ok(Duration::ZERO),
            after => Err(Rejection {
                reason: Reason::Paused,
                after,
            }),
        }
    }

    async fn pause(&self, lasting: Duration) {
        let end = self.clock.monotonic().saturating_add(lasting);
        let mut until = lock(&self.until);
        *until = end.max(*until);
    }

    fn room(&self) -> Room {
        match self.left() {
            Duration::ZERO => Room::UNBOUNDED,
            left => Room {
                calls: 0,
                reason: Some(Reason::Paused),
                again_in: Some(left),
            },
        }
    }

    async fn resume(&self) -> bool {
        *lock(&self.until) = Duration::ZERO;
        true
    }
}
