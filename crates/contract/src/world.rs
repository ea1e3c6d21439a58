//! A store as the cases use it: its ports, and helpers that bring a row into the state that a case
//! needs.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::{EventTypes, Routes, Rules};
use clinch_core::ports::{
    Accepted, Amendment, Answer, AnswerBody, Batches, Changed, Claimed, Counts, DomainView,
    Domains, Inspect, Known, LedgerLine, LetterFilter, LetterOrder, LetterView, NewOperation,
    NewPause, Notices, Operation, Outbox, Recovery, Refused, Reschedule, Scan, Store,
};
use clinch_core::protocol::{Event, State};
use clinch_core::{Error, ErrorKind, EventType, OpId, Retry, Timestamp};

use crate::calls::Calls;
use crate::case::{Failure, Stage, Verdict};
use crate::fixtures::{self, Sequence};
use crate::{Control, Fault, Subject};

/// A store under test.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) recovery: Arc<dyn Recovery>,
    pub(crate) batches: Arc<dyn Batches>,
    pub(crate) domains: Arc<dyn Domains>,
    pub(crate) inspect: Arc<dyn Inspect>,
    pub(crate) notices: Arc<dyn Notices>,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) ids: Arc<Sequence>,
}

impl Stage for World {
    fn open(subject: Subject) -> Verdict<Self> {
        let routes = Arc::new(fixtures::routes()?);
        Self::on(subject, routes, Arc::default())
    }
}

impl World {
    fn on(subject: Subject, routes: Arc<Routes>, ids: Arc<Sequence>) -> Verdict<Self> {
        let Some(ports) = subject.store.clone() else {
            return Err(Failure::new(
                "the capabilities promise a store; there is none",
            ));
        };
        Ok(Self {
            store: ports.store,
            outbox: ports.outbox,
            recovery: ports.recovery,
            batches: ports.batches,
            domains: ports.domains,
            inspect: ports.inspect,
            notices: ports.notices,
            control: subject.control.clone(),
            routes,
            ids,
        })
    }

    /// Kills the instance and continues with what it had committed.
    pub(crate) async fn crash(&self) -> Verdict<Self> {
        let subject = self.control.crash().await;
        Self::on(subject, self.routes.clone(), self.ids.clone())
    }

    /// The same store under other rules for one domain, as if the route was edited.
    pub(crate) fn under(&self, domain: &str, edit: impl FnOnce(&mut Rules)) -> Verdict<Self> {
        let name = fixtures::domain(domain)?;
        let mut rules = self.routes.rules(&name, &EventType::new("call")?).clone();
        edit(&mut rules);
        let routes = (*self.routes).clone().with(name, EventTypes::Any, rules);
        let mut edited = self.clone();
        edited.routes = Arc::new(routes);
        Ok(edited)
    }

    pub(crate) async fn now(&self) -> Verdict<Timestamp> {
        Ok(self.inspect.now().await?)
    }

    pub(crate) async fn advance(&self, by: Duration) {
        self.control.advance(by).await;
    }

    // Accepting.

    /// A new operation of the domain with keys of its own.
    pub(crate) fn op(&self, domain: &str) -> Verdict<NewOperation> {
        let number = self.ids.number();
        self.op_for(domain, &format!("biz-{number}"))
    }

    /// A new operation of this business object.
    pub(crate) fn op_for(&self, domain: &str, biz_key: &str) -> Verdict<NewOperation> {
        let number = self.ids.number();
        let keys = fixtures::keys(domain, biz_key, &format!("idem-{number}"))?;
        let payload = fixtures::payload(number)?;
        Ok(fixtures::operation(self.ids.op_id(), keys, &payload))
    }

    pub(crate) async fn accept_all(&self, new: &[NewOperation]) -> Verdict<Vec<Accepted>> {
        let accepted = self.store.accept(new, &self.routes).await?;
        ensure_eq!(accepted.len(), new.len(), "one answer per operation");
        Ok(accepted)
    }

    pub(crate) async fn accept(&self, new: &NewOperation) -> Verdict<Accepted> {
        only(self.accept_all(std::slice::from_ref(new)).await?)
    }

    /// Accepts an operation that must be new. Returns its seq and state.
    pub(crate) async fn take_in(&self, new: &NewOperation) -> Verdict<(u64, State)> {
        match self.accept(new).await? {
            Accepted::New { seq, state, .. } => Ok((seq, *state)),
            other => Err(Failure::new(format!(
                "expected a new operation, got {other:?}"
            ))),
        }
    }

    /// Accepts a new operation of the domain.
    pub(crate) async fn pending(&self, domain: &str) -> Verdict<OpId> {
        let new = self.op(domain)?;
        self.take_in(&new).await?;
        Ok(new.op_id)
    }

