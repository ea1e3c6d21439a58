//! Attempts that workers outside of this process run, in any language.
//!
//! A worker leases operations, calls, and reports. Between the two it holds a fence and a
//! token, which its lease gave it and nobody else: every report is judged by the row within
//! the commit that makes the change, exactly as that of an attempt of our own. The row knows
//! the attempt of its last begin. A late yes of an earlier one proves itself by the ledger,
//! which keeps the id of every leased attempt. A report that is made twice, because the worker
//! did not hear the answer to the first, is answered like the first.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{
    Amendment, Answer, AnswerBody, Changed, Extension, LedgerLine, Operation, Refused, Reschedule,
    Tags, Verdict,
};
use clinch_core::protocol::{Event, IllegalTransition, State, Why};
use clinch_core::{
    Applied, AttemptId, Domain, Envelope, Error, ErrorKind, EventType, Keys, LeaseToken, OpId,
    Outcome, Result, Retry, Status, Timestamp, WorkerId,
};

use super::in_hand::InHand;
use crate::Orchestrator;
use crate::node::Node;
use crate::telemetry::{name_of, tags_of_row};

/// What a remote worker asks for.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Of this domain.
    pub domain: Domain,
    /// Of these event types; empty: of all that are declared.
    pub event_types: Vec<EventType>,
    /// At most so many.
    pub max: usize,
    /// How long to wait for the first.
    pub wait: Duration,
    /// For how long; extended by [`Orchestrator::heartbeat`]. A route may allow less.
    pub lease: Duration,
    /// Who asks, for the ledger.
    pub worker: WorkerId,
}

/// An attempt that has begun for a remote worker.
#[derive(Debug, Clone)]
pub struct Leased {
    /// What to call.
    pub envelope: Envelope,
    /// Proves that a report comes from this worker. Never stored, never shown to others.
    pub token: LeaseToken,
    /// When the attempt counts as lost unless it is reported on or extended.
    pub lease_until: Option<Timestamp>,
}

impl Leased {
    /// The attempt, for its reports.
    pub fn attempt(&self) -> LeasedAttempt {
        LeasedAttempt {
            op_id: self.envelope.op_id,
            fence: self.envelope.fence,
            token: self.token,
        }
    }
}

/// Names the attempt that a report is about, as its lease did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasedAttempt {
    /// The operation.
    pub op_id: OpId,
    /// The attempt's fence.
    pub fence: u64,
    /// The attempt's token.
    pub token: LeaseToken,
}

/// How a leased attempt ended.
#[derive(Debug, Clone)]
pub struct Report {
    /// Which one.
    pub attempt: LeasedAttempt,
    /// Who says so, for the ledger.
    pub worker: WorkerId,
    /// How it ended.
    pub outcome: Outcome,
    /// Parts of an Ok that could not be read: the yes is kept without them.
    pub left_out: Vec<String>,
}

/// A report that was taken.
#[derive(Debug, Clone)]
pub struct Reported {
    /// The row's state after it.
    pub state: State,
    /// Parts of an Ok that were not stored.
    pub left_out: Vec<String>,
}

impl Orchestrator {
    /// Moves the lease, by no more than the route allows; the state says whether cancel was
    /// requested.
    pub async fn heartbeat(&self, attempt: LeasedAttempt, lease: Duration) -> Result<State> {
        let op_id = attempt.op_id;
        let keys = self.status(op_id).await?.operation.keys;
        let lease = self.node.lease_of(&keys, lease);
        let extension = Extension {
            op_id,
            fence: attempt.fence,
            lease,
            attempt_id: Some(attempt.token.attempt_id()),
        };
        let changed = self.node.groups.extend.call(extension).await?;
        let changed = changed.map_err(|refused| stale(op_id, &refused))?;
        let until = self.node.ports.clock.monotonic().saturating_add(lease);
        self.node.leases.extend(op_id, attempt.fence, until);
        Ok(changed.state)
    }

