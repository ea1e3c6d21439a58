//! How long work waits, and whether more is taken in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::{Command, Domain, Error, ErrorKind, Keys, Result};

use crate::node::Node;

/// What was read of the queues is good for so long; work that comes later reads again.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// How long the oldest due row of each domain has waited, as of the last look.
#[derive(Default)]
pub(crate) struct Load {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    at: Option<Duration>,
    oldest_due: BTreeMap<Domain, Duration>,
}

impl Load {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True for one caller: what was seen is stale and the caller looks.
    fn is_time_to_look(&self, now: Duration) -> bool {
        let mut seen = self.lock();
        let fresh = seen.at.is_some_and(|at| now.saturating_sub(at) < GOOD_FOR);
        if !fresh {
            seen.at = Some(now);
        }
        !fresh
    }

    fn oldest_due(&self, domain: &Domain) -> Duration {
        let seen = self.lock();
        seen.oldest_due.get(domain).copied().unwrap_or_default()
    }
}

impl Node {
    /// The error for each command that is turned away. Replays never are: who was told that
    /// an operation is accepted may ask for it at any time.
    pub(crate) async fn shed(self: &Arc<Self>, commands: &[Command]) -> Result<Vec<Option<Error>>> {
        let mut verdicts: Vec<_> = commands.iter().map(|c| self.turns_away(c)).collect();
        let turned_away = |(_, verdict): &(&Command, &Option<Duration>)| verdict.is_some();
        let pairs = commands.iter().zip(&verdicts).filter(turned_away);
        let keys: Vec<Keys> = pairs.map(|(command, _)| command.keys.clone()).collect();
        if !keys.is_empty() {
            let mut known = self.ports.inspect.find(&keys).await?.into_iter();
            for verdict in verdicts.iter_mut().filter(|verdict| verdict.is_some()) {
                if known.next().flatten().is_some() {
                    *verdict = None;
                }
            }
        }
        let shed = verdicts.iter().flatten().count();
        if shed > 0 {
            self.count("orchestrator.shed.count", None, shed);
        }
        Ok(verdicts
            .into_iter()
            .map(|after| after.map(refusal))
            .collect())
    }

    /// `Some`: too much waits; when to come back. Work for a destination that is closed is
    /// taken in all the same: it waits for the provider, not for us.
    fn turns_away(self: &Arc<Self>, command: &Command) -> Option<Duration> {
        let shed = self.ports.shed.as_ref()?;
        if self.load.is_time_to_look(self.ports.clock.monotonic()) {
            let node = self.clone();
            let look = async move { node.look_at_the_queues().await };
            self.ports.spawner.spawn(Box::pin(look));
        }
        let keys = &command.keys;
        let handler = self.handlers.find(&keys.domain, &keys.event_type)?;
        if handler.gate.room().is_closed() {
            return None;
        }
        shed.shed(command, self.load.oldest_due(&keys.domain))
    }

    async fn look_at_the_queues(&self) {
        // A store that does not answer tells us nothing new: the last look stands.
        if let Ok(domains) = self.ports.domains.domains().await {
            let open = domains.into_iter().filter(|view| !view.paused);
            let ages = open.filter_map(|view| Some((view.domain, view.oldest_due?)));
            self.load.lock().oldest_due = ages.collect();
        }
    }
}

fn refusal(after: Duration) -> Error {
    let message = "too much waits already; come back later";
    Error::new(ErrorKind::Shed, message).with("retry_after_ms", after.as_millis())
}
