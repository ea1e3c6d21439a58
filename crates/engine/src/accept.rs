//! Taking commands in, and telling callers what became of them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use clinch_core::policy::{Routes, SeenTime};
use clinch_core::ports::{
    Accepted, Amendment, BeginRequest, Changed, Known, NewOperation, Operation, Refused, StoredOk,
    Tags, is_traceparent,
};
use clinch_core::protocol::{Event, Inherited, Resolution, State};
use clinch_core::{
    BatchId, Command, ContentHash, Domain, Envelope, Error, ErrorKind, EventType, Fingerprint,
    OpId, OperationHandle, Payload, Result, Status, Success, TimeBudget,
};
use tokio::sync::oneshot;

use crate::execute::{Begun, InlineRoom};
use crate::node::Node;
use crate::settle::store_ok;

/// The caller's handle: starts, cancels, resolves and watches operations. Cheap to clone.
#[derive(Clone)]
pub struct Orchestrator {
    pub(crate) node: Arc<Node>,
}

/// An operation as its caller sees it, payloads opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The row.
    pub operation: Operation,
    /// The result of a COMPLETED operation.
    pub result: Option<Payload>,
}

/// What came of an accept.
enum Entered {
    New {
        known: Known,
        /// What has begun, and the room for it.
        begun: Option<(Box<Begun>, InlineRoom)>,
    },
    Known(Known),
}

impl Orchestrator {
    /// Accepts the command and waits up to the budget for its end. The work goes on when the
    /// budget ends first, and when the caller goes away.
    ///
    /// - The same four keys give the same operation, and the same waiting rules.
    /// - Another payload under the same keys is refused: `Mismatch`, naming the operation.
    pub async fn start(&self, command: Command, budget: TimeBudget) -> Result<OperationHandle> {
        let node = &self.node;
        let waited_from = node.ports.clock.monotonic();
        let (known, replayed) = self.accept(command).await?;
        if known.pruned {
            return Ok(unread(&known, replayed));
        }
        let waited = node.ports.clock.monotonic().saturating_sub(waited_from);
        let left = budget.left_after(waited);
        Ok(match self.await_settled(known.op_id, left).await {
            Ok(snapshot) => handle(&snapshot, replayed),
            // It is accepted: whatever cannot be read now can be asked for later.
            Err(_) => unread(&known, replayed),
        })
    }

    /// Accepts the command, begins it here if it can be, and returns at once; true: the same
    /// keys had been accepted before. [`Orchestrator::await_settled`] waits for its end.
    pub async fn accept(&self, command: Command) -> Result<(Known, bool)> {
        self.enter_in_background(command, self.trace()).await
    }

    /// What this process knows that an operator should look at: the clock, as of its last prune,
    /// and open operations without a route here, by domain, as of its last look.
    pub fn concerns(&self) -> (Option<SeenTime>, BTreeMap<Domain, u64>) {
        let time = *self.node.time_seen();
        let undeclared = self.node.undeclared.lock();
        let undeclared = undeclared.unwrap_or_else(PoisonError::into_inner).clone();
        (time.map(|(time, _)| time), undeclared)
    }

    /// An operator vouches for the store's clock: pruning goes by it from now on.
    pub async fn confirm_time(&self) -> Result<SeenTime> {
        let time = self.node.ports.recovery.confirm_time().await?;
        let looked_at = self.node.ports.clock.monotonic();
        *self.node.time_seen() = Some((time, looked_at));
        Ok(time)
    }

    /// Accepts in a task of its own: the commit may carry a begin, and a begin that nobody
    /// runs because its caller went away would be a lost attempt.
    async fn enter_in_background(
        &self,
        command: Command,
        trace: Option<String>,
    ) -> Result<(Known, bool)> {
        let (reply, entered) = oneshot::channel();
        let this = self.clone();
        let task = async move {
            let entered = this.enter(command, trace).await;
            let entered = entered.map(|entered| match entered {
                Entered::New { known, begun } => {
                    if let Some((begun, room)) = begun {
                        begun.spawn(&this.node, room);
                    }
                    (known, false)
                }
                Entered::Known(known) => (known, true),
            });
            // The caller may be gone; the work goes on.
            let _ = reply.send(entered);
        };
        self.node.ports.spawner.spawn(Box::pin(task));
        let lost = || Error::new(ErrorKind::Ambiguous, "the accept was not confirmed");
        // The task goes on while it can find out; the caller can ask with the same keys.
        let patience = self.node.config.store_timeout * 2;
        tokio::select! {
            biased;
            entered = entered => entered.map_err(|_| lost())?,
            () = self.node.sleep(patience) => Err(lost()),
        }
    }