    /// Keeps bytes for the next attempt.
    pub async fn checkpoint(&self, attempt: LeasedAttempt, bytes: &[u8]) -> Result<State> {
        let (node, op_id) = (&self.node, attempt.op_id);
        let max = node.config.checkpoint_bytes_max;
        if bytes.len() > max {
            let message = format!("a checkpoint holds at most {max} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let amendment = Amendment {
            op_id,
            event: Event::Checkpoint {
                fence: attempt.fence,
            },
            ok: None,
            checkpoint: Some(node.ports.sealer.seal(op_id, bytes)?),
            by: node.config.worker.clone(),
            reason: String::new(),
            attempt_id: Some(attempt.token.attempt_id()),
        };
        let changed = node.groups.amend.call(amendment).await?;
        let changed = changed.map_err(|refused| stale(op_id, &refused))?;
        Ok(changed.state)
    }

    /// Gives an attempt back that sent nothing.
    pub async fn release(&self, attempt: LeasedAttempt, worker: WorkerId) -> Result<State> {
        let retry = Retry::not_called("released by its worker").after(Duration::ZERO);
        let report = Report {
            attempt,
            worker,
            outcome: Outcome::Retry(retry),
            left_out: Vec::new(),
        };
        Ok(self.report(report).await?.state)
    }

    /// How an attempt ended; the state is the row's after it.
    ///
    /// - A pair of fence and token that no lease gave out changes nothing.
    /// - A pair of an earlier attempt is a `Conflict`, except that an Ok is always taken.
    /// - The same report again is answered like the first.
    /// - A yes is kept whatever else is wrong with it; what is left out is said and paged.
    pub async fn report(&self, report: Report) -> Result<Reported> {
        let row = self.status(report.attempt.op_id).await?.operation;
        let mut reported = Err(Error::new(ErrorKind::Internal, "nothing was reported"));
        let tags = Tags {
            outcome: Some(name_of(&report.outcome)),
            ..tags_of_row(&row)
        };
        let work = async { reported = self.take_report(&row, report).await };
        self.node.within("attempt", &tags, Box::pin(work)).await;
        reported
    }

    async fn take_report(&self, row: &Operation, report: Report) -> Result<Reported> {
        let Report {
            attempt,
            worker,
            outcome,
            mut left_out,
        } = report;
        let (node, ended) = (&self.node, Ended::of(&outcome));
        let began = node.ports.clock.monotonic();
        // Out of the book, so that the news of this very change does not end it first.
        let in_hand = node.leases.take(attempt.op_id, attempt.fence);
        let mut committed = Err(Error::new(ErrorKind::Internal, "nothing was committed"));
        let mut problems = Vec::new();
        let settle = async {
            let said = node.said(row, attempt, worker, outcome).await;
            problems = said.problems.clone();
            committed = self.commit(row, attempt, &said).await;
        };
        node.within("settle", &tags_of_row(row), Box::pin(settle))
            .await;
        let (state, changed) = match committed {
            Ok((state, Some(changed))) => (state, changed),
            not_changed => {
                if let Some(in_hand) = in_hand {
                    node.leases.put(attempt.op_id, in_hand);
                }
                // The same report again was told of the first time.
                let (state, _) = not_changed?;
                return Ok(Reported { state, left_out });
            }
        };
        let took = node.ports.clock.monotonic().saturating_sub(began);
        node.tell_report(row, in_hand, &ended, took, &changed);
        node.follow(row.op_id, &changed).await;
        node.page_left_out(row.op_id, &left_out, &problems).await;
        left_out.extend(problems.into_iter().map(|(part, _)| part));
        Ok(Reported { state, left_out })
    }

    /// The row's state, and the change unless the same was reported before.
    async fn commit(
        &self,
        row: &Operation,
        attempt: LeasedAttempt,
        said: &Said,
    ) -> Result<(State, Option<Changed>)> {
        let op_id = row.op_id;
        let attempt_id = attempt.token.attempt_id();
        let mut answered = self.node.offer_report(said, Some(attempt_id)).await?;
        if why(&answered) == Some(Why::EarlierAttempt)
            && self.was_leased(attempt, attempt_id).await?
        {
            // It proved itself: the protocol decides, as for any attempt that is not the current.
            answered = self.node.offer_report(said, None).await?;
        }
        let refused = match answered {
            Ok(changed) => return Ok((changed.state.clone(), Some(changed))),
            Err(refused) => refused,
        };
        let stranger = [Why::NeverBegun, Why::OtherAttempt, Why::EarlierAttempt];
        if why_of(&refused).is_none_or(|why| stranger.contains(&why)) {
            return Err(stale(op_id, &refused));
        }
        // This attempt was reported on in the same way, and that was taken.
        let ledger = self.node.ports.inspect.ledger(op_id).await?;
        let same = |line: &LedgerLine| {
            line.refused.is_none() && line.fence == attempt.fence && line.event == said.event
        };
        let state = self.status(op_id).await?.operation.state;
        // A late yes lies in the ledger under the fence that was current then.
        let is_known_yes = said.event == OK && state.status == Status::Completed;
        if is_known_yes || ledger.iter().any(same) {
            Ok((state, None))
        } else {
            Err(stale(op_id, &refused))
        }
    }

    /// An earlier begin was leased under this fence and token. Its ledger line never changes:
    /// what was true when it was read is true when the report is committed.
    async fn was_leased(&self, attempt: LeasedAttempt, attempt_id: AttemptId) -> Result<bool> {
        let ledger = self.node.ports.inspect.ledger(attempt.op_id).await?;
        let ours = |line: &LedgerLine| line.is_lease(attempt.fence, attempt_id);
        Ok(ledger.iter().any(ours))
    }
}

/// What a yes is called in the ledger.
const OK: &str = "Ok";

/// A report as the store takes it.
struct Said {
    /// The name of its line in the ledger.
    event: &'static str,
    item: Item,
    /// What could not be stored, and why.
    problems: Vec<(String, Error)>,
}

enum Item {
    Answer(Answer),
    Reschedule(Reschedule),
}

/// What telemetry and guards want to know of an outcome.
struct Ended {
    name: &'static str,
    counter: Option<&'static str>,
    verdict: fn(Duration) -> Verdict,
    retried: bool,
}

impl Ended {
    fn of(outcome: &Outcome) -> Self {
        let retried = "orchestrator.pump.outcome.retry.count";
        let answered = |took| Verdict::Answered { took };
        let (counter, verdict): (_, fn(Duration) -> Verdict) = match outcome {
            Outcome::Ok(_) => (Some("orchestrator.pump.outcome.ok.count"), answered),
            Outcome::Fail(_) => (Some("orchestrator.pump.outcome.fail.count"), answered),
            Outcome::Retry(retry) => match retry.applied {
                Applied::NotCalled => (None, |_| Verdict::Ignored),
                // It answered: "later".
                Applied::No if retry.after.is_some() => (Some(retried), answered),
                Applied::No | Applied::Unknown => (Some(retried), |took| Verdict::Failed { took }),
            },
        };
        Self {
            name: name_of(outcome),
            counter,
            verdict,
            retried: name_of(outcome) == "retry",
        }
    }
}

impl Node {
    /// What the store is told.
    async fn said(
        self: &Arc<Self>,
        row: &Operation,
        attempt: LeasedAttempt,
        worker: WorkerId,
        outcome: Outcome,
    ) -> Said {
        let LeasedAttempt { op_id, fence, .. } = attempt;
        let answer = |worker, body| {
            Item::Answer(Answer {
                op_id,
                fence: Some(fence),
                worker,
                body,
                attempt_id: None,
            })
        };
        let mut problems = Vec::new();
        let (event, item) = match outcome {
            Outcome::Ok(success) => {
                let (ok, wrong) = self.stored_answer(op_id, &success, row.trace.as_deref());
                problems = wrong;
                (OK, answer(worker, AnswerBody::Ok(ok)))
            }
            Outcome::Fail(fail) => ("Fail", answer(worker, AnswerBody::Fail(fail))),
            Outcome::Retry(mut retry) => {
                let called = retry.applied != Applied::NotCalled;
                if called && row.state.is_current(fence) {
                    self.slow_down(row.op_id, &row.keys, row.state.attempts, fence, &mut retry);
                }
                let event = if called { "Retry" } else { "NotCalled" };
                let item = Item::Reschedule(Reschedule {
                    op_id,
                    fence,
                    worker,
                    retry,
                    attempt_id: None,
                });
                (event, item)
            }
        };
        Said {
            event,
            item,
            problems,
        }
    }

