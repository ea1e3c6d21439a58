//! Attempts that workers outside of this process run, in any language.
//!
//! A worker leases operations, calls the provider, and reports. Its lease gave it a fence and a
//! secret token. Every report carries both, and the row judges them within the commit that makes
//! the change, exactly as for an attempt of this process.
//!
//! The row knows only the attempt of its last begin. A late Ok of an earlier attempt is proved by
//! the ledger, which keeps the id of every leased attempt. A worker that did not receive the answer
//! to its report sends the report again, and gets the same answer.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{
    Amendment, Answer, AnswerBody, Changed, Extension, LedgerLine, Operation, Refused, Reschedule,
    StageEnd, Tags, Verdict,
};
use clinch_core::protocol::{Event, IllegalTransition, Phase, State, Why};
use clinch_core::{
    Applied, AttemptId, Domain, Envelope, Error, ErrorKind, EventType, Keys, LeaseToken, OpId,
    Outcome, Result, Retry, Status, Timestamp, WorkerId,
};

use super::Workers;
use super::attempt::retry_at;
use super::held_leases::HeldLease;
use crate::telemetry::{ends_as, name_of, tags_of_row};

/// A remote worker's request for attempts.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// The domain of the operations.
    pub domain: Domain,
    /// Their event types. Empty: all that are declared for remote workers.
    pub event_types: Vec<EventType>,
    /// Maximum number of attempts.
    pub max: usize,
    /// How long to wait for the first attempt.
    pub wait: Duration,
    /// Length of the lease, extended by a [heartbeat](crate::Orchestrator::heartbeat). A route may
    /// allow less.
    pub lease: Duration,
    /// The worker's name, for the ledger.
    pub worker: WorkerId,
}

/// An attempt that has begun for a remote worker.
#[derive(Debug, Clone)]
pub struct Leased {
    /// The operation to call the provider for.
    pub envelope: Envelope,
    /// Proves that a report comes from this worker. Never stored, and never shown to others.
    pub token: LeaseToken,
    /// The attempt counts as lost from then on, unless it is reported on or extended.
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

/// Names the attempt that a report is about: the values that its lease returned.
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
    /// The attempt.
    pub attempt: LeasedAttempt,
    /// The worker's name, for the ledger.
    pub worker: WorkerId,
    /// How the attempt ended.
    pub outcome: Outcome,
    /// Parts of an Ok that could not be read. The Ok is kept without them.
    pub left_out: Vec<String>,
}

/// The answer to a report.
#[derive(Debug, Clone)]
pub struct Reported {
    /// The row's state after the report.
    pub state: State,
    /// Parts of an Ok that were not stored.
    pub left_out: Vec<String>,
}

impl Workers {
    /// Extends the lease, by no more than the route allows. The state says whether cancel was
    /// requested.
    pub(crate) async fn heartbeat(&self, attempt: LeasedAttempt, lease: Duration) -> Result<State> {
        let op_id = attempt.op_id;
        let keys = self.row(op_id).await?.keys;
        let lease = self.lease_of(&keys, lease);
        let extension = Extension {
            op_id,
            fence: attempt.fence,
            lease,
            attempt_id: Some(attempt.token.attempt_id()),
        };
        let changed = self.commits.extend(extension).await?;
        let changed = changed.map_err(|refused| stale(op_id, &refused))?;
        let until = self.ports.clock.monotonic().saturating_add(lease);
        self.leases.extend(op_id, attempt.fence, until);
        Ok(changed.state)
    }