    /// Accepts commands without waiting for their ends; one commit for all of them. An
    /// invalid command fails alone.
    pub async fn submit(&self, commands: Vec<Command>) -> Result<Vec<Result<Known>>> {
        let told = self.submit_all(commands, None).await?;
        Ok(told.into_iter().map(without_replay).collect())
    }

    /// The same, as members of a batch if one is named; true: the same keys had been accepted
    /// before.
    pub async fn submit_all(
        &self,
        commands: Vec<Command>,
        batch_id: Option<BatchId>,
    ) -> Result<Vec<Result<(Known, bool)>>> {
        let trace = self.trace();
        let prepared: Vec<_> = commands
            .into_iter()
            .map(|command| self.prepare(command, trace.clone()))
            .collect();
        let mut valid: Vec<NewOperation> = prepared.iter().flatten().cloned().collect();
        for new in &mut valid {
            new.batch_id = batch_id;
        }
        let mut accepted = self.accept_all(valid).await?.into_iter();
        let missing = || Error::new(ErrorKind::Ambiguous, "the store gave no result");
        let results = prepared.into_iter().map(|prepared| {
            let new = prepared?;
            match accepted.next().ok_or_else(missing)? {
                Accepted::New { state, .. } => {
                    self.node.count_for("orchestrator.accept.count", &new.keys);
                    let known = Known {
                        op_id: new.op_id,
                        status: state.status,
                        pruned: false,
                    };
                    Ok((known, false))
                }
                other => Ok((known(other)?, true)),
            }
        });
        Ok(results.collect())
    }

    /// Many are a commit of their own; one shares it with whoever else waits.
    async fn accept_all(&self, new: Vec<NewOperation>) -> Result<Vec<Accepted>> {
        match <[NewOperation; 1]>::try_from(new) {
            Ok([new]) => Ok(vec![self.node.groups.accept.call(new).await?]),
            Err(new) => self.node.ports.store.accept(&new, &self.node.routes).await,
        }
    }

    /// No further call is wanted. What follows is in the state: FAILED `canceled`, told to
    /// the attempt, or held because a call may have been applied.
    pub async fn cancel(&self, op_id: OpId, reason: &str) -> Result<Result<Changed, Refused>> {
        self.amend(op_id, Event::Cancel, None, reason).await
    }

    /// A person settles a held operation; with `Completed` its result.
    pub async fn resolve(
        &self,
        op_id: OpId,
        resolution: Resolution,
        result: Option<Success>,
        reason: &str,
    ) -> Result<Result<Changed, Refused>> {
        let ok = match &result {
            Some(success) => Some(store_ok(&self.node, op_id, success)?),
            None => None,
        };
        self.amend(op_id, Event::Resolve(resolution), ok, reason)
            .await
    }

    /// The operation as it stands.
    pub async fn status(&self, op_id: OpId) -> Result<Snapshot> {
        let rows = self.node.ports.inspect.get(&[op_id]).await?;
        let missing = || Error::new(ErrorKind::NotFound, "there is no such operation");
        let operation = rows.into_iter().next().flatten().ok_or_else(missing)?;
        self.snapshot(operation)
    }

    /// A row as its caller sees it: the result opened.
    pub fn snapshot(&self, operation: Operation) -> Result<Snapshot> {
        let stored = operation.result.as_ref().and_then(|r| r.payload.as_ref());
        let sealer = &self.node.ports.sealer;
        let opened = stored.map(|stored| sealer.open_payload(operation.op_id, stored));
        let result = opened.transpose()?;
        Ok(Snapshot { operation, result })
    }

    /// Waits until the operation is terminal, at most `wait`, and shows it as it stands then.
    pub async fn await_settled(&self, op_id: OpId, wait: Duration) -> Result<Snapshot> {
        let node = &self.node;
        let until = node.ports.clock.monotonic().saturating_add(wait);
        let mut waiter = node.waiters.register(op_id);
        let mut pause = node.config.settle_pause;
        loop {
            waiter.look();
            let snapshot = self.status(op_id).await;
            let left = until.saturating_sub(node.ports.clock.monotonic());
            let nap = match snapshot {
                Ok(snapshot) => {
                    let over = left.is_zero() && !planted!(WaitsPastTheBudget);
                    if snapshot.operation.state.is_terminal() || over {
                        return Ok(snapshot);
                    }
                    left
                }
                Err(error) if !error.is_retryable() || left.is_zero() => return Err(error),
                Err(_) => {
                    pause = pause.saturating_mul(2);
                    pause.min(left)
                }
            };
            // A notice that was lost is made up for by the listener, for all waiters at once.
            tokio::select! {
                biased;
                () = waiter.woken() => {}
                () = node.sleep(nap) => {}
            }
        }
    }

