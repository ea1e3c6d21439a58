//! How long work waits that could run, and whether callers are turned away.
//!
//! Callers are turned away at the edge: the server and the facade's `start` ask
//! [`Orchestrator::shed`] before they accept. Work that a process makes itself (schedules, what
//! an answer spawns, redrives, recovery) is accepted without asking.
//!
//! A command is judged by the oldest due row of its own domain and destination, and only by the
//! part of that row's wait in which it could have run:
//!
//! - A destination without an executor in this process is not judged: nobody here knows whether
//!   its work could run.
//! - The wait counts from when the destination was last seen closed by its breaker, its provider
//!   or its rate. A full bulkhead does not interrupt it: that is what overload looks like.
//! - It counts from the last look that found nothing due or the domain paused, and anew when
//!   nobody has looked for [`WATCH_GAP`].
//! - Operations that are ordered by key do not count: they wait for their predecessors.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::policy::Order;
use clinch_core::ports::{DomainView, Level, Tags};
use clinch_core::{Command, Domain, Error, ErrorKind, Keys, Payload};

use crate::Orchestrator;
use crate::handlers::Lot;
use crate::node::Node;

/// What was read of the queues is good for so long; work that comes later reads again.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// Nobody is turned away by figures that are older: whoever comes looks first.
const STALE_AFTER: Duration = Duration::from_secs(2);

/// After so long without a look nothing is known of what happened meanwhile: a domain may have
/// been paused.
const WATCH_GAP: Duration = Duration::from_secs(60);

/// What the last look at the queues showed.
#[derive(Default)]
pub(crate) struct Load {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    at: Option<Duration>,
    /// A look is under way.
    looking: bool,
    /// By domain and destination.
    queues: BTreeMap<Domain, BTreeMap<String, Queue>>,
}

/// The work of one domain at one destination.
struct Queue {
    /// The last look that found nothing to wait for.
    since: Duration,
    /// How long its oldest row has waited although it could have run.
    age: Duration,
    /// Callers are turned away: the command with the lowest priority of them, without payload.
    turned_away: Option<Command>,
}

impl Load {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen is too old to turn anyone away by; one caller at a time is told so, or
    /// all if nothing was seen for long.
    fn is_time_to_look(&self, now: Duration) -> Look {
        let mut seen = self.lock();
        let age = seen.at.map(|at| now.saturating_sub(at));
        match age {
            Some(age) if age < GOOD_FOR => Look::Fresh,
            Some(age) if age < STALE_AFTER && !seen.looking => {
                seen.looking = true;
                Look::Again
            }
            Some(age) if age < STALE_AFTER => Look::Fresh,
            _ => Look::First,
        }
    }
}

enum Look {
    /// Good enough.
    Fresh,
    /// Look in the background, and go by what was seen until then.
    Again,
    /// Look before judging.
    First,
}

impl Seen {
    fn queue(&mut self, domain: &Domain, destination: &str) -> Option<&mut Queue> {
        self.queues.get_mut(domain)?.get_mut(destination)
    }

    /// The wait of the oldest due row, `None` if nothing waits, as far as it could have run.
    fn judge(
        &mut self,
        domain: &Domain,
        lot: &Lot,
        oldest: Option<Duration>,
        now: Duration,
    ) -> &mut Queue {
        let queues = self.queues.entry(domain.clone()).or_default();
        let destination = lot.gate.destination().to_owned();
        let queue = queues.entry(destination).or_insert(Queue {
            since: now,
            age: Duration::ZERO,
            turned_away: None,
        });
        if oldest.is_none() {
            queue.since = now;
        }
        let could_run = now.saturating_sub(queue.since.max(lot.closed_until()));
        queue.age = oldest.unwrap_or_default().min(could_run);
        queue
    }
}

impl Orchestrator {
    /// The error for each command that is to be turned away, for those who take commands of
    /// callers in. Replays never are: who was told that an operation is accepted may ask for it
    /// at any time.
    pub async fn shed(&self, commands: &[Command]) -> Vec<Option<Error>> {
        self.node.shed(commands).await
    }

    /// Takes note of how long work waits, from what was read of the domains anyway.
    pub fn note_load(&self, views: &[DomainView]) {
        if self.node.ports.shed.is_some() {
            self.node.note_load(views);
        }
    }
}

