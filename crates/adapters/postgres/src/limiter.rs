//! Calls per time to a destination, counted over all nodes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::policy::{Rate, check_destination};
use clinch_core::ports::{RateLimiter, Reason, Rejection, Room};

use crate::limits::PostgresLimits;
use crate::link::Params;
use crate::query::Query;
use crate::{Postgres, error};

/// How long to leave a destination alone whose rate cannot be asked for. Without the server
/// nobody knows how much the other nodes send, so nothing is sent.
const BLIND_PAUSE: Duration = Duration::from_secs(1);

/// One destination's limiter; [`PostgresLimits`] makes them.
///
/// - In no stretch of `per` do all nodes together get more than `permits` moments. A crash of
///   the server may forget those of its last moment.
/// - A pause holds on every node: it is pushed to them, and [`RateLimiter::room`] knows it
///   without asking. Without a rate nothing but pauses is shared and a reservation costs no
///   statement.
/// - While the server cannot be reached a rate rejects every reservation.
#[derive(Clone)]
pub struct PostgresLimiter {
    pub(crate) inner: Arc<Inner>,
    /// Hears of pauses.
    _limits: PostgresLimits,
}

pub(crate) struct Inner {
    store: Postgres,
    pub(crate) destination: String,
    rate: Option<Rate>,
    known: Mutex<Known>,
}

/// What this node knows; moments are monotonic time.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    paused_until: Option<Duration>,
    /// The server could not be told of the pause.
    is_untold: bool,
    /// The rate is used up until then.
    closed_until: Option<Duration>,
    /// Calls that were left at once, and when.
    left: Option<(u64, Duration)>,
}

impl PostgresLimiter {
    pub(crate) fn new(
        limits: &PostgresLimits,
        store: &Postgres,
        destination: &str,
        rate: Option<Rate>,
    ) -> Result<Self> {
        check_destination(destination)?;
        if let Some(rate) = &rate {
            rate.validate()?;
        }
        let inner = Arc::new(Inner {
            store: store.clone(),
            destination: destination.to_owned(),
            rate,
            known: Mutex::default(),
        });
        Ok(Self {
            inner,
            _limits: limits.clone(),
        })
    }
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.store.clock().monotonic()
    }

    /// The provider asked everyone to stay away. A pause of no time ends the pause.
    pub(crate) fn paused_for(&self, lasting: Duration) {
        let until = self.now().saturating_add(lasting);
        let mut known = self.known();
        if lasting.is_zero() {
            known.paused_until = None;
            known.closed_until = None;
            return;
        }
        known.paused_until = known.paused_until.max(Some(until));
        known.left = None;
    }

    fn left_of(&self, until: Option<Duration>) -> Option<Duration> {
        let left = until?.saturating_sub(self.now());
        (!left.is_zero()).then_some(left)
    }

    /// Tells the server of a pause, or asks it for one that runs.
    async fn tell(&self, lasting: Duration) -> Result<Duration> {
        let tolerance = self.rate.as_ref().map_or(0, Rate::tolerance_us);
        let (lasting, tolerance) = (column(micros(lasting)), column(tolerance));
        let params: Params<'_> = &[&self.destination, &lasting, &tolerance];
        let told = self.store.shared.first(Query::RatePause, params).await?;
        let left: i64 = told.map_or(0, |row| row.get(0));
        Ok(Duration::from_micros(u64::try_from(left).unwrap_or(0)))
    }

    /// Ends the pause on the server, which tells every node.
    async fn end(&self) -> Result<()> {
        let tolerance = column(self.rate.as_ref().map_or(0, Rate::tolerance_us));
        let params: Params<'_> = &[&self.destination, &tolerance];
        self.store.shared.first(Query::RateResume, params).await?;
        self.known().is_untold = false;
        Ok(())
    }

    /// Learns of a pause that runs, or that it ended.
    pub(crate) async fn look(&self) -> Result<()> {
        let left = self.tell(Duration::ZERO).await?;
        let (until, is_untold) = {
            let known = self.known();
            (known.paused_until, known.is_untold)
        };
        match self.left_of(until).filter(|_| is_untold) {
            Some(untold) => {
                self.tell(untold.max(left)).await?;
                self.known().is_untold = false;
            }
            // The notice of its end may have been missed.
            None => self.paused_for(left),
        }
        Ok(())
    }

    async fn ask(&self, rate: &Rate) -> Result<(bool, Duration, u64)> {
        let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let (permits, burst) = (count(rate.permits), count(rate.burst));
        let (per, wait_max) = (column(micros(rate.per)), column(micros(rate.wait_max)));
        let params: Params<'_> = &[&self.destination, &permits, &per, &burst, &wait_max];
        let row = self.store.shared.first(Query::RateReserve, params).await?;
        let row = row.ok_or_else(|| error::corrupt("rate"))?;
        let number = |column| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
        Ok((row.get(0), Duration::from_micros(number(1)), number(2)))
    }

    fn learn(&self, is_granted: bool, wait: Duration, value: u64) -> Result<Duration, Rejection> {
        let now = self.now();
        let mut known = self.known();
        if is_granted {
            known.left = Some((value, now));
            known.closed_until = None;
            return Ok(wait);
        }
        let until = Some(now.saturating_add(wait));
        known.left = None;
        let reason = if value == 1 {
            known.paused_until = known.paused_until.max(until);
            Reason::Paused
        } else {
            known.closed_until = until;
            Reason::RateLimited
        };
        Err(Rejection {
            reason,
            after: wait,
        })
    }
}

