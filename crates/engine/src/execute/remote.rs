//! Attempts that workers outside of this process run, in any language.
//!
//! A worker leases operations, calls, and reports. Between the two it holds nothing but a
//! fence: every report is judged by the row, exactly as that of an attempt of our own. A
//! report that is made twice, because the worker did not hear the answer to the first, is
//! answered like the first.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::{EventTypes, Routes};
use clinch_core::ports::{
    Amendment, Answer, AnswerBody, BeginRequest, Changed, Delivery, Extension, LedgerLine,
    Operation, Refused, Reschedule,
};
use clinch_core::protocol::{Event, State};
use clinch_core::{
    Applied, Domain, Envelope, Error, ErrorKind, EventType, OpId, Outcome, Result, Retry, Status,
    WorkerId,
};
use tokio::sync::oneshot;

use crate::Orchestrator;
use crate::node::{Dispatch, Node};

/// No worker waits longer for one answer.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How soon a waiting worker looks at a bus of hints again: news of the store comes before the
/// relay has announced.
const HINT_PAUSE: Duration = Duration::from_millis(500);

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
    /// For how long; extended by [`Orchestrator::heartbeat`].
    pub lease: Duration,
    /// Who asks, for the ledger.
    pub worker: WorkerId,
}

impl Orchestrator {
    /// Begins attempts for a worker outside of this process.
    ///
    /// - Only of declared routes that no executor of this process serves.
    /// - What nobody reports on is a lost attempt when its lease ends; what was begun for a
    ///   worker that hung up is given back at once.
    pub async fn lease(&self, request: &LeaseRequest) -> Result<Vec<Envelope>> {
        let node = &self.node;
        let routes = Arc::new(node.remote_routes(request)?);
        let until = node.ports.clock.monotonic() + request.wait.min(WAIT_MAX);
        let mut news = node.due_news.subscribe();
        loop {
            news.borrow_and_update();
            let taken = self.take_in_background(request, &routes).await?;
            let left = until.saturating_sub(node.ports.clock.monotonic());
            if !taken.is_empty() || left.is_zero() || node.is_stopping() {
                return Ok(taken);
            }
            let due = node.ports.outbox.next_due(Some(&routes)).await?;
            // Due and not taken: somebody else has it, or it is on its way to the bus. The
            // fallback covers lost news.
            let due = due.filter(|due| !due.is_zero());
            let bound = match node.ports.dispatch {
                Dispatch::Queue(_) => node.config.fallback_poll,
                Dispatch::Hints(_) => HINT_PAUSE,
            };
            let nap = due.map_or(left, |due| due.min(left)).min(bound);
            tokio::select! {
                biased;
                _ = news.changed() => {}
                () = node.sleep_unless_stopped(nap) => {}
            }
        }
    }

    /// Takes in a task of its own: what was begun for a worker that hangs up meanwhile must
    /// not become a lost attempt.
    async fn take_in_background(
        &self,
        request: &LeaseRequest,
        routes: &Arc<Routes>,
    ) -> Result<Vec<Envelope>> {
        let (reply, taken) = oneshot::channel();
        let (this, request, routes) = (self.clone(), request.clone(), routes.clone());
        let task = async move {
            let taken = this.node.take_remote(&request, &routes).await;
            if let Err(Ok(unheard)) = reply.send(taken) {
                for envelope in unheard {
                    let worker = request.worker.clone();
                    // If this fails too the lease runs out.
                    let _ = this.release(envelope.op_id, envelope.fence, worker).await;
                }
            }
        };
        self.node.ports.spawner.spawn(Box::pin(task));
        let lost = |_| Error::new(ErrorKind::Unavailable, "the lease was not confirmed");
        taken.await.map_err(lost)?
    }

    /// Moves the lease; the state says whether cancel was requested.
    pub async fn heartbeat(&self, op_id: OpId, fence: u64, lease: Duration) -> Result<State> {
        let extension = Extension {
            op_id,
            fence,
            lease,
        };
        let changed = self.node.groups.extend.call(extension).await?;
        self.current(op_id, changed)
    }

