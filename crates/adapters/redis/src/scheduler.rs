//! Moves delayed hints to their streams when they are due.
//!
//! Every node runs one. The leader works; the others wait for the end of its lock. The leader sends
//! one script, which renews the lock, promotes due hints, nudges readers about expired loans, and
//! returns when the next hint is due. Then the leader sleeps until that time, until it is woken, or
//! until the lock must be renewed. The script checks the fence, so that a leader that was paused
//! past the end of its lock changes nothing when it wakes up.

use std::time::Duration;

use clinch_core::Result;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, oneshot};

use crate::bus::GROUP;
use crate::clock::{Backoff, Moment, now, sleep};
use crate::error::ours;
use crate::hub::Event;
use crate::{Redis, micros, millis};

/// Maximum hints that one script promotes, so that it blocks the server for a few milliseconds at
/// most.
const BATCH: u64 = 500;

/// Answered when everything that is due was promoted.
pub(crate) type Poke = oneshot::Sender<()>;

/// One candidate for leadership.
pub struct Scheduler {
    redis: Redis,
    owner: String,
    fence: Option<String>,
}

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// Another node leads.
    NotLeading,
    /// This node leads and has promoted hints.
    Leading {
        /// Number of hints that were moved to their streams.
        promoted: u64,
        /// When the next hint is due. `None`: nothing is delayed.
        next: Option<Duration>,
    },
}

enum Woken {
    Time,
    Poke(Poke),
    Over,
}

impl Scheduler {
    /// A candidate with a unique name.
    pub fn new(redis: &Redis) -> Result<Self> {
        Ok(Self {
            redis: redis.clone(),
            owner: crate::locks::fresh_owner()?,
            fence: None,
        })
    }

    /// Tries to become leader. `Some`: another node leads for this long.
    pub async fn lead(&mut self) -> Result<Option<Duration>> {
        let shared = &self.redis.shared;
        let (is_ours, value): (bool, String) = self
            .redis
            .run(
                shared
                    .scripts
                    .lock_take
                    .key(shared.keys.scheduler())
                    .arg(self.redis.offset())
                    .arg(&self.owner)
                    .arg(micros(shared.settings.scheduler_ttl)),
            )
            .await
            .map_err(ours)?;
        if is_ours {
            shared.counters.tell_leader(true);
            self.fence = Some(value);
            return Ok(None);
        }
        let left = value.parse().unwrap_or(0);
        Ok(Some(Duration::from_micros(left)))
    }

    /// One step of the leader.
    pub async fn tick(&mut self) -> Result<Tick> {
        let Some(fence) = &self.fence else {
            return Ok(Tick::NotLeading);
        };
        let shared = &self.redis.shared;
        let (keys, settings) = (&shared.keys, &shared.settings);
        let answer: Vec<i64> = self
            .redis
            .run(
                shared
                    .scripts
                    .tick
                    .key(keys.scheduler())
                    .key(keys.delayed())
                    .key(keys.topics())
                    .key(keys.nudges())
                    .arg(self.redis.offset())
                    .arg(&self.owner)
                    .arg(fence)
                    .arg(micros(settings.scheduler_ttl))
                    .arg(BATCH)
                    .arg(keys.streams())
                    .arg(GROUP)
                    .arg(millis(settings.visibility)),
            )
            .await
            .map_err(ours)?;
        match answer[..] {
            [1, promoted, next] => Ok(Tick::Leading {
                promoted: promoted.unsigned_abs(),
                next: u64::try_from(next).ok().map(Duration::from_micros),
            }),
            _ => {
                shared.counters.tell_leader(false);
                self.fence = None;
                Ok(Tick::NotLeading)
            }
        }
    }

    /// Steps down, so that another takes over at once.
    pub async fn release(&mut self) -> Result<bool> {
        let shared = &self.redis.shared;
        if self.fence.take().is_some() {
            shared.counters.tell_leader(false);
        }
        let script = &shared.scripts.lock_release;
        let mut release = script.key(shared.keys.scheduler());
        release
            .arg(self.redis.offset())
            .arg(&self.owner)
            .arg(shared.keys.channel());
        self.redis.run(&release).await.map_err(ours)
    }

    /// Runs until the bus is dropped.
    pub(crate) async fn run(mut self, mut pokes: mpsc::Receiver<Poke>) {
        let mut events = self.redis.events();
        let mut backoff = Backoff::default();
        let mut poked: Option<Poke> = None;
        loop {
            let nap = match self.step().await {
                Ok(nap) => {
                    backoff.reset();
                    if let Some(poke) = poked.take() {
                        // The caller may be gone.
                        let _ = poke.send(());
                    }
                    nap
                }
                Err(_) => backoff.next(),
            };
            let asleep = now();
            let woken = self.rest(asleep + nap, &mut events, &mut pokes).await;
            let slept = now().saturating_duration_since(asleep);
            self.redis.shared.counters.add_sleep(slept);
            match woken {
                Woken::Time => {}
                Woken::Poke(poke) => poked = Some(poke),
                Woken::Over => break,
            }
        }
        // If this fails, the lock expires.
        let _ = self.release().await;
    }

    /// Does what is due now, and returns how long to sleep.
    async fn step(&mut self) -> Result<Duration> {
        let ttl = self.redis.shared.settings.scheduler_ttl;
        loop {
            if self.fence.is_none()
                && let Some(left) = self.lead().await?
            {
                return Ok(left.min(ttl));
            }
            match self.tick().await? {
                // The lock expired meanwhile: try to take it again.
                Tick::NotLeading => {}
                Tick::Leading { promoted, .. } if promoted >= BATCH => {}
                Tick::Leading { next, .. } => {
                    let renewal = ttl / 3;
                    return Ok(next.map_or(renewal, |next| next.min(renewal)));
                }
            }
        }
    }

    /// Sleeps until the time has passed or a relevant notice comes.
    async fn rest(
        &self,
        until: Moment,
        events: &mut Receiver<Event>,
        pokes: &mut mpsc::Receiver<Poke>,
    ) -> Woken {
        loop {
            let left = until.saturating_duration_since(now());
            tokio::select! {
                () = sleep(left) => return Woken::Time,
                poke = pokes.recv() => return poke.map_or(Woken::Over, Woken::Poke),
                event = events.recv() => match event {
                    Ok(Event::Due) if self.fence.is_none() => {}
                    Ok(Event::Paused { .. }) => {}
                    // Cannot happen: this task keeps the hub alive.
                    Err(RecvError::Closed) => return Woken::Over,
                    Ok(_) | Err(RecvError::Lagged(_)) => return Woken::Time,
                },
            }
        }
    }
}