    async fn offer_report(
        &self,
        said: &Said,
        attempt_id: Option<AttemptId>,
    ) -> Result<Result<Changed, Refused>> {
        match &said.item {
            Item::Answer(answer) => {
                let answer = Answer {
                    attempt_id,
                    ..answer.clone()
                };
                self.groups.settle.call(answer).await
            }
            Item::Reschedule(ended) => {
                let ended = Reschedule {
                    attempt_id,
                    ..ended.clone()
                };
                self.groups.reschedule.call(ended).await
            }
        }
    }

    /// Counts, measures and logs the end of a leased attempt like that of one of our own, and
    /// tells its destination's guards.
    fn tell_report(
        &self,
        row: &Operation,
        in_hand: Option<InHand>,
        ended: &Ended,
        settled_in: Duration,
        changed: &Changed,
    ) {
        let keys = &row.keys;
        let latency = in_hand.map(|in_hand| self.lease_ended(in_hand, ended.verdict));
        if let Some(counter) = ended.counter {
            self.count_for(counter, keys);
        }
        if let Some(latency) = latency {
            self.measure("orchestrator.execute.duration", keys, latency);
        }
        self.measure("orchestrator.settle.duration", keys, settled_in);
        if changed.state.is_terminal() {
            let whole = self.ports.clock.now().since(row.accepted_at);
            self.measure("orchestrator.end_to_end.duration", keys, whole);
        }
        let tags = Tags {
            latency,
            outcome: Some(ended.name),
            ..tags_of_row(row)
        };
        self.tell_outcome(keys, row.state.attempts, ended.retried, &tags);
    }