    /// Keeps bytes for the next attempt.
    pub async fn checkpoint(&self, op_id: OpId, fence: u64, bytes: &[u8]) -> Result<State> {
        let node = &self.node;
        let max = node.config.checkpoint_bytes_max;
        if bytes.len() > max {
            let message = format!("a checkpoint holds at most {max} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let amendment = Amendment {
            op_id,
            event: Event::Checkpoint { fence },
            ok: None,
            checkpoint: Some(node.ports.sealer.seal(op_id, bytes)?),
            by: node.config.worker.clone(),
            reason: String::new(),
        };
        let changed = node.groups.amend.call(amendment).await?;
        self.current(op_id, changed)
    }

    /// Gives an attempt back that sent nothing.
    pub async fn release(&self, op_id: OpId, fence: u64, worker: WorkerId) -> Result<State> {
        let retry = Retry::not_called("released by its worker").after(Duration::ZERO);
        self.report(op_id, fence, worker, Outcome::Retry(retry))
            .await
    }

    /// How an attempt ended; the state is the row's after it.
    ///
    /// - A stale fence is a `Conflict`, except that an Ok is always taken.
    /// - The same report again is answered like the first.
    pub async fn report(
        &self,
        op_id: OpId,
        fence: u64,
        worker: WorkerId,
        outcome: Outcome,
    ) -> Result<State> {
        let row = self.status(op_id).await?.operation;
        let said = event_name(&outcome);
        let reported = match outcome {
            Outcome::Ok(success) => {
                let trace = row.trace.as_deref();
                let ok = self.node.record(op_id, &success, trace).await;
                self.answer(op_id, fence, worker, AnswerBody::Ok(ok))
                    .await?
            }
            Outcome::Fail(fail) => {
                let body = AnswerBody::Fail(fail);
                self.answer(op_id, fence, worker, body).await?
            }
            Outcome::Retry(retry) => {
                let attempt = Reschedule {
                    op_id,
                    fence,
                    worker,
                    retry,
                };
                self.node.groups.reschedule.call(attempt).await?
            }
        };
        match reported {
            Ok(changed) => {
                self.node.follow(op_id, &changed).await;
                Ok(changed.state)
            }
            Err(refused) => {
                let ledger = self.node.ports.inspect.ledger(op_id).await?;
                // This attempt was reported on in the same way, and that was taken.
                let same = |line: &LedgerLine| {
                    line.refused.is_none() && line.fence == fence && line.event == said
                };
                let state = self.status(op_id).await?.operation.state;
                // A late yes lies in the ledger under the fence that was current then.
                let is_known_yes = said == OK && state.status == Status::Completed;
                if is_known_yes || ledger.iter().any(same) {
                    Ok(state)
                } else {
                    Err(stale(op_id, &refused))
                }
            }
        }
    }

    async fn answer(
        &self,
        op_id: OpId,
        fence: u64,
        worker: WorkerId,
        body: AnswerBody,
    ) -> Result<Result<Changed, Refused>> {
        let answer = Answer {
            op_id,
            fence: Some(fence),
            worker,
            body,
        };
        self.node.groups.settle.call(answer).await
    }

    fn current(&self, op_id: OpId, changed: Result<Changed, Refused>) -> Result<State> {
        match changed {
            Ok(changed) => Ok(changed.state),
            Err(refused) => Err(stale(op_id, &refused)),
        }
    }
}

/// What a yes is called in the ledger.
const OK: &str = "Ok";

/// The name of its line in the ledger.
fn event_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Ok(_) => OK,
        Outcome::Fail(_) => "Fail",
        Outcome::Retry(retry) if retry.applied == Applied::NotCalled => "NotCalled",
        Outcome::Retry(_) => "Retry",
    }
}

fn stale(op_id: OpId, refused: &Refused) -> Error {
    let kind = match refused {
        Refused::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Conflict,
    };
    Error::new(kind, refused.to_string()).with("op_id", op_id)
}

