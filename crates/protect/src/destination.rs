//! The guards that all routes to one destination share.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Invalid;
use clinch_core::ports::{
    Admitted, Bulkhead, CircuitBreaker, CircuitState, CircuitStatus, Clock, Gate, Opened,
    RateLimiter, Reason, Rejection, RetryBudget, Room, Unguarded, Verdict,
};

use crate::calls::{CallFailure, Calls, Counted, RecentCalls};
use crate::sync::{Mutex, lock};
use crate::{
    BulkheadConfig, Circuit, CircuitConfig, PauseOnly, Rate, RateConfig, Ratio, RatioConfig, Slots,
};

/// The guards of a destination. `None`: without this guard.
///
/// The default has a breaker, a bulkhead and a retry budget with their default values. It has no
/// rate limit, because only the provider knows it. Without a rate limit, a provider's `Retry-After`
/// still pauses every caller.
#[derive(Debug, Clone, PartialEq)]
pub struct DestinationConfig {
    /// Stops calls while the destination keeps failing.
    pub breaker: Option<CircuitConfig>,
    /// Caps concurrent calls.
    pub concurrency: Option<BulkheadConfig>,
    /// Caps calls per time.
    pub rate: Option<RateConfig>,
    /// Slows down retries while there are too many.
    pub budget: Option<RatioConfig>,
}

impl Default for DestinationConfig {
    fn default() -> Self {
        Self {
            breaker: Some(CircuitConfig::default()),
            concurrency: Some(BulkheadConfig::default()),
            rate: None,
            budget: Some(RatioConfig::default()),
        }
    }
}

impl DestinationConfig {
    /// No guards, except that `Retry-After` is obeyed.
    pub const NONE: Self = Self {
        breaker: None,
        concurrency: None,
        rate: None,
        budget: None,
    };
}

/// One set of guards. Routes that call the same destination share it; the engine sees it as a
/// [`Gate`].
pub struct Destination {
    name: String,
    breaker: Arc<dyn CircuitBreaker>,
    bulkhead: Arc<dyn Bulkhead>,
    limiter: Arc<dyn RateLimiter>,
    budget: Arc<dyn RetryBudget>,
    limits: DestinationLimits,
    calls: Option<Calls>,
    opener: Mutex<Option<Opener>>,
    sharing: OnceLock<Arc<dyn Sharing>>,
}

/// Keeps the guards of a destination in step with those of other processes.
#[async_trait]
pub trait Sharing: Send + Sync {
    /// Learns what other processes know, unless it did so a moment ago. Called before every call.
    async fn catch_up(&self);
    /// The provider asked this process to pause, and no other process knows it.
    fn paused(&self, destination: &str);
}

/// Who opened a breaker from outside, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// The person or key. `None`: the calls of another process failed.
    pub by: Option<String>,
    /// The person's reason, or the last error of the other process. May be empty.
    pub reason: String,
}

/// The configured limits of a destination. `None`: no limit, or guards that do not name theirs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DestinationLimits {
    /// Calls per time.
    pub rate: Option<RateConfig>,
    /// Concurrent calls.
    pub max_concurrent: Option<u32>,
}

/// The state of a destination, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationStatus {
    /// Its name.
    pub name: String,
    /// Its breaker.
    pub breaker: CircuitState,
    /// How many calls all guards together let through, which guard bounds it, and when there may be
    /// more.
    pub room: Room,
    /// How many calls the bulkhead alone lets through.
    pub concurrency: Room,
    /// How many calls the rate limit alone lets through.
    pub rate: Room,
    /// The provider asked every caller to pause for this much longer.
    pub paused: Option<Duration>,
    /// How long ago this process learned of that pause.
    pub paused_since: Option<Duration>,
    /// Its breaker, with the times.
    pub circuit: CircuitStatus,
    /// Who opened the breaker, if it was opened from outside.
    pub opener: Option<Opener>,
    /// The last call of this process that counted against the destination.
    pub last_failure: Option<CallFailure>,
    /// The calls of this process in the last minutes.
    pub recent: RecentCalls,
    /// The configured limits.
    pub limits: DestinationLimits,
}

impl Destination {
    /// A destination with guards of this process.
    pub fn new(
        name: impl Into<String>,
        clock: Arc<dyn Clock>,
        config: DestinationConfig,
    ) -> Result<Self, Invalid> {
        let limits = DestinationLimits {
            rate: config.rate.clone(),
            max_concurrent: config.concurrency.as_ref().map(|one| one.max_concurrent),
        };
        let calls = Some(Calls::new(clock.clone()));
        let clock = || Arc::clone(&clock);
        let breaker: Arc<dyn CircuitBreaker> = match config.breaker {
            Some(breaker) => Arc::new(Circuit::new(breaker, clock())?),
            None => Arc::new(Unguarded),
        };
        let bulkhead: Arc<dyn Bulkhead> = match config.concurrency {
            Some(concurrency) => Arc::new(Slots::new(concurrency, clock())?),
            None => Arc::new(Unguarded),
        };
        let limiter: Arc<dyn RateLimiter> = match config.rate {
            Some(rate) => Arc::new(Rate::new(rate, clock())?),
            None => Arc::new(PauseOnly::new(clock())),
        };
        let budget: Arc<dyn RetryBudget> = match config.budget {
            Some(budget) => Arc::new(Ratio::new(budget, clock())?),
            None => Arc::new(Unguarded),
        };
        Ok(Self {
            limits,
            calls,
            ..Self::with(name, breaker, bulkhead, limiter, budget)
        })
    }

