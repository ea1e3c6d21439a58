//! Asks providers what became of calls whose effect is unknown.
//!
//! A probe counts as a call: it takes a bulkhead slot and a moment of the rate limit of its
//! destination, and a `Retry-After` to a probe pauses the destination for every caller. Rows are
//! claimed only for routes whose destination has room, and no more than there is room for. The next
//! claim follows when a probe, a call or a wait for the rate limit ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Admitted, Amendment, Among, Claim, Claimed, Operation, ProbeVerdict, Reason, Rejection, Room,
    Scan, StageEnd, StoredOk, Tags, Verdict,
};
use clinch_core::protocol::{Event, Phase, ProbeAnswer};
use clinch_core::{OpId, Result};

use super::Recoverer;
use crate::Scanned;
use crate::handlers::Handler;
use crate::panics::caught;
use crate::telemetry::tags_of_row;
use crate::wakes::Runner;

/// Minimum pause before a rate limit that is used up is checked again: a claim of several rows
/// costs as much as a claim of one.
const RATE_NAP: Duration = Duration::from_millis(25);

/// Where probes can be made now.
struct ProbeRoom {
    /// Routes whose destination has room, or whose rows end without a probe.
    routes: Arc<Routes>,
    /// Number of probes that these routes take together.
    room: usize,
    /// When another destination has room.
    again_in: Option<Duration>,
    /// Another destination has no room until a running call or probe ends.
    full: bool,
}

impl ProbeRoom {
    fn is_empty(&self) -> bool {
        self.routes.iter().next().is_none()
    }
}

/// A row to probe.
pub(crate) struct DueProbe {
    claim: Claimed,
    row: Operation,
    /// The permits of the destination. `None`: the route has no probe. `Err`: a call took the room
    /// first, and the probe waits.
    admitted: Result<Option<Admitted>, Rejection>,
}

impl Recoverer {
    /// Checks the room of every destination once, even if several routes call it.
    fn probe_room(&self) -> ProbeRoom {
        let mut rooms: BTreeMap<&str, Room> = BTreeMap::new();
        let mut ends_without_question = false;
        for (_, handler) in self.handlers.by_domain() {
            let gate = &handler.gate;
            match handler.probe {
                Some(_) => {
                    let room = rooms.entry(gate.destination());
                    room.or_insert_with(|| gate.room());
                }
                None => ends_without_question |= handler.rules.probe.is_none(),
            }
        }
        let is_open = |handler: &Handler| match (&handler.probe, &handler.rules.probe) {
            (Some(_), _) => {
                let room = rooms.get(handler.gate.destination());
                room.is_some_and(|room| !room.is_closed())
            }
            // The route promises a probe, but only another process can make it.
            (None, Some(_)) => false,
            (None, None) => true,
        };
        let closed = || rooms.values().filter(|room| room.is_closed());
        let open = rooms.values().map(|room| room.calls);
        let first = if ends_without_question { usize::MAX } else { 0 };
        ProbeRoom {
            routes: Arc::new(self.handlers.those(is_open)),
            room: open.fold(first, usize::saturating_add),
            again_in: closed()
                .filter_map(|room| room.again_in)
                .map(|again_in| again_in.max(RATE_NAP))
                .min(),
            full: closed().any(|room| room.again_in.is_none()),
        }
    }

    /// Claims held rows of these routes whose probe is due.
    async fn due_probes(
        &self,
        max: usize,
        routes: Arc<Routes>,
    ) -> Result<Vec<(Claimed, Option<Operation>)>> {
        let claim = Claim {
            max,
            among: Among::Routes(routes),
            ..self.brief_claim()
        };
        let claimed = self.ports.recovery.scan(Scan::ProbeDue, &claim).await?;
        let ops: Vec<OpId> = claimed.iter().map(Claimed::op_id).collect();
        let rows = self.ports.inspect.get(&ops).await?;
        Ok(claimed.into_iter().zip(rows).collect())
    }

    /// One pass over at most `max` due probes, one after the other.
    pub(crate) async fn probe_some(self: &Arc<Self>, max: usize) -> Result<usize> {
        let probe_room = self.probe_room();
        if probe_room.is_empty() {
            return Ok(0);
        }
        let max = max.min(probe_room.room);
        let due = self.due_probes(max, probe_room.routes).await?;
        let found = due.len();
        for (claim, row) in due {
            let due_probe = self.due_probe(claim, row).await;
            if let Some(due_probe) = due_probe.filter(|due_probe| due_probe.admitted.is_ok()) {
                self.probe_one(due_probe).await;
            }
        }
        Ok(found)
    }

