//! Asks providers what became of calls whose effect is unknown.
//!
//! A probe is a call: it takes a slot and a moment of its destination like any other, and a
//! `Retry-After` to a probe pauses the destination for everyone. Rows are claimed only for
//! routes whose destination has room, and no more than there is room for; the end of a probe,
//! of a call or of a wait for the rate triggers the next claim.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Admitted, Amendment, Among, Claim, Claimed, Operation, ProbeVerdict, Reason, Rejection, Room,
    Scan, StoredOk, Verdict,
};
use clinch_core::protocol::{Event, ProbeAnswer};
use clinch_core::{OpId, Result};

use super::Scanned;
use crate::handlers::Handler;
use crate::node::Node;
use crate::panics::caught;
use crate::telemetry::tags_of_row;

/// A rate that is used up is looked at again after at least so long: a claim of several rows
/// costs as much as a claim of one.
const RATE_NAP: Duration = Duration::from_millis(25);

/// Where probes can be made now.
struct Outlook {
    /// Routes whose destination has room, or whose rows end without a question.
    routes: Arc<Routes>,
    /// Questions that all of them together take.
    room: usize,
    /// When another destination has room.
    again_in: Option<Duration>,
    /// Another destination has room when a running call or probe ends.
    full: bool,
}

impl Outlook {
    fn is_empty(&self) -> bool {
        self.routes.iter().next().is_none()
    }
}

/// A row to ask about.
pub(crate) struct Question {
    claim: Claimed,
    row: Operation,
    /// What the destination gave for it; `None`: its route has no probe. `Err`: a call came
    /// first, and the question waits for its turn.
    admitted: Result<Option<Admitted>, Rejection>,
}