    /// A destination with the given guards, for example distributed ones. Its status shows neither
    /// limits nor the last calls.
    pub fn with(
        name: impl Into<String>,
        breaker: Arc<dyn CircuitBreaker>,
        bulkhead: Arc<dyn Bulkhead>,
        limiter: Arc<dyn RateLimiter>,
        budget: Arc<dyn RetryBudget>,
    ) -> Self {
        Self {
            name: name.into(),
            breaker,
            bulkhead,
            limiter,
            budget,
            limits: DestinationLimits::default(),
            calls: None,
            opener: Mutex::new(None),
            sharing: OnceLock::new(),
        }
    }

    /// Keeps these guards in step with other processes. The first call decides.
    pub fn share(&self, sharing: Arc<dyn Sharing>) {
        let _ = self.sharing.set(sharing);
    }

    pub(crate) async fn catch_up(&self) {
        if let Some(sharing) = self.sharing.get() {
            sharing.catch_up().await;
        }
    }

    /// Replaces the limiter, for example by one that several processes share.
    #[must_use]
    pub fn limited_by(mut self, limiter: Arc<dyn RateLimiter>) -> Self {
        self.limiter = limiter;
        self
    }

    /// The current state. The guards are read one after another, not at one moment.
    pub fn status(&self) -> DestinationStatus {
        let rate = self.limiter.room();
        let is_paused = rate.reason == Some(Reason::Paused);
        let calls = self.calls.as_ref();
        let (last_failure, recent) = calls.map(Calls::read).unwrap_or_default();
        let circuit = self.breaker.status();
        let opener = lock(&self.opener).clone();
        let opener = opener.filter(|_| circuit.is_told && circuit.state == CircuitState::Open);
        DestinationStatus {
            name: self.name.clone(),
            breaker: self.breaker.state(),
            room: self.room(),
            concurrency: self.bulkhead.room(),
            rate,
            paused: rate.again_in.filter(|_| is_paused),
            paused_since: calls.and_then(Calls::paused_since).filter(|_| is_paused),
            circuit,
            opener,
            last_failure,
            recent,
            limits: self.limits.clone(),
        }
    }

    /// Closes the breaker and ends a pause. False: a pause continues, because the limiter cannot
    /// end it.
    pub async fn reset(&self) -> bool {
        self.breaker.reset();
        if self.status().paused.is_none() {
            return true;
        }
        self.limiter.resume().await
    }

    /// Opens the breaker. False: the destination has no breaker that can be opened from outside.
    pub fn open(&self, opened: Opened, opener: Opener) -> bool {
        *lock(&self.opener) = Some(opener);
        self.breaker.open(opened)
    }

    /// Notes how a call ended. `reason`: why it counts against the destination.
    pub(crate) fn note_call(&self, reason: Option<(&'static str, &str)>) {
        if let Some(calls) = &self.calls {
            calls.note(reason);
        }
    }

    /// The circuit breaker.
    pub fn breaker(&self) -> &dyn CircuitBreaker {
        &*self.breaker
    }

    /// The bulkhead.
    pub fn bulkhead(&self) -> &dyn Bulkhead {
        &*self.bulkhead
    }

    /// The rate limiter.
    pub fn limiter(&self) -> &dyn RateLimiter {
        &*self.limiter
    }

    /// The retry budget.
    pub fn budget(&self) -> &dyn RetryBudget {
        &*self.budget
    }
}

#[async_trait]
impl Gate for Destination {
    fn destination(&self) -> &str {
        &self.name
    }

    fn room(&self) -> Room {
        [self.bulkhead.room(), self.limiter.room()]
            .into_iter()
            .fold(self.breaker.room(), narrower)
    }

    fn retry_delay(&self) -> Duration {
        self.budget.withdraw()
    }

    /// In the order of the chain: breaker, bulkhead, rate limit.
    async fn admit(&self) -> Result<Admitted, Rejection> {
        self.catch_up().await;
        let pass = self.breaker.try_acquire()?;
        let used = async {
            let slot = self.bulkhead.acquire().await?;
            let wait = self.limiter.reserve().await?;
            Ok((slot, wait))
        };
        match used.await {
            Ok((slot, wait)) => {
                let mut permits = vec![pass, slot];
                if let Some(calls) = &self.calls {
                    permits.push(Box::new(Counted::new(calls.clone())));
                }
                Ok(Admitted { wait, permits })
            }
            Err(rejection) => {
                pass.report(Verdict::Ignored);
                Err(rejection)
            }
        }
    }

    async fn pause(&self, lasting: Duration) {
        if let Some(calls) = &self.calls {
            calls.note_pause(lasting);
        }
        self.limiter.pause(lasting).await;
        if let Some(sharing) = self.sharing.get().filter(|_| !self.limiter.is_shared()) {
            sharing.paused(&self.name);
        }
    }

    fn first_call(&self) {
        self.budget.deposit();
    }
}

/// Of two closed rooms, the one that stays closed longer: checking again before that is useless. A
/// room that opens when a running call ends counts as the shorter.
fn narrower(one: Room, other: Room) -> Room {
    if one.is_closed() && other.is_closed() {
        if other.again_in > one.again_in {
            return other;
        }
        return one;
    }
    one.min(other)
}