    /// Accepts `count` new operations of the domain, one call each.
    pub(crate) async fn pending_many(&self, domain: &str, count: usize) -> Verdict<Vec<OpId>> {
        let mut ops = Vec::new();
        for _ in 0..count {
            ops.push(self.pending(domain).await?);
        }
        Ok(ops)
    }

    // Attempts.

    pub(crate) async fn begin(&self, op: OpId) -> Verdict<Result<Operation, Refused>> {
        let begin = self.ids.begin(op, 0)?;
        only(self.store.begin(&[begin], &self.routes).await?)
    }

    /// Begins an attempt that must be allowed.
    pub(crate) async fn begun(&self, op: OpId) -> Verdict<Operation> {
        Ok(self.begin(op).await??)
    }

    /// A new operation of the domain with a running attempt.
    pub(crate) async fn live(&self, domain: &str) -> Verdict<Operation> {
        let op = self.pending(domain).await?;
        self.begun(op).await
    }

    pub(crate) async fn retry(
        &self,
        attempt: &Operation,
        retry: Retry,
    ) -> Verdict<Result<Changed, Refused>> {
        let ended = Reschedule {
            op_id: attempt.op_id,
            fence: attempt.state.fence,
            worker: fixtures::worker(0)?,
            retry,
            attempt_id: None,
        };
        only(self.store.reschedule(&[ended], &self.routes).await?)
    }

    /// A new operation whose first attempt has ended and that waits for its second.
    pub(crate) async fn waiting(&self, domain: &str) -> Verdict<Operation> {
        let attempt = self.live(domain).await?;
        self.retry(&attempt, Retry::not_applied("busy")).await??;
        self.row(attempt.op_id).await
    }

    /// A new operation that is held: its call ended unknown and may not be repeated.
    pub(crate) async fn held(&self, domain: &str) -> Verdict<Operation> {
        let attempt = self.live(domain).await?;
        self.retry(&attempt, Retry::unknown("timeout")).await??;
        self.row(attempt.op_id).await
    }

    /// A new operation that ended COMPLETED.
    pub(crate) async fn completed(&self, domain: &str) -> Verdict<Operation> {
        let attempt = self.live(domain).await?;
        self.settle_ok(&attempt).await??;
        self.row(attempt.op_id).await
    }

    /// A new operation that its provider refused.
    pub(crate) async fn failed(&self, domain: &str) -> Verdict<Operation> {
        let attempt = self.live(domain).await?;
        self.settle_fail(&attempt).await??;
        self.row(attempt.op_id).await
    }

    // Answers.

    pub(crate) async fn write_ahead(&self, answer: Answer) -> Verdict<Result<Changed, Refused>> {
        only(self.store.write_ahead(&[answer], &self.routes).await?)
    }

    pub(crate) async fn settle(&self, answer: Answer) -> Verdict<Result<Changed, Refused>> {
        only(self.store.settle(&[answer], &self.routes).await?)
    }

    pub(crate) async fn finalize(&self, op: OpId) -> Verdict<Result<Changed, Refused>> {
        only(self.store.finalize(&[op], &self.routes).await?)
    }

    pub(crate) async fn record_ok(&self, attempt: &Operation) -> Verdict<Changed> {
        let fence = Some(attempt.state.fence);
        let answer = fixtures::ok_answer(attempt.op_id, fence, "txn")?;
        Ok(self.write_ahead(answer).await??)
    }

    pub(crate) async fn record_fail(&self, attempt: &Operation) -> Verdict<Changed> {
        let answer = fixtures::fail_answer(attempt.op_id, attempt.state.fence)?;
        Ok(self.write_ahead(answer).await??)
    }

    pub(crate) async fn settle_ok(&self, attempt: &Operation) -> Verdict<Result<Changed, Refused>> {
        let fence = Some(attempt.state.fence);
        self.settle(fixtures::ok_answer(attempt.op_id, fence, "txn")?)
            .await
    }

    pub(crate) async fn settle_fail(
        &self,
        attempt: &Operation,
    ) -> Verdict<Result<Changed, Refused>> {
        self.settle(fixtures::fail_answer(attempt.op_id, attempt.state.fence)?)
            .await
    }

    /// Settles with an Ok that spawns operations.
    pub(crate) async fn settle_spawning(
        &self,
        attempt: &Operation,
        spawn: Vec<NewOperation>,
    ) -> Verdict<Result<Changed, Refused>> {
        self.settle(spawning(attempt, spawn)?).await
    }

    // Rare events.

    pub(crate) fn amendment(&self, op_id: OpId, event: Event) -> Verdict<Amendment> {
        Ok(Amendment {
            op_id,
            event,
            ok: None,
            checkpoint: None,
            by: fixtures::worker(9)?,
            reason: "the suite".into(),
            attempt_id: None,
        })
    }