impl Node {
    /// A begin whose commit is ambiguous is ours if its attempt id reads back.
    async fn begin_as(
        &self,
        begin: BeginRequest,
        routes: &Arc<Routes>,
    ) -> Result<Result<Operation, Refused>> {
        let attempts = [begin.attempt_id];
        let missing = || Error::new(ErrorKind::Ambiguous, "the store gave no result");
        match self.ports.store.begin(&[begin], routes).await {
            Err(error) if error.kind() == ErrorKind::Ambiguous => {
                let lease = self.config.lease;
                let rows = self.persist(lease, || self.ports.inspect.begun(&attempts));
                let row = rows.await?.into_iter().next().flatten();
                row.map(Ok).ok_or(error)
            }
            other => other?.into_iter().next().ok_or_else(missing),
        }
    }

    /// The declared routes that a worker asks for.
    fn remote_routes(&self, request: &LeaseRequest) -> Result<Routes> {
        let (domain, all) = (&request.domain, request.event_types.is_empty());
        let wanted = |types: &EventTypes| match types {
            EventTypes::One(one) => all || request.event_types.contains(one),
            EventTypes::Any => all,
        };
        let mut routes = Routes::new();
        let local = |types: &EventTypes| {
            self.runnable
                .iter()
                .any(|(of, those, _)| of == domain && those == types)
        };
        let internal = |types: &EventTypes| match types {
            EventTypes::One(one) => self.handlers.is_internal(domain, one),
            EventTypes::Any => false,
        };
        for (of, types, rules) in self.routes.iter().filter(|(of, ..)| *of == domain) {
            if wanted(types) && !local(types) && !internal(types) {
                routes = routes.with(of.clone(), types.clone(), rules.clone());
            } else if let EventTypes::One(one) = types {
                routes = routes.without(of.clone(), one.clone());
            }
        }
        for one in &request.event_types {
            // Covered by a route for all types, if at all.
            let rules = self.routes.find(domain, one);
            let here =
                self.runnable.find(domain, one).is_some() || self.handlers.is_internal(domain, one);
            let Some(rules) = rules.filter(|_| !here) else {
                return Err(crate::accept::unknown_route(domain, one));
            };
            routes = routes.with(domain.clone(), EventTypes::One(one.clone()), rules.clone());
        }
        if routes.iter().next().is_none() {
            let message = "no route for remote workers is declared for this domain";
            return Err(Error::new(ErrorKind::Invalid, message)
                .with("code", "unknown_route")
                .with("domain", domain));
        }
        Ok(routes)
    }

    async fn take_remote(
        self: &Arc<Self>,
        request: &LeaseRequest,
        routes: &Arc<Routes>,
    ) -> Result<Vec<Envelope>> {
        let topics = self.handlers.topics(&request.domain, routes);
        let dequeue = self.dequeue(topics, routes.clone(), request.max);
        let dequeue = clinch_core::ports::Dequeue {
            visibility: request.lease,
            worker: request.worker.clone(),
            ..dequeue
        };
        let mut leased = Vec::new();
        for delivery in self.dequeue_deliveries(&dequeue).await? {
            let row = match &self.ports.dispatch {
                Dispatch::Queue(_) => delivery.begun.map(|row| *row),
                Dispatch::Hints(_) => self.begin_for(&delivery, request, routes).await,
            };
            if let Some(row) = row
                && let Some(begun) = self.open(row, Duration::ZERO).await
            {
                leased.push(begun.into_envelope());
            }
        }
        Ok(leased)
    }

    /// Begins what a hint names, if the worker asked for its type.
    async fn begin_for(
        &self,
        delivery: &Delivery,
        request: &LeaseRequest,
        routes: &Arc<Routes>,
    ) -> Option<Operation> {
        let hint = &delivery.hint;
        let bus = self.ports.dispatch.bus();
        if routes.find(&hint.domain, &hint.event_type).is_none() {
            // Another worker's.
            let again = [(delivery.receipt.clone(), self.config.sweep_grace)];
            let _ = bus.nack(&again).await;
            return None;
        }
        let begin = BeginRequest {
            op_id: hint.op_id,
            attempt_id: self.ports.ids.attempt_id(),
            worker: request.worker.clone(),
            lease: request.lease,
        };
        let begun = match self.begin_as(begin, routes).await {
            Ok(begun) => begun.ok(),
            // The hint comes again after its visibility timeout.
            Err(_) => return None,
        };
        // The row has decided; a hint that is not acked comes again and is a no-op.
        let _ = bus.ack(std::slice::from_ref(&delivery.receipt)).await;
        begun
    }
}
