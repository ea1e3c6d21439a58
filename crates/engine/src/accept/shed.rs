//! Load shedding: how long runnable work has waited, and whether callers are turned away.
//!
//! Callers are turned away at the edge: the server and the facade's `start` ask
//! [`Orchestrator::shed`] before they accept. Work that a process creates itself (schedules,
//! spawned operations, redrives, recovery) is accepted without this check.
//!
//! A command is judged by the oldest due row of its own domain and destination, and only by the
//! part of that row's wait in which it could have run:
//!
//! - A destination without an executor in this process is not judged: this process cannot know
//!   whether its work could run.
//! - The wait counts from when the destination was last seen closed by its breaker, its provider or
//!   its rate limit. A full bulkhead does not interrupt the wait: a full bulkhead is what overload
//!   looks like.
//! - The wait starts again after a reading that found nothing due or the domain paused, and after
//!   [`WATCH_GAP`] without a reading.
//! - Operations that are ordered by key do not count: they wait for their predecessors.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::policy::Order;
use clinch_core::ports::{DomainView, Level, Tags};
use clinch_core::{Command, Domain, Error, ErrorKind, Keys, Payload};

use super::{Acceptor, Orchestrator};
use crate::execute::Destination;

/// A reading of the queues is fresh for this long. A later command triggers another reading.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// An older reading turns no caller away: the caller first waits for a new reading.
const STALE_AFTER: Duration = Duration::from_secs(2);

/// After this long without a reading, the past is unknown: the domain may have been paused. All
/// waits start again.
const WATCH_GAP: Duration = Duration::from_secs(60);

/// The last reading of the queues.
#[derive(Default)]
pub(crate) struct Load {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    at: Option<Duration>,
    /// A reading is in progress.
    looking: bool,
    /// By domain and destination.
    queues: BTreeMap<Domain, BTreeMap<String, Queue>>,
}

/// The work of one domain at one destination.
struct Queue {
    /// When a reading last found nothing due.
    since: Duration,
    /// How long the oldest due row has waited although it could have run.
    age: Duration,
    /// `Some` while callers are turned away: the command with the lowest priority among theirs,
    /// without its payload.
    turned_away: Option<Command>,
}

impl Load {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last reading is fresh enough to judge by. An aging reading is refreshed by one
    /// caller, in the background; an old one is read again first by every caller.
    fn reading(&self, now: Duration) -> Reading {
        let mut seen = self.lock();
        let age = seen.at.map(|at| now.saturating_sub(at));
        match age {
            Some(age) if age < GOOD_FOR => Reading::Fresh,
            Some(age) if age < STALE_AFTER && !seen.looking => {
                seen.looking = true;
                Reading::Again
            }
            Some(age) if age < STALE_AFTER => Reading::Fresh,
            _ => Reading::First,
        }
    }
}

enum Reading {
    /// Judge by the last reading.
    Fresh,
    /// Judge by the last reading, and read again in the background.
    Again,
    /// Read again before judging.
    First,
}

impl Seen {
    fn queue(&mut self, domain: &Domain, destination: &str) -> Option<&mut Queue> {
        self.queues.get_mut(domain)?.get_mut(destination)
    }

    /// Records the wait of the oldest due row, as far as the row could have run. `oldest` is `None`
    /// if nothing is due.
    fn judge(
        &mut self,
        domain: &Domain,
        destination: &Destination,
        oldest: Option<Duration>,
        now: Duration,
    ) -> &mut Queue {
        let queues = self.queues.entry(domain.clone()).or_default();
        let name = destination.gate.destination().to_owned();
        let queue = queues.entry(name).or_insert(Queue {
            since: now,
            age: Duration::ZERO,
            turned_away: None,
        });
        if oldest.is_none() {
            queue.since = now;
        }
        let could_run = now.saturating_sub(queue.since.max(destination.closed_until()));
        queue.age = oldest.unwrap_or_default().min(could_run);
        queue
    }
}

