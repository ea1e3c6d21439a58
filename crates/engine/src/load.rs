//! How long work waits, and whether more is taken in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::{Command, Domain, Error, ErrorKind, Keys};

use crate::node::Node;

/// What was read of the queues is good for so long; work that comes later reads again.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// Nobody is turned away by figures that are older: whoever comes looks first.
const STALE_AFTER: Duration = Duration::from_secs(2);

/// How long the oldest due row of each domain has waited, as of the last look.
#[derive(Default)]
pub(crate) struct Load {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    at: Option<Duration>,
    /// Somebody is at it.
    looking: bool,
    oldest_due: BTreeMap<Domain, Duration>,
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

    fn oldest_due(&self, domain: &Domain) -> Duration {
        let seen = self.lock();
        seen.oldest_due.get(domain).copied().unwrap_or_default()
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

impl Node {
    /// The error for each command that is turned away. Replays never are: who was told that
    /// an operation is accepted may ask for it at any time.
    pub(crate) async fn shed(self: &Arc<Self>, commands: &[Command]) -> Vec<Option<Error>> {
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
        let shed = verdicts.iter().flatten().count();
        if shed > 0 {
            self.count("orchestrator.shed.count", None, shed);
        }
        verdicts
            .into_iter()
            .map(|after| after.map(refusal))
            .collect()
    }

    /// `Some`: too much waits; when to come back. In a domain with a destination that its
    /// provider closed, the oldest row may be waiting for that provider and not for us: then
    /// everything is taken in.
    fn turns_away(&self, command: &Command) -> Option<Duration> {
        let shed = self.ports.shed.as_ref()?;
        let domain = &command.keys.domain;
        if self.handlers.is_closed_by_a_provider(domain) {
            return None;
        }
        shed.shed(command, self.load.oldest_due(domain))
    }

    async fn look_at_the_queues(&self) {
        let domains = self.ports.domains.domains().await;
        let now = self.ports.clock.monotonic();
        let mut seen = self.load.lock();
        seen.looking = false;
        // A store that does not answer tells us nothing new.
        if let Ok(domains) = domains {
            let open = domains.into_iter().filter(|view| !view.paused);
            let ages = open.filter_map(|view| Some((view.domain, view.oldest_due?)));
            seen.oldest_due = ages.collect();
            seen.at = Some(now);
        }
    }
}

fn refusal(after: Duration) -> Error {
    let message = "too much waits already; come back later";
    Error::new(ErrorKind::Shed, message).with("retry_after_ms", after.as_millis())
}