    /// One pass over the due probes. Each provider is asked in a task of its own, so that a slow
    /// provider delays no other.
    pub(crate) async fn probe_held(self: &Arc<Self>) -> Result<Scanned> {
        // Set before reading the room, so that a call which ends after the reading is not missed.
        self.wakes.set_starved(Runner::Prober, true);
        let probe_room = self.probe_room();
        // Permits first: a claimed row is probed at once, well before the claim expires.
        let permit = || self.probe_permits.clone().try_acquire_owned().ok();
        let permits = std::iter::from_fn(permit).take(probe_room.room);
        let mut permits: Vec<_> = permits.collect();
        let max = permits.len();
        if max == 0 || probe_room.is_empty() {
            // The end of a running probe wakes this runner; a rate limit needs a timer.
            let waits_for_rate = probe_room.room == 0 && !probe_room.full;
            self.wakes.set_starved(Runner::Prober, !waits_for_rate);
            let next = probe_room.again_in;
            return Ok(Scanned { found: 0, next });
        }
        self.wakes.set_starved(Runner::Prober, probe_room.full);
        let due = self.due_probes(max, probe_room.routes).await?;
        let found = due.len();
        for (claim, row) in due {
            let Some(due_probe) = self.due_probe(claim, row).await else {
                continue;
            };
            let (this, permit) = (self.clone(), permits.pop());
            let task = async move {
                if let Some(due_probe) = this.admitted_soon(due_probe).await {
                    this.probe_one(due_probe).await;
                }
                drop(permit);
                this.wakes.call_ended();
            };
            self.ports.spawner.spawn(Box::pin(task));
        }
        if found == max {
            return Ok(Scanned::more(found));
        }
        let next = self.ports.recovery.next_due(Scan::ProbeDue).await?;
        // A probe that is due now became due since the claim, or its destination has no room: the
        // runner looks again soon, and ever later while it finds none.
        let next = next.into_iter().chain(probe_room.again_in).min();
        Ok(Scanned { found, next })
    }

    /// Waits for room if a call took it first. `None`: the wait would be too long. The row is found
    /// again when its claim has expired.
    async fn admitted_soon(&self, due_probe: DueProbe) -> Option<DueProbe> {
        let patience = self.config.recovery_claim / 4;
        let give_up_at = self.ports.clock.monotonic().saturating_add(patience);
        let keys = &due_probe.row.keys;
        let gate = &self.handlers.find(&keys.domain, &keys.event_type)?.gate;
        let mut admitted = due_probe.admitted;
        while let Err(Rejection { after, .. }) = admitted {
            let now = self.ports.clock.monotonic();
            if now.saturating_add(after) > give_up_at || self.is_stopping() {
                return None;
            }
            self.sleep_unless_stopped(after.max(RATE_NAP)).await;
            admitted = gate.admit().await.map(Some);
        }
        Some(DueProbe {
            admitted,
            ..due_probe
        })
    }

    /// `None`: this process must not probe the row.
    async fn due_probe(&self, claim: Claimed, row: Option<Operation>) -> Option<DueProbe> {
        let row = row.filter(|row| row.state.version == claim.version)?;
        let keys = &row.keys;
        let rules = self.routes.find(&keys.domain, &keys.event_type)?;
        let handler = self.handlers.find(&keys.domain, &keys.event_type);
        let admitted = match handler.filter(|handler| handler.probe.is_some()) {
            Some(handler) => handler.gate.admit().await.map(Some),
            // The route promises a probe that only another process can make.
            None if rules.probe.is_some() => return None,
            None => Ok(None),
        };
        Some(DueProbe {
            claim,
            row,
            admitted,
        })
    }

    /// Probes one row and writes the answer to it. After a failure, the row is probed again when
    /// its claim has expired.
    async fn probe_one(self: &Arc<Self>, due_probe: DueProbe) {
        let DueProbe {
            claim,
            row,
            admitted,
        } = due_probe;
        let (answer, ok) = match admitted {
            Ok(Some(admitted)) => match self.ask(&row, admitted).await {
                Some(answered) => answered,
                None => return,
            },
            Ok(None) => (ProbeAnswer::Unknown, None),
            Err(_) => return,
        };
        let reason = answer_note(&answer);
        let amendment = Amendment {
            op_id: claim.op_id(),
            event: Event::Probed {
                fence: claim.fence,
                asked_at: claim.now,
                answer,
            },
            ok,
            checkpoint: None,
            by: self.config.worker.clone(),
            reason,
            attempt_id: None,
        };
        // `NotFound` and `Unknown` are written once, without a retry: after an ambiguous commit a
        // retry could count them twice.
        let doubt = matches!(
            &amendment.event,
            Event::Probed {
                answer: ProbeAnswer::NotFound | ProbeAnswer::Unknown,
                ..
            }
        );
        let call = || self.commits.amend(amendment.clone());
        let answered = if doubt {
            call().await
        } else {
            self.persist(self.config.settle_patience, call).await
        };
        if let Ok(Ok(changed)) = answered {
            let tags = tags_of_row(&row);
            self.follow(&tags, &changed).await;
            if changed.state.phase != Some(Phase::Held) {
                self.tell_released(&tags, "probed");
            }
        }
    }