impl Orchestrator {
    /// The error for each command that must be turned away. Code that takes commands from callers
    /// asks this first. A replay is never turned away: a caller that was told "accepted" may ask
    /// for its operation at any time.
    pub async fn shed(&self, commands: &[Command]) -> Vec<Option<Error>> {
        self.accept.shed(commands).await
    }

    /// Records how long work waits, from domain views that the caller has read for another purpose.
    pub fn note_load(&self, views: &[DomainView]) {
        if self.accept.ports.shed.is_some() {
            self.accept.note_load(views);
        }
    }
}

impl Orchestrator {
    /// The queues whose callers this process turns away now: domain, destination, and how long due
    /// work has waited although it could have run.
    pub fn shedding(&self) -> Vec<(Domain, String, Duration)> {
        let seen = self.accept.load.lock();
        let queues = seen.queues.iter().flat_map(|(domain, queues)| {
            let queues = queues
                .iter()
                .filter(|(_, queue)| queue.turned_away.is_some());
            queues.map(move |(name, queue)| (domain.clone(), name.clone(), queue.age))
        });
        queues.collect()
    }
}

impl Acceptor {
    async fn shed(self: &Arc<Self>, commands: &[Command]) -> Vec<Option<Error>> {
        if self.ports.shed.is_none() {
            return commands.iter().map(|_| None).collect();
        }
        match self.load.reading(self.ports.clock.monotonic()) {
            Reading::Fresh => {}
            Reading::First => self.read_queues().await,
            Reading::Again => {
                let accept = self.clone();
                let read = async move { accept.read_queues().await };
                self.ports.spawner.spawn(Box::pin(read));
            }
        }
        let mut verdicts: Vec<_> = commands.iter().map(|c| self.turns_away(c)).collect();
        let turned_away = |(_, verdict): &(&Command, &Option<Duration>)| verdict.is_some();
        let pairs = commands.iter().zip(&verdicts).filter(turned_away);
        let keys: Vec<Keys> = pairs.map(|(command, _)| command.keys.clone()).collect();
        if !keys.is_empty() {
            // If the store cannot say which commands are replays, none is turned away here: the
            // accept reports the store's error.
            let known = self.ports.inspect.find(&keys).await.ok();
            let mut known = known.map(Vec::into_iter);
            for verdict in verdicts.iter_mut().filter(|verdict| verdict.is_some()) {
                if known
                    .as_mut()
                    .is_none_or(|known| known.next().flatten().is_some())
                {
                    *verdict = None;
                }
            }
        }
        let verdicts = commands.iter().zip(verdicts);
        verdicts
            .map(|(command, after)| {
                let after = after?;
                self.record_turned_away(command);
                Some(refusal(after))
            })
            .collect()
    }

    /// `Some`: too much due work waits; the caller may retry after this duration.
    fn turns_away(&self, command: &Command) -> Option<Duration> {
        let shed = self.ports.shed.as_ref()?;
        let keys = &command.keys;
        let destination = self.destination_for(&keys.domain, &keys.event_type)?;
        let mut seen = self.load.lock();
        let queue = seen.queue(&keys.domain, destination.gate.destination())?;
        shed.shed(command, queue.age)
    }

    /// Counts every refusal, and logs the first one.
    fn record_turned_away(&self, command: &Command) {
        let keys = &command.keys;
        self.count("orchestrator.shed.count", Some(&keys.domain), 1);
        let Some(destination) = self.destination_for(&keys.domain, &keys.event_type) else {
            return;
        };
        let mut seen = self.load.lock();
        let Some(queue) = seen.queue(&keys.domain, destination.gate.destination()) else {
            return;
        };
        let priority = command.options.priority;
        let before = queue.turned_away.as_ref();
        let before = before.map(|command| command.options.priority);
        if before.is_none_or(|before| priority < before) {
            queue.turned_away = Some(Command {
                payload: Payload::null(),
                ..command.clone()
            });
        }
        let age = queue.age;
        drop(seen);
        if before.is_none() {
            let message = "shedding began: due work waits too long";
            self.log(Level::Warn, message, &tags(&keys.domain, destination, age));
            self.record_shedding(&keys.domain, destination, true);
        }
    }