impl Node {
    /// Looks at every route: a destination counts once, however many routes call it.
    fn probe_outlook(&self) -> Outlook {
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
            // Another process makes the probe that this route promises.
            (None, Some(_)) => false,
            (None, None) => true,
        };
        let closed = || rooms.values().filter(|room| room.is_closed());
        let open = rooms.values().map(|room| room.calls);
        let first = if ends_without_question { usize::MAX } else { 0 };
        Outlook {
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
        if planted!(ProberSleeps) {
            return Ok(Vec::new());
        }
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

    /// One pass over at most `max` of them, one after the other.
    pub(crate) async fn probe_some(self: &Arc<Self>, max: usize) -> Result<usize> {
        let outlook = self.probe_outlook();
        if outlook.is_empty() {
            return Ok(0);
        }
        let max = max.min(outlook.room);
        let due = self.due_probes(max, outlook.routes).await?;
        let found = due.len();
        for (claim, row) in due {
            let question = self.question(claim, row).await;
            if let Some(question) = question.filter(|question| question.admitted.is_ok()) {
                self.probe_one(question).await;
            }
        }
        Ok(found)
    }

    /// One pass over them. Providers are asked side by side, each by a task of its own: a slow
    /// one holds up nobody.
    pub(crate) async fn probe_held(self: &Arc<Self>) -> Result<Scanned> {
        // Said before the look: what ends after it is not missed.
        self.probes_starved.store(true, Ordering::SeqCst);
        let outlook = self.probe_outlook();
        // Permits first: what is claimed is asked about at once, well within the claim.
        let permit = || self.probe_permits.clone().try_acquire_owned().ok();
        let permits = std::iter::from_fn(permit).take(outlook.room);
        let mut permits: Vec<_> = permits.collect();
        let max = permits.len();
        if max == 0 || outlook.is_empty() {
            // Probes that run end and wake us; a rate is waited for.
            let waits_for_rate = outlook.room == 0 && !outlook.full;
            self.probes_starved.store(!waits_for_rate, Ordering::SeqCst);
            let next = outlook.again_in;
            return Ok(Scanned { found: 0, next });
        }
        self.probes_starved.store(outlook.full, Ordering::SeqCst);
        let due = self.due_probes(max, outlook.routes).await?;
        let found = due.len();
        for (claim, row) in due {
            let Some(question) = self.question(claim, row).await else {
                continue;
            };
            let (node, permit) = (self.clone(), permits.pop());
            let task = async move {
                if let Some(question) = node.admitted_soon(question).await {
                    node.probe_one(question).await;
                }
                drop(permit);
                node.call_ended();
            };
            self.ports.spawner.spawn(Box::pin(task));
        }
        if found == max {
            return Ok(Scanned::more(found));
        }
        let next = self.ports.recovery.next_due(Scan::ProbeDue).await?;
        let next = next.filter(|next| found > 0 || !next.is_zero());
        let next = next.into_iter().chain(outlook.again_in).min();
        Ok(Scanned { found, next })
    }

    /// Waits for the destination where a call came first. `None`: it would take too long, and
    /// the row is found again when its claim has run out.
    async fn admitted_soon(&self, question: Question) -> Option<Question> {
        let patience = self.config.recovery_claim / 4;
        let give_up_at = self.ports.clock.monotonic().saturating_add(patience);
        let keys = &question.row.keys;
        let gate = &self.handlers.find(&keys.domain, &keys.event_type)?.gate;
        let mut admitted = question.admitted;
        while let Err(Rejection { after, .. }) = admitted {
            let now = self.ports.clock.monotonic();
            if now.saturating_add(after) > give_up_at || self.is_stopping() {
                return None;
            }
            self.sleep_unless_stopped(after.max(RATE_NAP)).await;
            admitted = gate.admit().await.map(Some);
        }
        Some(Question {
            admitted,
            ..question
        })
    }

    /// `None`: not ours to ask.
    async fn question(&self, claim: Claimed, row: Option<Operation>) -> Option<Question> {
        let row = row.filter(|row| row.state.version == claim.version)?;
        let keys = &row.keys;
        let rules = self.routes.find(&keys.domain, &keys.event_type)?;
        let handler = self.handlers.find(&keys.domain, &keys.event_type);
        let admitted = match handler.filter(|handler| handler.probe.is_some()) {
            Some(handler) => handler.gate.admit().await.map(Some),
            // A route that promises a probe is another process's to ask about.
            None if rules.probe.is_some() => return None,
            None => Ok(None),
        };
        Some(Question {
            claim,
            row,
            admitted,
        })
    }

    /// Asks about one row and tells it the answer. What fails is probed again when the claim
    /// has run out.
    async fn probe_one(self: &Arc<Self>, question: Question) {
        let Question {
            claim,
            row,
            admitted,
        } = question;
        let (answer, ok) = match admitted {
            Ok(Some(admitted)) => match self.ask(&row, admitted).await {
                Some(answered) => answered,
                None => return,
            },
            Ok(None) => (ProbeAnswer::Unknown, None),
            Err(_) => return,
        };
        let amendment = Amendment {
            op_id: claim.op_id(),
            event: Event::Probed {
                fence: claim.fence,
                asked_at: if planted!(ProbeAskedLater) {
                    claim.now + std::time::Duration::from_secs(3_600)
                } else {
                    claim.now
                },
                answer,
            },
            ok,
            checkpoint: None,
            by: self.config.worker.clone(),
            reason: String::new(),
            attempt_id: None,
        };
        // A doubt is told once: repeating one whose commit is unclear could count it twice.
        let doubt = matches!(
            &amendment.event,
            Event::Probed {
                answer: ProbeAnswer::NotFound | ProbeAnswer::Unknown,
                ..
            }
        );
        let call = || self.groups.amend.call(amendment.clone());
        let answered = if doubt {
            call().await
        } else {
            self.persist(self.config.settle_patience, call).await
        };
        if let Ok(Ok(changed)) = answered {
            self.follow(claim.op_id(), &changed).await;
        }
    }

    /// The claim's clock was read before the question is asked, so a "not found" is never taken
    /// for a later one than it is. `None`: the provider takes no questions now, which is not a
    /// doubt.
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
            // A pause that came meanwhile holds for those who have their moment already.
            let room = handler.gate.room();
            if room.is_closed() && room.reason == Some(Reason::Paused) {
                admitted.report(Verdict::Ignored);
                return None;
            }
        }
        let began = self.ports.clock.monotonic();
        let mut verdict = None;
        let asked = async {
            verdict = tokio::select! {
                biased;
                said = caught(probe.probe(&envelope)) => said.ok(),
                // Before the claim runs out and somebody else asks.
                () = self.sleep(self.config.recovery_claim / 2) => None,
            };
        };
        self.within("probe", &tags_of_row(row), Box::pin(asked))
            .await;
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
            ProbeVerdict::NotFound if planted!(NotFoundMeansFailed) => {
                let fail = clinch_core::Fail::new("not_found", "");
                (ProbeAnswer::Failed(fail), None)
            }
            ProbeVerdict::NotFound => (ProbeAnswer::NotFound, None),
            ProbeVerdict::Unknown if planted!(DoubtMeansSucceeded) => {
                (ProbeAnswer::Succeeded, Some(StoredOk::default()))
            }
            ProbeVerdict::Unknown => (ProbeAnswer::Unknown, None),
        })
    }
}

/// What a probe says about the provider's health. A doubt says nothing: it may be the
/// question's fault.
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