    /// Keeps bytes for the next attempt.
    pub(crate) async fn checkpoint(&self, attempt: LeasedAttempt, bytes: &[u8]) -> Result<State> {
        let op_id = attempt.op_id;
        let max = self.config.checkpoint_bytes_max;
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
            checkpoint: Some(self.ports.sealer.seal(op_id, bytes)?),
            by: self.config.worker.clone(),
            reason: String::new(),
            attempt_id: Some(attempt.token.attempt_id()),
        };
        let changed = self.commits.amend(amendment).await?;
        let changed = changed.map_err(|refused| stale(op_id, &refused))?;
        Ok(changed.state)
    }

    /// Gives back an attempt that made no call.
    pub(crate) async fn release(&self, attempt: LeasedAttempt, worker: WorkerId) -> Result<State> {
        let retry = Retry::not_called("released by its worker").after(Duration::ZERO);
        let report = Report {
            attempt,
            worker,
            outcome: Outcome::Retry(retry),
            left_out: Vec::new(),
        };
        Ok(self.report(report).await?.state)
    }

    /// Records how an attempt ended, and returns the row's state after that.
    ///
    /// - A pair of fence and token that no lease gave out changes nothing.
    /// - A pair of an earlier attempt is a `Conflict`, except that an Ok is always taken.
    /// - The same report again is answered like the first.
    /// - An Ok is kept whatever else is wrong with the report. The parts that are left out are
    ///   named in the answer, and an operator is alerted.
    pub(crate) async fn report(&self, report: Report) -> Result<Reported> {
        let row = self.row(report.attempt.op_id).await?;
        let mut reported = Err(Error::new(ErrorKind::Internal, "nothing was reported"));
        let end = Arc::<StageEnd>::default();
        ends_as(&end, &report.outcome);
        let tags = Tags {
            outcome: Some(name_of(&report.outcome)),
            destination: self.destination_name(&row.keys),
            end: Some(&end),
            ..tags_of_row(&row)
        };
        let work = async { reported = self.take_report(&row, report).await };
        self.within("attempt", &tags, Box::pin(work)).await;
        reported
    }

    async fn take_report(&self, row: &Operation, report: Report) -> Result<Reported> {
        let Report {
            attempt,
            worker,
            outcome,
            mut left_out,
        } = report;
        let ended = Ended::of(&outcome, self.ports.clock.now());
        let end = Arc::<StageEnd>::default();
        ends_as(&end, &outcome);
        let began = self.ports.clock.monotonic();
        // Removed first: otherwise the notice about this very change could end the attempt before
        // its outcome is recorded.
        let held = self.leases.take(attempt.op_id, attempt.fence);
        let mut committed = Err(Error::new(ErrorKind::Internal, "nothing was committed"));
        let mut problems = Vec::new();
        let settle = async {
            let report_write = self.report_write(row, attempt, worker, outcome).await;
            problems = report_write.problems.clone();
            committed = self.commit(row, attempt, &report_write).await;
        };
        let tags = Tags {
            end: Some(&end),
            destination: self.destination_name(&row.keys),
            ..tags_of_row(row)
        };
        self.within("settle", &tags, Box::pin(settle)).await;
        let (state, changed) = match committed {
            Ok((state, Some(changed))) => (state, changed),
            not_changed => {
                if let Some(held) = held {
                    self.leases.put(attempt.op_id, held);
                }
                // A repeated report was counted and logged the first time.
                let (state, _) = not_changed?;
                return Ok(Reported { state, left_out });
            }
        };
        let took = self.ports.clock.monotonic().saturating_sub(began);
        self.tell_report(row, held, &ended, took, &changed, &tags)
            .await;
        self.follow(&tags, &changed).await;
        let was_held = row.state.phase == Some(Phase::Held);
        if was_held && changed.state.phase != Some(Phase::Held) {
            self.tell_released(&tags, "answered");
        }
        self.page_left_out(row.op_id, &left_out, &problems).await;
        left_out.extend(problems.into_iter().map(|(part, _)| part));
        Ok(Reported { state, left_out })
    }

    /// The row's state, and the change unless the same report was committed before.
    async fn commit(
        &self,
        row: &Operation,
        attempt: LeasedAttempt,
        report_write: &ReportWrite,
    ) -> Result<(State, Option<Changed>)> {
        let op_id = row.op_id;
        let attempt_id = attempt.token.attempt_id();
        let mut answered = self.offer_report(report_write, Some(attempt_id)).await?;
        if why(&answered) == Some(Why::EarlierAttempt)
            && self.was_leased(attempt, attempt_id).await?
        {
            // The attempt is proved. The protocol decides, as for every attempt that is not the
            // current one.
            answered = self.offer_report(report_write, None).await?;
        }
        let refused = match answered {
            Ok(changed) => return Ok((changed.state.clone(), Some(changed))),
            Err(refused) => refused,
        };
        let stranger = [Why::NeverBegun, Why::OtherAttempt, Why::EarlierAttempt];
        if why_of(&refused).is_none_or(|why| stranger.contains(&why)) {
            return Err(stale(op_id, &refused));
        }
        // Was this attempt reported on with the same outcome before?
        let ledger = self.ports.inspect.ledger(op_id).await?;
        let same = |line: &LedgerLine| {
            line.refused.is_none()
                && line.fence == attempt.fence
                && line.event == report_write.event
        };
        let state = self.row(op_id).await?.state;
        // The ledger keeps a late Ok under the fence that was current then.
        let is_known_yes = report_write.event == OK && state.status == Status::Completed;
        if is_known_yes || ledger.iter().any(same) {
            Ok((state, None))
        } else {
            Err(stale(op_id, &refused))
        }
    }

    /// Whether an earlier begin was leased under this fence and token. Ledger lines never change,
    /// so the answer still holds when the report is committed.
    async fn was_leased(&self, attempt: LeasedAttempt, attempt_id: AttemptId) -> Result<bool> {
        let ledger = self.ports.inspect.ledger(attempt.op_id).await?;
        let ours = |line: &LedgerLine| line.is_lease(attempt.fence, attempt_id);
        Ok(ledger.iter().any(ours))
    }
}