#[async_trait]
impl RateLimiter for PostgresLimiter {
    async fn reserve(&self) -> Result<Duration, Rejection> {
        let paused_until = self.inner.known().paused_until;
        if let Some(after) = self.inner.left_of(paused_until) {
            return Err(Rejection {
                reason: Reason::Paused,
                after,
            });
        }
        let Some(rate) = &self.inner.rate else {
            return Ok(Duration::ZERO);
        };
        match self.inner.ask(rate).await {
            Ok((is_granted, wait, value)) => self.inner.learn(is_granted, wait, value),
            Err(_) => self.inner.learn(false, BLIND_PAUSE, 0),
        }
    }

    async fn pause(&self, lasting: Duration) {
        if lasting.is_zero() {
            return;
        }
        self.inner.paused_for(lasting);
        // If the server does not hear of it, this node at least stays away, and tells it later.
        let told = self.inner.tell(lasting).await;
        self.inner.known().is_untold = told.is_err();
    }

    async fn resume(&self) -> bool {
        self.inner.paused_for(Duration::ZERO);
        self.inner.end().await.is_ok()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn room(&self) -> Room {
        let known = *self.inner.known();
        let closed = |reason, again_in| Room {
            calls: 0,
            reason: Some(reason),
            again_in: Some(again_in),
        };
        if let Some(left) = self.inner.left_of(known.paused_until) {
            return closed(Reason::Paused, left);
        }
        if let Some(left) = self.inner.left_of(known.closed_until) {
            return closed(Reason::RateLimited, left);
        }
        let (Some(rate), Some((left, at))) = (&self.inner.rate, known.left) else {
            return Room::UNBOUNDED;
        };
        let interval = rate.interval_us();
        let passed = micros(self.inner.now().saturating_sub(at));
        let calls = (left + passed / interval).min(u64::from(rate.burst));
        if calls == 0 {
            let again = interval - passed % interval;
            return closed(Reason::RateLimited, Duration::from_micros(again));
        }
        Room {
            calls: usize::try_from(calls).unwrap_or(usize::MAX),
            reason: Some(Reason::RateLimited),
            again_in: None,
        }
    }
}

impl fmt::Debug for PostgresLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLimiter")
            .field("destination", &self.inner.destination)
            .field("rate", &self.inner.rate)
            .finish_non_exhaustive()
    }
}

/// In whole microseconds; a hundred years is for ever.
fn micros(duration: Duration) -> u64 {
    const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);
    u64::try_from(duration.min(LONGEST).as_micros()).unwrap_or(u64::MAX)
}

/// Bounded by [`micros`] far below.
fn column(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}
