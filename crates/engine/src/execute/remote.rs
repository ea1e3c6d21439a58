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
    Amendment, Answer, AnswerBody, Changed, Delivery, Extension, Operation, Refused, Reschedule,
};
use clinch_core::protocol::{Event, State, Why};
use clinch_core::{
    Domain, Envelope, Error, ErrorKind, EventType, OpId, Outcome, Result, Retry, WorkerId,
};

use crate::Orchestrator;
use crate::node::{Dispatch, Node};

/// No read of the bus waits longer: a worker that hung up must not take hints with it.
const WAIT_MAX: Duration = Duration::from_secs(60);

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
    /// - Only of declared routes; an unknown one is refused.
    /// - What nobody reports on is a lost attempt when its lease ends.
    pub async fn lease(&self, request: &LeaseRequest) -> Result<Vec<Envelope>> {
        let node = &self.node;
        let routes = Arc::new(node.remote_routes(request)?);
        let until = node.ports.clock.monotonic() + request.wait.min(WAIT_MAX);
        let mut news = node.due_news.subscribe();
        loop {
            news.borrow_and_update();
            let taken = node.take_remote(request, &routes).await?;
            let left = until.saturating_sub(node.ports.clock.monotonic());
            if !taken.is_empty() || left.is_zero() || node.is_stopping() {
                return Ok(taken);
            }
            let due = node.ports.outbox.next_due(Some(&routes)).await?;
            // Due and not taken: somebody else has it. The fallback covers lost news.
            let due = due.filter(|due| !due.is_zero());
            let nap = due.map_or(left, |due| due.min(left));
            tokio::select! {
                biased;
                _ = news.changed() => {}
                () = node.sleep_unless_stopped(nap.min(node.config.fallback_poll)) => {}
            }
        }
    }

    /// Moves the lease; the state says whether cancel was requested.
    pub async fn heartbeat(&self, op_id: OpId, fence: u64, lease: Duration) -> Result<State> {
        let extension = Extension {
            op_id,
            fence,
            lease,
        };
        let changed = self.node.groups.extend.call(extension).await?;
        self.current(changed)
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
        self.current(changed)
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
                let row = self.status(op_id).await?.operation;
                if is_repeated(&row, fence, &refused) {
                    Ok(row.state)
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

    fn current(&self, changed: Result<Changed, Refused>) -> Result<State> {
        match changed {
            Ok(changed) => Ok(changed.state),
            Err(refused) => Err(match refused {
                Refused::NotFound => Error::new(ErrorKind::NotFound, refused.to_string()),
                _ => Error::new(ErrorKind::Conflict, refused.to_string()),
            }),
        }
    }
}

/// Nobody has begun it since: the attempt that this fence stands for has been reported on.
fn is_repeated(row: &Operation, fence: u64, refused: &Refused) -> bool {
    let refused_as_over = matches!(
        refused,
        Refused::Illegal(illegal) if matches!(illegal.why, Why::StaleFence | Why::Terminal)
    );
    refused_as_over && row.state.fence == fence && row.state.lease_until.is_none()
}

fn stale(op_id: OpId, refused: &Refused) -> Error {
    let kind = match refused {
        Refused::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Conflict,
    };
    Error::new(kind, refused.to_string()).with("op_id", op_id)
}

impl Node {
    /// The declared routes that a worker asks for.
    fn remote_routes(&self, request: &LeaseRequest) -> Result<Routes> {
        let (domain, all) = (&request.domain, request.event_types.is_empty());
        let wanted = |types: &EventTypes| match types {
            EventTypes::One(one) => all || request.event_types.contains(one),
            EventTypes::Any => all,
        };
        let mut routes = Routes::new();
        for (of, types, rules) in self.routes.iter().filter(|(of, ..)| *of == domain) {
            if wanted(types) {
                routes = routes.with(of.clone(), types.clone(), rules.clone());
            } else if let EventTypes::One(one) = types {
                routes = routes.without(of.clone(), one.clone());
            }
        }
        for one in &request.event_types {
            // Covered by a route for all types, if at all.
            let Some(rules) = self.routes.find(domain, one) else {
                return Err(crate::accept::unknown_route(domain, one));
            };
            routes = routes.with(domain.clone(), EventTypes::One(one.clone()), rules.clone());
        }
        if routes.iter().next().is_none() {
            let message = "no route is declared for this domain";
            return Err(Error::new(ErrorKind::Invalid, message).with("domain", domain));
        }
        Ok(routes)
    }

    async fn take_remote(
        self: &Arc<Self>,
        request: &LeaseRequest,
        routes: &Arc<Routes>,
    ) -> Result<Vec<Envelope>> {
        let dequeue = self.dequeue(vec![request.domain.clone()], routes.clone(), request.max);
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
        let begin = clinch_core::ports::BeginRequest {
            op_id: hint.op_id,
            attempt_id: self.ports.ids.attempt_id(),
            worker: request.worker.clone(),
            lease: request.lease,
        };
        let begun = self.ports.store.begin(&[begin], routes).await;
        let receipts = [delivery.receipt.clone()];
        match begun {
            Ok(results) => {
                // The row has decided; a hint that is not acked comes again and is a no-op.
                let _ = bus.ack(&receipts).await;
                results.into_iter().next()?.ok()
            }
            // The hint comes again after its visibility timeout; a begin that happened all the
            // same is a lost attempt then.
            Err(_) => None,
        }
    }
}