/// The name of an Ok in the ledger.
const OK: &str = "Ok";

/// A report in the form that the store takes.
struct ReportWrite {
    /// The name of its ledger line.
    event: &'static str,
    item: Item,
    /// The parts that could not be stored, and why.
    problems: Vec<(String, Error)>,
}

enum Item {
    Answer(Answer),
    Reschedule(Reschedule),
}

/// What telemetry and guards need from an outcome.
struct Ended {
    name: &'static str,
    counter: Option<&'static str>,
    verdict: fn(Duration) -> Verdict,
    retried: bool,
    until: Option<Timestamp>,
}

impl Ended {
    fn of(outcome: &Outcome, now: Timestamp) -> Self {
        let retried = "orchestrator.pump.outcome.retry.count";
        let answered = |took| Verdict::Answered { took };
        let (counter, verdict): (_, fn(Duration) -> Verdict) = match outcome {
            Outcome::Ok(_) => (Some("orchestrator.pump.outcome.ok.count"), answered),
            Outcome::Fail(_) => (Some("orchestrator.pump.outcome.fail.count"), answered),
            Outcome::Retry(retry) => match retry.applied {
                Applied::NotCalled => (None, |_| Verdict::Ignored),
                // The provider answered: "later".
                Applied::No if retry.after.is_some() => (Some(retried), answered),
                Applied::No | Applied::Unknown if retry.own => (Some(retried), answered),
                Applied::No | Applied::Unknown => (Some(retried), |took| Verdict::Failed { took }),
            },
        };
        Self {
            name: name_of(outcome),
            counter,
            verdict,
            retried: name_of(outcome) == "retry",
            until: retry_at(outcome, now),
        }
    }
}

impl Workers {
    /// Converts an outcome into a write.
    async fn report_write(
        &self,
        row: &Operation,
        attempt: LeasedAttempt,
        worker: WorkerId,
        outcome: Outcome,
    ) -> ReportWrite {
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
        ReportWrite {
            event,
            item,
            problems,
        }
    }

    async fn offer_report(
        &self,
        report_write: &ReportWrite,
        attempt_id: Option<AttemptId>,
    ) -> Result<Result<Changed, Refused>> {
        match &report_write.item {
            Item::Answer(answer) => {
                let answer = Answer {
                    attempt_id,
                    ..answer.clone()
                };
                self.commits.settle(answer).await
            }
            Item::Reschedule(ended) => {
                let ended = Reschedule {
                    attempt_id,
                    ..ended.clone()
                };
                self.commits.reschedule(ended).await
            }
        }
    }

    /// Counts, measures and logs the end of a leased attempt like that of a local one, and reports
    /// it to the destination's guards.
    async fn tell_report(
        &self,
        row: &Operation,
        held: Option<HeldLease>,
        ended: &Ended,
        settled_in: Duration,
        changed: &Changed,
        tags: &Tags<'_>,
    ) {
        let keys = &row.keys;
        let latency = held.map(|held| self.lease_ended(held, ended.verdict));
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
            code: tags.end.and_then(|end| end.code()),
            until: ended.until,
            ..*tags
        };
        if latency.is_some() {
            // The call was made elsewhere; its span ends with the report.
            self.within("execute", &tags, Box::pin(async {})).await;
        }
        self.tell_outcome(keys, row.state.attempts, ended.retried, &tags);
    }

    /// Alerts an operator about the parts that were left out of an Ok.
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

    /// The requested lease, at most the longest lease of the route.
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