    async fn read_queues(&self) {
        match self.ports.domains.domains().await {
            Ok(views) => self.note_load(&views),
            // The store does not answer: the last reading stays.
            Err(_) => self.load.lock().looking = false,
        }
    }

    fn note_load(&self, views: &[DomainView]) {
        let now = self.ports.clock.monotonic();
        let mut judged = Vec::new();
        let mut seen = self.load.lock();
        let before = seen.at.replace(now);
        seen.looking = false;
        if before.is_none_or(|before| now.saturating_sub(before) > WATCH_GAP) {
            let queues = seen.queues.values_mut().flat_map(BTreeMap::values_mut);
            queues.for_each(|queue| queue.since = now);
        }
        for destination in &self.destinations {
            destination.look(now);
            for domain in &destination.domains {
                let view = views.iter().find(|view| view.domain == *domain);
                let oldest = view.and_then(|view| self.oldest_at(destination, view));
                let queue = seen.judge(domain, destination, oldest, now);
                let age = queue.age;
                let is_over = |command: &mut Command| !self.is_late(command, age);
                let over = queue.turned_away.take_if(is_over).is_some();
                let sheds = queue.turned_away.is_some();
                judged.push((domain, destination, age, over, sheds));
            }
        }
        drop(seen);
        for (domain, destination, age, over, sheds) in judged {
            self.record_age(domain, destination, age);
            self.record_shedding(domain, destination, sheds);
            if over {
                let message = "shedding ended";
                self.log(Level::Info, message, &tags(domain, destination, age));
            }
        }
    }

    fn record_age(&self, domain: &Domain, destination: &Destination, age: Duration) {
        let labels = [
            ("domain", domain.as_str()),
            ("destination", destination.gate.destination()),
        ];
        let meter = &self.ports.meter;
        meter.set("orchestrator.shed.age", &labels, age.as_secs_f64());
    }

    fn record_shedding(&self, domain: &Domain, destination: &Destination, sheds: bool) {
        let labels = [
            ("domain", domain.as_str()),
            ("destination", destination.gate.destination()),
        ];
        let sheds = f64::from(u8::from(sheds));
        self.ports
            .meter
            .set("orchestrator.shedding", &labels, sheds);
    }

    fn is_late(&self, command: &Command, age: Duration) -> bool {
        let shed = self.ports.shed.as_ref();
        shed.is_some_and(|shed| shed.shed(command, age).is_some())
    }

    /// The age of the domain's oldest due row at this destination, not counting rows that are
    /// paused or wait for a predecessor.
    fn oldest_at(&self, destination: &Destination, view: &DomainView) -> Option<Duration> {
        if view.paused {
            return None;
        }
        let counts = |event_type| {
            let handler = self.handlers.find(&view.domain, event_type);
            handler.is_some_and(|handler| {
                handler.executor.is_some()
                    && handler.gate.destination() == destination.gate.destination()
                    && handler.rules.order != Order::Key
            })
        };
        let ages = view.oldest_due_by_type.iter();
        let ages = ages.filter(|(event_type, _)| counts(event_type));
        ages.map(|(_, age)| *age).max()
    }
}

fn tags<'a>(domain: &'a Domain, destination: &'a Destination, age: Duration) -> Tags<'a> {
    Tags {
        domain: Some(domain),
        destination: Some(destination.gate.destination()),
        age: Some(age),
        ..Tags::default()
    }
}

fn refusal(after: Duration) -> Error {
    let message = "too much due work is waiting; try again after retry_after_ms";
    Error::new(ErrorKind::Shed, message).with("retry_after_ms", after.as_millis())
}