    /// Pages someone about what was left out of a yes.
    async fn page_left_out(&self, op_id: OpId, parts: &[String], problems: &[(String, Error)]) {
        for part in parts {
            let message = format!("a part of an answer was left out: {part} cannot be read");
            self.alert("answer_incomplete", &message, Some(op_id)).await;
        }
        for (_, problem) in problems {
            let message = format!("a part of an answer was left out: {problem}");
            self.alert("answer_incomplete", &message, Some(op_id)).await;
        }
    }

    /// The longest lease of its route, or less.
    pub(super) fn lease_of(&self, keys: &Keys, wanted: Duration) -> Duration {
        let handler = self.handlers.find(&keys.domain, &keys.event_type);
        let max = handler.and_then(|handler| handler.lease_max);
        max.map_or(wanted, |max| wanted.min(max))
    }
}

fn why(answered: &Result<Changed, Refused>) -> Option<Why> {
    answered.as_ref().err().and_then(why_of)
}

fn why_of(refused: &Refused) -> Option<Why> {
    match refused {
        Refused::Illegal(IllegalTransition { why, .. }) => Some(*why),
        _ => None,
    }
}

fn stale(op_id: OpId, refused: &Refused) -> Error {
    let kind = match refused {
        Refused::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Conflict,
    };
    Error::new(kind, refused.to_string()).with("op_id", op_id)
}