    pub(crate) async fn amend_with(
        &self,
        amendment: Amendment,
    ) -> Verdict<Result<Changed, Refused>> {
        only(self.store.amend(&[amendment], &self.routes).await?)
    }

    pub(crate) async fn amend(&self, op: OpId, event: Event) -> Verdict<Result<Changed, Refused>> {
        self.amend_with(self.amendment(op, event)?).await
    }

    pub(crate) async fn cancel(&self, op: OpId) -> Verdict<Changed> {
        Ok(self.amend(op, Event::Cancel).await??)
    }

    // Looking.

    pub(crate) async fn look(&self, op: OpId) -> Verdict<Option<Operation>> {
        only(self.inspect.get(&[op]).await?)
    }

    /// The row of an operation that must exist.
    pub(crate) async fn row(&self, op: OpId) -> Verdict<Operation> {
        let row = self.look(op).await?;
        row.ok_or_else(|| Failure::new(format!("operation {op} is not there")))
    }

    pub(crate) async fn find(&self, new: &NewOperation) -> Verdict<Option<Known>> {
        only(self.inspect.find(std::slice::from_ref(&new.keys)).await?)
    }

    pub(crate) async fn ledger(&self, op: OpId) -> Verdict<Vec<LedgerLine>> {
        Ok(self.inspect.ledger(op).await?)
    }

    /// Dead letters in every state, newest first.
    pub(crate) async fn letters(&self) -> Verdict<Vec<LetterView>> {
        let (all, order) = (LetterFilter::all(), LetterOrder::NewestFirst);
        let page = self.recovery.dead_letters(&all, order, None, 99).await?;
        ensure_eq!(page.next_cursor, None, "all on one page");
        Ok(page.items)
    }

    /// The rows that a relay claims, in order.
    pub(crate) async fn claim(&self, max: usize) -> Verdict<Vec<Claimed>> {
        let claimed = self.outbox.claim(&fixtures::claim(1, max)?).await?;
        ensure!(
            claimed.len() <= max,
            "a claim of {max} got {}",
            claimed.len()
        );
        Ok(claimed)
    }

    pub(crate) async fn scan(&self, scan: Scan) -> Verdict<Vec<OpId>> {
        let claimed = self.recovery.scan(scan, &fixtures::claim(2, 100)?).await?;
        Ok(ids(&claimed))
    }

    pub(crate) async fn domain(&self, name: &str) -> Verdict<Option<DomainView>> {
        let domains = self.domains.domains().await?;
        Ok(domains
            .into_iter()
            .find(|view| view.domain.as_str() == name))
    }

    pub(crate) async fn counts(&self, name: &str) -> Verdict<Counts> {
        let view = self.domain(name).await?;
        Ok(view.map(|view| view.counts).unwrap_or_default())
    }

    pub(crate) async fn pause(&self, name: &str, paused: bool) -> Verdict {
        let domain = fixtures::domain(name)?;
        match paused {
            true => self.domains.pause(&domain, &NewPause::default()).await?,
            false => self.domains.resume(&domain).await?,
        }
        Ok(())
    }

    pub(crate) async fn arm(&self, fault: Fault) {
        self.control.arm(fault).await;
    }
}

/// An Ok of this attempt that spawns operations.
pub(crate) fn spawning(attempt: &Operation, spawn: Vec<NewOperation>) -> Verdict<Answer> {
    let fence = Some(attempt.state.fence);
    let mut answer = fixtures::ok_answer(attempt.op_id, fence, "txn")?;
    if let AnswerBody::Ok(ok) = &mut answer.body {
        ok.spawn = spawn;
    }
    Ok(answer)
}

/// The one answer of a batch of one.
pub(crate) fn only<T>(answers: Vec<T>) -> Verdict<T> {
    let count = answers.len();
    match answers.into_iter().next() {
        Some(answer) if count == 1 => Ok(answer),
        _ => Err(Failure::new(format!(
            "one item was asked for, {count} came back"
        ))),
    }
}

/// The operations of claimed rows, in order.
pub(crate) fn ids(claimed: &[Claimed]) -> Vec<OpId> {
    claimed.iter().map(Claimed::op_id).collect()
}

/// Checks that the call failed with this kind of error.
pub(crate) fn failed_as<T>(result: Result<T, Error>, kind: ErrorKind) -> Verdict {
    match result {
        Ok(_) => Err(Failure::new(format!(
            "the call succeeded; it was armed to be {kind:?}"
        ))),
        Err(error) => {
            ensure_eq!(error.kind(), kind, "the kind of the error");
            Ok(())
        }
    }
}