    async fn amend(
        &self,
        op_id: OpId,
        event: Event,
        ok: Option<StoredOk>,
        reason: &str,
    ) -> Result<Result<Changed, Refused>> {
        let amendment = Amendment {
            op_id,
            event,
            ok,
            checkpoint: None,
            by: self.node.config.worker.clone(),
            reason: reason.to_owned(),
            attempt_id: None,
        };
        let changed = self.node.groups.amend.call(amendment).await?;
        if let Ok(changed) = &changed {
            self.node.follow(op_id, changed).await;
        }
        Ok(changed)
    }

    /// Accepts, and begins in the same commit if this process can run it now.
    async fn enter(&self, command: Command, trace: Option<String>) -> Result<Entered> {
        let node = &self.node;
        let payload = command.payload.clone();
        let mut new = self.prepare(command, trace)?;
        let room = node.inline_room(&new);
        new.begin = room.as_ref().map(|_| BeginRequest {
            op_id: new.op_id,
            attempt_id: node.ports.ids.attempt_id(),
            worker: node.config.worker.clone(),
            lease: node.config.lease,
        });
        let begun_from = node.ports.clock.monotonic();
        let accepted_at = node.ports.clock.now();
        let mut accepted = Err(Error::new(ErrorKind::Ambiguous, "the accept was cut off"));
        let accept = async { accepted = node.groups.accept.call(new.clone()).await };
        let tags = Tags {
            op_id: Some(new.op_id),
            keys: Some(&new.keys),
            trace: new.trace.as_deref(),
            ..Tags::default()
        };
        node.within("accept", &tags, Box::pin(accept)).await;
        let (seq, state) = match accepted {
            Ok(Accepted::New { seq, state }) => (seq, *state),
            Ok(other) => return known(other).map(Entered::Known),
            Err(error) if error.kind() == ErrorKind::Ambiguous => {
                // Whether it happened is in the key table; whether we may call is in the row.
                match self.read_back(&new).await? {
                    Some(operation) => (operation.seq, operation.state),
                    None => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        node.count_for("orchestrator.accept.count", &new.keys);
        let ours = new.begin.as_ref().map(|begin| begin.attempt_id);
        let granted = state.is_current(1) && state.attempt_id == ours && ours.is_some();
        let may_call = granted || planted!(CallsWithoutBegin);
        let begun = room.filter(|_| may_call).map(|room| {
            let envelope = first_envelope(&new, payload, seq, &state);
            let begun = Begun::new(envelope, begun_from, accepted_at);
            (Box::new(begun), room)
        });
        let known = Known {
            op_id: new.op_id,
            status: state.status,
            pruned: false,
        };
        Ok(Entered::New { known, begun })
    }

    /// A begin of ours may have been committed: giving up early would make it a lost attempt.
    async fn read_back(&self, new: &NewOperation) -> Result<Option<Operation>> {
        let ops = [new.op_id];
        let rows = self
            .node
            .persist(self.node.config.lease, || self.node.ports.inspect.get(&ops));
        Ok(rows.await?.into_iter().next().flatten())
    }

    /// The trace that a new operation belongs to: that of whoever asks for it.
    pub(crate) fn trace(&self) -> Option<String> {
        self.node.ports.tracer.context()
    }

    /// The operation that a command would be, for a store's `accept_in`: the caller's own
    /// transaction accepts it.
    pub fn new_operation(&self, command: Command) -> Result<NewOperation> {
        self.prepare(command, self.trace())
    }

    /// The rules of every route, for a store's `accept_in`.
    pub fn routes(&self) -> &Routes {
        &self.node.routes
    }

    pub(crate) fn prepare(&self, command: Command, trace: Option<String>) -> Result<NewOperation> {
        let node = &self.node;
        let Command {
            keys,
            payload,
            mut options,
        } = command;
        options.validate()?;
        let trace = options.trace.take().or(trace);
        let trace = trace.filter(|trace| is_traceparent(trace));
        let handler = node.handlers.find(&keys.domain, &keys.event_type);
        let handler = handler.ok_or_else(|| unknown_route(&keys.domain, &keys.event_type))?;
        let op_id = node.ports.ids.op_id();
        let stored = node.ports.sealer.seal(op_id, payload.as_bytes())?;
        let printed = if planted!(FingerprintOfNothing) {
            Payload::null()
        } else {
            payload.clone()
        };
        let mut fingerprints = vec![Fingerprint::plain(&printed)];
        if let Some(key) = node.ports.sealer.fingerprint_key() {
            fingerprints.insert(0, Fingerprint::keyed(key, &printed));
        }
        Ok(NewOperation {
            op_id,
            fingerprints,
            content_hash: ContentHash::of(&op_id, &keys.event_type, stored.as_bytes()),
            outbound_key: handler.idempotency.outbound_key(&keys),
            payload: stored,
            keys,
            options,
            batch_id: None,
            redrive_of: None,
            inherited: Inherited::default(),
            trace,
            begin: None,
        })
    }
}

impl Node {
    /// Room for its first attempt, if this process runs it and it is due. Taken before the begin:
    /// what finds none is queued.
    fn inline_room(self: &Arc<Self>, new: &NewOperation) -> Option<InlineRoom> {
        let lot = self.lot_for(&new.keys.domain, &new.keys.event_type)?;
        if self.is_stopping() || new.options.run_at.is_some() {
            return None;
        }
        let permit = self.inline_permits.clone().try_acquire_owned().ok()?;
        let reservation = lot.reserve(1, self.ports.clock.monotonic()).pop()?;
        Some(InlineRoom::new(self.clone(), permit, reservation))
    }
}

/// What the executor of an attempt sees that began with its accept.
fn first_envelope(new: &NewOperation, payload: Payload, seq: u64, state: &State) -> Envelope {
    Envelope {
        op_id: new.op_id,
        command: Command {
            keys: new.keys.clone(),
            payload,
            options: new.options.clone(),
        },
        seq,
        attempt: state.attempts,
        fence: state.fence,
        outbound_key: new.outbound_key.clone(),
        deadline: state.deadline,
        checkpoint: None,
        trace: new.trace.clone(),
    }
}

pub(crate) fn unknown_route(domain: &Domain, event_type: &EventType) -> Error {
    let message = "no route is declared for this domain and event type";
    Error::new(ErrorKind::Invalid, message)
        .with("code", "unknown_route")
        .with("domain", domain)
        .with("event_type", event_type)
}

pub(crate) fn without_replay(told: Result<(Known, bool)>) -> Result<Known> {
    told.map(|(known, _)| known)
}

fn known(accepted: Accepted) -> Result<Known> {
    match accepted {
        Accepted::Known(known) => Ok(known),
        Accepted::Mismatch(known) => {
            let message = "the same keys were accepted with another payload";
            Err(Error::new(ErrorKind::Mismatch, message).with("op_id", known.op_id))
        }
        Accepted::BatchClosed => {
            let message = "the batch is sealed or does not exist";
            Err(Error::new(ErrorKind::Invalid, message))
        }
        Accepted::PredecessorApplied => {
            let message = "the operation that it redrives was applied";
            Err(Error::new(ErrorKind::Invalid, message))
        }
        Accepted::New { .. } => Err(Error::new(ErrorKind::Internal, "a new one is not known")),
    }
}

fn handle(snapshot: &Snapshot, replayed: bool) -> OperationHandle {
    let operation = &snapshot.operation;
    let txn_id = operation
        .result
        .as_ref()
        .and_then(|r| r.provider_txn_id.clone());
    let completed = operation.state.status == Status::Completed;
    let result = snapshot.result.clone().unwrap_or_else(Payload::null);
    OperationHandle {
        op_id: operation.op_id,
        replayed,
        status: operation.state.status,
        result: completed.then_some((txn_id, result)),
        failure: operation
            .state
            .failure
            .clone()
            .filter(|_| operation.state.is_terminal()),
        pruned: false,
    }
}

/// What can be said without the row.
fn unread(known: &Known, replayed: bool) -> OperationHandle {
    OperationHandle {
        op_id: known.op_id,
        replayed,
        status: known.status,
        result: None,
        failure: None,
        pruned: known.pruned,
    }
}