    /// Asks the provider. `asked_at` is the time of the claim, before the question, so that a "not
    /// found" never counts as later than it was. `None`: the provider takes no questions now, which
    /// is not an `Unknown`.
    async fn ask(
        self: &Arc<Self>,
        row: &Operation,
        admitted: Admitted,
    ) -> Option<(ProbeAnswer, Option<StoredOk>)> {
        let keys = &row.keys;
        let handler = self.handlers.find(&keys.domain, &keys.event_type)?;
        let probe = handler.probe.as_ref()?;
        let Ok(envelope) = self.envelope(row) else {
            admitted.report(Verdict::Ignored);
            return Some((ProbeAnswer::Unknown, None));
        };
        if !admitted.wait.is_zero() {
            self.sleep(admitted.wait).await;
            // A pause that began during the wait also holds for a probe that has its moment
            // already.
            let room = handler.gate.room();
            if room.is_closed() && room.reason == Some(Reason::Paused) {
                admitted.report(Verdict::Ignored);
                return None;
            }
        }
        let began = self.ports.clock.monotonic();
        let mut verdict = None;
        let end = Arc::<StageEnd>::default();
        let asked = async {
            verdict = tokio::select! {
                biased;
                said = caught(probe.probe(&envelope)) => said.ok(),
                // Ends before the claim expires and another process asks.
                () = self.sleep(self.config.recovery_claim / 2) => None,
            };
            end.set(name_of(verdict.as_ref()), None);
        };
        let tags = Tags {
            destination: self.destination_name(keys),
            end: Some(&end),
            ..tags_of_row(row)
        };
        self.within("probe", &tags, Box::pin(asked)).await;
        let took = self.ports.clock.monotonic().saturating_sub(began);
        admitted.report(health(verdict.as_ref(), took));
        if let Some(ProbeVerdict::Later(Some(after))) = verdict {
            let lasting = after.min(handler.rules.retry.retry_after_max);
            handler.gate.pause(lasting).await;
        }
        self.judge(row, verdict.unwrap_or(ProbeVerdict::Unknown))
            .await
    }

    async fn judge(
        self: &Arc<Self>,
        row: &Operation,
        verdict: ProbeVerdict,
    ) -> Option<(ProbeAnswer, Option<StoredOk>)> {
        Some(match verdict {
            ProbeVerdict::Later(_) | ProbeVerdict::NotAsked => return None,
            ProbeVerdict::Succeeded(success) => {
                let ok = self.record(row.op_id, &success, row.trace.as_deref()).await;
                (ProbeAnswer::Succeeded, Some(ok))
            }
            ProbeVerdict::Failed(fail) => (ProbeAnswer::Failed(fail), None),
            ProbeVerdict::NotFound => (ProbeAnswer::NotFound, None),
            ProbeVerdict::Unknown => (ProbeAnswer::Unknown, None),
        })
    }
}

/// The note of a probe's ledger line: what the provider answered.
fn answer_note(answer: &ProbeAnswer) -> String {
    match answer {
        ProbeAnswer::Succeeded => "succeeded: the provider applied the call".to_owned(),
        ProbeAnswer::Failed(fail) => format!("failed: {}", fail.message),
        ProbeAnswer::NotFound => "not found: the provider does not know the call".to_owned(),
        ProbeAnswer::Unknown => "no verdict: the provider could not be asked, or its answer does \
                                 not say what became of the call"
            .to_owned(),
    }
}

/// What a probe tells the breaker about the provider's health. `Unknown` tells nothing: the
/// question itself may be at fault.
fn health(verdict: Option<&ProbeVerdict>, took: Duration) -> Verdict {
    match verdict {
        Some(ProbeVerdict::Succeeded(_) | ProbeVerdict::Failed(_) | ProbeVerdict::NotFound) => {
            Verdict::Answered { took }
        }
        Some(ProbeVerdict::Unknown | ProbeVerdict::NotAsked | ProbeVerdict::Later(Some(_))) => {
            Verdict::Ignored
        }
        Some(ProbeVerdict::Later(None)) | None => Verdict::Failed { took },
    }
}

/// The outcome of a probe, in its span.
fn name_of(verdict: Option<&ProbeVerdict>) -> &'static str {
    match verdict {
        Some(ProbeVerdict::Succeeded(_)) => "succeeded",
        Some(ProbeVerdict::Failed(_)) => "failed",
        Some(ProbeVerdict::NotFound) => "not_found",
        Some(ProbeVerdict::Later(_)) => "later",
        Some(ProbeVerdict::NotAsked) => "not_asked",
        Some(ProbeVerdict::Unknown) | None => "unknown",
    }
}