impl Node {
    async fn shed(self: &Arc<Self>, commands: &[Command]) -> Vec<Option<Error>> {
        if self.ports.shed.is_none() {
            return commands.iter().map(|_| None).collect();
        }
        match self.load.is_time_to_look(self.ports.clock.monotonic()) {
            Look::Fresh => {}
            Look::First => self.look_at_the_queues().await,
            Look::Again => {
                let node = self.clone();
                let look = async move { node.look_at_the_queues().await };
                self.ports.spawner.spawn(Box::pin(look));
            }
        }
        let mut verdicts: Vec<_> = commands.iter().map(|c| self.turns_away(c)).collect();
        let turned_away = |(_, verdict): &(&Command, &Option<Duration>)| verdict.is_some();
        let pairs = commands.iter().zip(&verdicts).filter(turned_away);
        let keys: Vec<Keys> = pairs.map(|(command, _)| command.keys.clone()).collect();
        if !keys.is_empty() {
            // A store that cannot say whether it is a replay will say so at the accept.
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
                self.tell_turned_away(command);
                Some(refusal(after))
            })
            .collect()
    }

    /// `Some`: too much waits; when to come back.
    fn turns_away(&self, command: &Command) -> Option<Duration> {
        let shed = self.ports.shed.as_ref()?;
        let keys = &command.keys;
        let lot = self.lot_for(&keys.domain, &keys.event_type)?;
        let mut seen = self.load.lock();
        let queue = seen.queue(&keys.domain, lot.gate.destination())?;
        shed.shed(command, queue.age)
    }

    /// Counted each time; logged when it begins.
    fn tell_turned_away(&self, command: &Command) {
        let keys = &command.keys;
        self.count("orchestrator.shed.count", Some(&keys.domain), 1);
        let Some(lot) = self.lot_for(&keys.domain, &keys.event_type) else {
            return;
        };
        let mut seen = self.load.lock();
        let Some(queue) = seen.queue(&keys.domain, lot.gate.destination()) else {
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
            let message = "callers are turned away: due work waits too long";
            self.log(Level::Warn, message, &tags(&keys.domain, lot, age));
        }
    }

    async fn look_at_the_queues(&self) {
        match self.ports.domains.domains().await {
            Ok(views) => self.note_load(&views),
            // A store that does not answer tells us nothing new.
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
        for lot in &self.lots {
            lot.look(now);
            for domain in &lot.domains {
                let view = views.iter().find(|view| view.domain == *domain);
                let oldest = view.and_then(|view| self.oldest_at(lot, view));
                let queue = seen.judge(domain, lot, oldest, now);
                let age = queue.age;
                let is_over = |command: &mut Command| !self.is_late(command, age);
                let over = queue.turned_away.take_if(is_over).is_some();
                judged.push((domain, lot, age, over));
            }
        }
        drop(seen);
        for (domain, lot, age, over) in judged {
            self.tell_age(domain, lot, age);
            if over {
                let message = "callers are no longer turned away";
                self.log(Level::Info, message, &tags(domain, lot, age));
            }
        }
    }

    fn tell_age(&self, domain: &Domain, lot: &Lot, age: Duration) {
        let labels = [
            ("domain", domain.as_str()),
            ("destination", lot.gate.destination()),
        ];
        let meter = &self.ports.meter;
        meter.set("orchestrator.shed.age", &labels, age.as_secs_f64());
    }

    fn is_late(&self, command: &Command, age: Duration) -> bool {
        let shed = self.ports.shed.as_ref();
        shed.is_some_and(|shed| shed.shed(command, age).is_some())
    }

    /// The oldest due row of a domain at this destination that waits for nothing but its turn.
    fn oldest_at(&self, lot: &Lot, view: &DomainView) -> Option<Duration> {
        if view.paused {
            return None;
        }
        let counts = |event_type| {
            let handler = self.handlers.find(&view.domain, event_type);
            handler.is_some_and(|handler| {
                handler.executor.is_some()
                    && handler.gate.destination() == lot.gate.destination()
                    && handler.rules.order != Order::Key
            })
        };
        let ages = view.oldest_due_by_type.iter();
        let ages = ages.filter(|(event_type, _)| counts(event_type));
        ages.map(|(_, age)| *age).max()
    }
}

fn tags<'a>(domain: &'a Domain, lot: &'a Lot, age: Duration) -> Tags<'a> {
    Tags {
        domain: Some(domain),
        destination: Some(lot.gate.destination()),
        age: Some(age),
        ..Tags::default()
    }
}

fn refusal(after: Duration) -> Error {
    let message = "too much waits already; come back later";
    Error::new(ErrorKind::Shed, message).with("retry_after_ms", after.as_millis())
}
