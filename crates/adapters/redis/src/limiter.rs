//! Rate limit of a destination, counted over all nodes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::policy::{Rate, check_destination};
use clinch_core::ports::{RateLimiter, Reason, Rejection, Room};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

use crate::clock::{Moment, after, now};
use crate::error::ours;
use crate::hub::Event;
use crate::{Redis, Settings, micros};

/// How long to make no call if the rate limit cannot be asked for. Without the server this node
/// cannot know how much the other nodes send, so it sends nothing.
const BLIND_PAUSE: Duration = Duration::from_secs(1);

/// One destination's limiter.
///
/// - In any period of length `per`, all nodes together get at most `permits` moments.
/// - A pause holds on every node: it is pushed to them, and [`RateLimiter::room`] knows it without
///   a request. Without a rate only pauses are shared, and a reservation costs no command.
/// - While the server cannot be reached, a limiter with a rate rejects every reservation.
#[derive(Clone)]
pub struct RedisLimiter {
    inner: Arc<Inner>,
    _listener: Arc<Listener>,
}

struct Inner {
    redis: Redis,
    destination: String,
    rate: Option<Rate>,
    known: Mutex<Known>,
}

/// What this node knows without asking the server.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    paused_until: Option<Moment>,
    /// The server could not be told of the pause.
    is_untold: bool,
    /// The rate limit is used up until then.
    closed_until: Option<Moment>,
    /// Calls that were available at once, and when that was read.
    left: Option<(u64, Moment)>,
}

struct Listener(AbortHandle);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RedisLimiter {
    /// Connects.
    pub async fn connect(
        url: &str,
        settings: Settings,
        destination: &str,
        rate: Option<Rate>,
    ) -> Result<Self> {
        Self::on(&Redis::connect(url, settings).await?, destination, rate).await
    }

    /// A limiter on a connected server. It reads a pause that has already begun.
    pub async fn on(redis: &Redis, destination: &str, rate: Option<Rate>) -> Result<Self> {
        check_destination(destination)?;
        if let Some(rate) = &rate {
            rate.validate()?;
        }
        let inner = Arc::new(Inner {
            redis: redis.clone(),
            destination: destination.to_owned(),
            rate,
            known: Mutex::default(),
        });
        let events = redis.events();
        inner.look().await?;
        let listener = tokio::spawn(listen(inner.clone(), events));
        Ok(Self {
            inner,
            _listener: Arc::new(Listener(listener.abort_handle())),
        })
    }
}

async fn listen(inner: Arc<Inner>, mut events: Receiver<Event>) {
    loop {
        match events.recv().await {
            Ok(Event::Paused {
                destination,
                lasting,
            }) if destination == inner.destination => inner.paused_for(lasting),
            // Notices may have been missed. If this read fails, the next connection repeats it.
            Ok(Event::Connected) | Err(RecvError::Lagged(_)) => drop(inner.look().await),
            Ok(_) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pause of no time ends the pause.
    fn paused_for(&self, lasting: Duration) {
        let until = after(lasting);
        let mut known = self.known();
        if lasting.is_zero() {
            known.paused_until = None;
            known.closed_until = None;
            return;
        }
        known.paused_until = known.paused_until.max(Some(until));
        known.left = None;
    }

    fn pause_left(&self) -> Option<Duration> {
        left_of(self.known().paused_until)
    }

    /// Sets a pause on the server, or reads the current one.
    async fn tell(&self, lasting: Duration) -> Result<Duration> {
        let shared = &self.redis.shared;
        let script = &shared.scripts.rate_pause;
        let mut pause = script.key(shared.keys.rate(&self.destination));
        pause
            .arg(self.redis.offset())
            .arg(micros(lasting))
            .arg(self.rate.as_ref().map_or(0, Rate::tolerance_us))
            .arg(shared.keys.channel())
            .arg(&self.destination);
        let left: u64 = self.redis.run(&pause).await.map_err(ours)?;
        Ok(Duration::from_micros(left))
    }

    /// Ends the pause on the server, which tells every node.
    async fn end(&self) -> Result<()> {
        let shared = &self.redis.shared;
        let script = &shared.scripts.rate_resume;
        let mut resume = script.key(shared.keys.rate(&self.destination));
        resume
            .arg(self.redis.offset())
            .arg(self.rate.as_ref().map_or(0, Rate::tolerance_us))
            .arg(shared.keys.channel())
            .arg(&self.destination);
        let _: u64 = self.redis.run(&resume).await.map_err(ours)?;
        self.known().is_untold = false;
        Ok(())
    }

    async fn look(&self) -> Result<()> {
        let left = self.tell(Duration::ZERO).await?;
        let (until, is_untold) = {
            let known = self.known();
            (known.paused_until, known.is_untold)
        };
        match left_of(until).filter(|_| is_untold) {
            Some(untold) => {
                self.tell(untold.max(left)).await?;
                self.known().is_untold = false;
            }
            // The notice of its end may have been missed.
            None => self.paused_for(left),
        }
        Ok(())
    }

    async fn ask(&self, rate: &Rate) -> Result<(bool, u64, u64)> {
        let shared = &self.redis.shared;
        let script = &shared.scripts.rate_reserve;
        let mut reserve = script.key(shared.keys.rate(&self.destination));
        reserve
            .key(shared.keys.moments(&self.destination))
            .arg(self.redis.offset())
            .arg(rate.permits)
            .arg(micros(rate.per))
            .arg(rate.burst)
            .arg(micros(rate.wait_max));
        self.redis.run(&reserve).await.map_err(ours)
    }

    fn learn(&self, is_granted: bool, wait: Duration, value: u64) -> Result<Duration, Rejection> {
        let mut known = self.known();
        if is_granted {
            known.left = Some((value, now()));
            known.closed_until = None;
            return Ok(wait);
        }
        let until = Some(after(wait));
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

fn left_of(until: Option<Moment>) -> Option<Duration> {
    let left = until?.saturating_duration_since(now());
    (!left.is_zero()).then_some(left)
}

#[async_trait]
impl RateLimiter for RedisLimiter {
    async fn reserve(&self) -> Result<Duration, Rejection> {
        if let Some(after) = self.inner.pause_left() {
            return Err(Rejection {
                reason: Reason::Paused,
                after,
            });
        }
        let Some(rate) = &self.inner.rate else {
            return Ok(Duration::ZERO);
        };
        match self.inner.ask(rate).await {
            Ok((is_granted, wait, value)) => {
                let wait = Duration::from_micros(wait);
                self.inner.learn(is_granted, wait, value)
            }
            Err(_) => self.inner.learn(false, BLIND_PAUSE, 0),
        }
    }

    async fn pause(&self, lasting: Duration) {
        if lasting.is_zero() {
            return;
        }
        self.inner.paused_for(lasting);
        // If the server cannot be told, at least this node pauses, and tells it later.
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
        if let Some(left) = left_of(known.paused_until) {
            return closed(Reason::Paused, left);
        }
        if let Some(left) = left_of(known.closed_until) {
            return closed(Reason::RateLimited, left);
        }
        let (Some(rate), Some((left, at))) = (&self.inner.rate, known.left) else {
            return Room::UNBOUNDED;
        };
        let interval = rate.interval_us();
        let passed = micros(now().saturating_duration_since(at));
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

impl fmt::Debug for RedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiter")
            .field("destination", &self.inner.destination)
            .field("rate", &self.inner.rate)
            .finish_non_exhaustive()
    }
}
