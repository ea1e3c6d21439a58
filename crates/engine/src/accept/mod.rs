//! Accepts commands and tells callers how their operations ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use clinch_core::policy::{EventTypes, Routes, SeenTime};
use clinch_core::ports::{
    Accepted, Amendment, BeginRequest, Changed, Known, NewOperation, NewPause, Operation, Refused,
    StoredOk, Tags,
};
use clinch_core::protocol::{Event, Resolution};
use clinch_core::{
    Actor, BatchId, Command, Domain, Error, ErrorKind, EventType, OpId, OperationHandle, Payload,
    Result, Success, TimeBudget,
};
use tokio::sync::oneshot;

mod batch;
mod letters;
mod redrive;
mod remote;
mod shed;
mod wait;

use crate::dispatch::Relay;
use crate::execute::{Begun, InlineRoom, Workers};
use crate::prepare::envelope_of;
use crate::settle::store_ok;
use crate::wakes::Runner;
pub use redrive::Redriven;
use shed::Load;
pub use wait::Acceptance;
use wait::{NewRow, handle, unread};

/// The caller's handle: starts, cancels, resolves and watches operations. Cheap to clone.
#[derive(Clone)]
pub struct Orchestrator {
    accept: Arc<Acceptor>,
}

/// Accepts commands. It begins an attempt at once if this process can run it, and sheds callers
/// while too much due work waits.
pub(crate) struct Acceptor {
    workers: Arc<Workers>,
    relay: Arc<Relay>,
    load: Load,
}

impl Deref for Acceptor {
    type Target = Workers;
    fn deref(&self) -> &Workers {
        &self.workers
    }
}

/// An operation as its caller sees it: payloads are opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The row.
    pub operation: Operation,
    /// The result of a COMPLETED operation.
    pub result: Option<Payload>,
}

/// The result of an accept, and the attempt that began with it, with the permit and reservation
/// that it holds.
type Entered = (Acceptance, Option<(Begun, InlineRoom)>);

impl Orchestrator {
    pub(crate) fn new(workers: Arc<Workers>, relay: Arc<Relay>) -> Self {
        let load = Load::default();
        let accept = Arc::new(Acceptor {
            workers,
            relay,
            load,
        });
        Self { accept }
    }

    /// Accepts the command and waits up to the budget for the operation's end. The work continues
    /// if the budget ends first or the caller disconnects.
    ///
    /// - The same four keys give the same operation, and the same waiting rules.
    /// - Another payload under the same keys is refused: `Mismatch`, naming the operation.
    pub async fn start(&self, command: Command, budget: TimeBudget) -> Result<OperationHandle> {
        let accept = &self.accept;
        let waited_from = accept.ports.clock.monotonic();
        let accepted = self.accept(command).await?;
        let (known, replayed) = (accepted.known.clone(), accepted.replayed);
        if known.pruned {
            return Ok(unread(&known, replayed));
        }
        let waited = accept.ports.clock.monotonic().saturating_sub(waited_from);
        let left = budget.left_after(waited);
        Ok(match self.end_of(accepted, left).await {
            Ok(snapshot) => handle(&snapshot, replayed),
            // The command is accepted. A row that cannot be read now can be asked for later.
            Err(_) => unread(&known, replayed),
        })
    }

    /// Accepts the command, begins its attempt here if possible, and returns at once.
    pub async fn accept(&self, command: Command) -> Result<Acceptance> {
        self.enter_in_background(command, self.trace()).await
    }

    /// Conditions that an operator should look at: the store's clock as of this process's last
    /// prune, and the number of open operations without a route here, by domain, as of its last
    /// count.
    pub fn concerns(&self) -> (Option<SeenTime>, BTreeMap<Domain, u64>) {
        let concerns = &self.accept.concerns;
        let time = *concerns.time_seen();
        let undeclared = concerns.undeclared().clone();
        (time.map(|(time, _)| time), undeclared)
    }

    /// An operator confirms the store's clock. From now on pruning counts ages by it.
    pub async fn confirm_time(&self) -> Result<SeenTime> {
        let time = self.accept.ports.recovery.confirm_time().await?;
        let looked_at = self.accept.ports.clock.monotonic();
        *self.accept.concerns.time_seen() = Some((time, looked_at));
        Ok(time)
    }

    /// Accepts in a task of its own. The commit may carry a begin: if the caller disconnected and
    /// nothing ran that attempt, it would be a lost attempt.
    async fn enter_in_background(
        &self,
        command: Command,
        trace: Option<String>,
    ) -> Result<Acceptance> {
        let (reply, entered) = oneshot::channel();
        let this = self.clone();
        let task = async move {
            let entered = this.enter(command, trace).await;
            let entered = entered.map(|(accepted, begun)| {
                if let Some((begun, room)) = begun {
                    begun.spawn(&this.accept.workers, room);
                }
                accepted
            });
            // The caller may have disconnected; the work continues.
            let _ = reply.send(entered);
        };
        self.accept.ports.spawner.spawn(Box::pin(task));
        let lost = || Error::new(ErrorKind::Ambiguous, "the accept was not confirmed");
        // After this timeout the task still tries to find out what happened. The caller can ask
        // again with the same keys.
        let patience = self.accept.config.store_timeout * 2;
        tokio::select! {
            biased;
            entered = entered => entered.map_err(|_| lost())?,
            () = self.accept.sleep(patience) => Err(lost()),
        }
    }

    /// Accepts commands in one commit without waiting for their ends. An invalid command fails
    /// alone.
    pub async fn submit(&self, commands: Vec<Command>) -> Result<Vec<Result<Known>>> {
        let told = self.submit_all(commands, None).await?;
        Ok(told.into_iter().map(without_replay).collect())
    }

    /// Like [`Orchestrator::submit`], with the operations as members of `batch_id` if given. True:
    /// the same keys had been accepted before.
    pub async fn submit_all(
        &self,
        commands: Vec<Command>,
        batch_id: Option<BatchId>,
    ) -> Result<Vec<Result<(Known, bool)>>> {
        let trace = self.trace();
        let prepared: Vec<_> = commands
            .into_iter()
            .map(|command| self.accept.prepare(command, trace.clone()))
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
                    self.accept
                        .count_for("orchestrator.accept.count", &new.keys);
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

    /// Several operations are a commit of their own; a single one joins the group commit.
    async fn accept_all(&self, new: Vec<NewOperation>) -> Result<Vec<Accepted>> {
        match <[NewOperation; 1]>::try_from(new) {
            Ok([new]) => Ok(vec![self.accept.commits.accept(new).await?]),
            Err(new) => self.accept.commits.accept_all(new).await,
        }
    }

    /// No further call is wanted. The state says what follows: FAILED `canceled`, a cancel request
    /// to the running attempt, or held because a call may have been applied.
    pub async fn cancel(
        &self,
        op_id: OpId,
        by: &Actor,
        reason: &str,
    ) -> Result<Result<Changed, Refused>> {
        self.amend(op_id, Event::Cancel, None, by, reason).await
    }

    /// The next attempt is wanted now, whatever the operation waits for. No guard is passed: a
    /// paused domain, an open breaker, the order of a lane or the limit of attempts still decide.
    pub async fn retry_now(
        &self,
        op_id: OpId,
        by: &Actor,
        reason: &str,
    ) -> Result<Result<Changed, Refused>> {
        self.amend(op_id, Event::RetryNow, None, by, reason).await
    }

    /// This process, as the actor of what it does on its own account.
    pub fn actor(&self) -> Actor {
        Actor::process(&self.accept.config.worker)
    }

    /// An operator settles a held operation. With `Completed`, `result` is its result.
    pub async fn resolve(
        &self,
        op_id: OpId,
        resolution: Resolution,
        result: Option<Success>,
        by: &Actor,
        reason: &str,
    ) -> Result<Result<Changed, Refused>> {
        let ok = match &result {
            Some(success) => Some(store_ok(&self.accept, op_id, success)?),
            None => None,
        };
        let resolved = self
            .amend(op_id, Event::Resolve(resolution), ok, by, reason)
            .await?;
        if resolved.is_ok() {
            self.accept.tell_released(&Tags::of(op_id), "resolved");
        }
        Ok(resolved)
    }

    /// The operation as it is now.
    pub async fn status(&self, op_id: OpId) -> Result<Snapshot> {
        self.snapshot(self.accept.row(op_id).await?)
    }

    /// A row as its caller sees it, with the result opened.
    pub fn snapshot(&self, operation: Operation) -> Result<Snapshot> {
        let stored = operation.result.as_ref().and_then(|r| r.payload.as_ref());
        let sealer = &self.accept.ports.sealer;
        let opened = stored.map(|stored| sealer.open_payload(operation.op_id, stored));
        let result = opened.transpose()?;
        Ok(Snapshot { operation, result })
    }

    async fn amend(
        &self,
        op_id: OpId,
        event: Event,
        ok: Option<StoredOk>,
        by: &Actor,
        reason: &str,
    ) -> Result<Result<Changed, Refused>> {
        let amendment = Amendment {
            op_id,
            event,
            ok,
            checkpoint: None,
            by: by.name().clone(),
            reason: reason.to_owned(),
            attempt_id: None,
        };
        let changed = self.accept.commits.amend(amendment).await?;
        if let Ok(changed) = &changed {
            self.accept.follow(&Tags::of(op_id), changed).await;
        }
        Ok(changed)
    }

    /// Accepts the command, and begins its attempt in the same commit if this process can run it
    /// now.
    async fn enter(&self, command: Command, trace: Option<String>) -> Result<Entered> {
        let accept = &self.accept;
        let payload = command.payload.clone();
        let mut new = self.accept.prepare(command, trace)?;
        let waiter = accept.waiters.register(new.op_id);
        let room = accept.workers.inline_room(&new);
        new.begin = room.as_ref().map(|_| BeginRequest {
            op_id: new.op_id,
            attempt_id: accept.attempt_id(),
            worker: accept.config.worker.clone(),
            lease: accept.config.lease,
        });
        let begun_from = accept.ports.clock.monotonic();
        let accepted_at = accept.ports.clock.now();
        let mut accepted = Err(Error::new(ErrorKind::Ambiguous, "the accept was cut off"));
        let accepting = async { accepted = accept.commits.accept(new.clone()).await };
        let tags = Tags {
            op_id: Some(new.op_id),
            keys: Some(&new.keys),
            trace: new.trace.as_deref(),
            ..Tags::default()
        };
        accept.within("accept", &tags, Box::pin(accepting)).await;
        let row = match accepted {
            Ok(Accepted::New {
                seq,
                state,
                accepted_at,
            }) => self.accept.row_of_new(&new, seq, *state, accepted_at),
            Ok(other) => {
                let accepted = Acceptance {
                    known: known(other)?,
                    replayed: true,
                    new: None,
                };
                return Ok((accepted, None));
            }
            Err(error) if error.kind() == ErrorKind::Ambiguous => {
                // The key table says whether the accept was committed; the row says whether this
                // process may call.
                self.read_back(&new).await?.ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        accept.count_for("orchestrator.accept.count", &new.keys);
        let row = Arc::new(row);
        let ours = new.begin.as_ref().map(|begin| begin.attempt_id);
        let granted = row.state.is_current(1) && row.state.attempt_id == ours && ours.is_some();
        let begun = room.filter(|_| granted).map(|room| {
            let envelope = envelope_of(&row, payload, None);
            let begun = Begun::new(envelope, row.clone(), begun_from, accepted_at);
            (begun, room)
        });
        let known = Known {
            op_id: new.op_id,
            status: row.state.status,
            pruned: false,
        };
        let accepted = Acceptance {
            known,
            replayed: false,
            new: Some(NewRow { row, waiter }),
        };
        Ok((accepted, begun))
    }

    /// Keeps trying: the commit may carry this process's begin, and giving up early would make it a
    /// lost attempt.
    async fn read_back(&self, new: &NewOperation) -> Result<Option<Operation>> {
        let ops = [new.op_id];
        let rows = self.accept.persist(self.accept.config.lease, || {
            self.accept.ports.inspect.get(&ops)
        });
        Ok(rows.await?.into_iter().next().flatten())
    }

    /// Whether the route is internal: only the application that declares it may submit and execute
    /// its operations. Code that takes commands from callers refuses such a command.
    pub fn is_internal(&self, domain: &Domain, event_type: &EventType) -> bool {
        self.accept.handlers.is_internal(domain, event_type)
    }

    /// Whether remote workers may lease operations of this event type from this process.
    pub fn is_remote(&self, domain: &Domain, event_type: &EventType) -> bool {
        let handler = self.accept.handlers.find(domain, event_type);
        handler.is_some_and(|handler| handler.executor.is_none() && !handler.internal)
    }

    /// The destinations that this process calls for the routes that `of` selects.
    pub fn destinations(&self, of: impl Fn(&Domain, &EventTypes) -> bool) -> BTreeSet<String> {
        self.accept.handlers.destinations(of)
    }

    /// Every route and the destination that this process calls for it.
    pub fn route_destinations(&self) -> Vec<(Domain, EventTypes, String)> {
        self.accept.handlers.route_destinations()
    }

    /// A destination may take calls earlier than it said: waiting work of this process is claimed
    /// at once.
    pub fn destination_opened(&self) {
        let wakes = &self.accept.wakes;
        wakes.wake(&[Runner::Worker, Runner::Prober]);
        wakes.due_news.tell(None);
    }

    /// Alerts an operator as the engine itself does: logs, counts, and calls the alert port. The
    /// message must hold no payload and no key.
    pub async fn alert(&self, code: &'static str, message: &str, op_id: Option<OpId>) {
        self.accept.alert(code, message, op_id).await;
    }

    /// Pauses a domain: no attempt begins; running ones settle. The store keeps who paused it, when
    /// and why.
    pub async fn pause(&self, domain: &Domain, by: &Actor, reason: &str) -> Result<()> {
        let pause = NewPause::new(by, reason);
        self.accept.ports.domains.pause(domain, &pause).await
    }

    /// Resumes a domain: attempts begin again.
    ///
    /// - Workers drop hints of a paused domain. When the domain is resumed, every operation that
    ///   was announced on a bus before or during the pause is announced again at once.
    pub async fn resume(&self, domain: &Domain) -> Result<()> {
        self.accept.ports.domains.resume(domain).await?;
        let (relay, domain) = (self.accept.relay.clone(), domain.clone());
        let announce = async move {
            // If this fails, the sweeper announces the operations after its grace.
            let _ = relay.announce_resumed(&domain).await;
        };
        self.accept.ports.spawner.spawn(Box::pin(announce));
        Ok(())
    }

    /// The trace that a new operation belongs to: the current trace of its submitter.
    pub(crate) fn trace(&self) -> Option<String> {
        self.accept.ports.tracer.context()
    }

    /// The operation that a command would become. For a store's `accept_in`: the caller's own
    /// transaction accepts it.
    pub fn new_operation(&self, command: Command) -> Result<NewOperation> {
        self.accept.prepare(command, self.trace())
    }

    /// The rules of every route, for a store's `accept_in`.
    pub fn routes(&self) -> &Routes {
        &self.accept.routes
    }
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
            let message = "the call of the redriven operation was applied";
            Err(Error::new(ErrorKind::Invalid, message))
        }
        Accepted::PredecessorDismissed => {
            let message = "the dead letter of the redriven operation is dismissed";
            Err(Error::new(ErrorKind::Invalid, message))
        }
        Accepted::New { .. } => Err(Error::new(
            ErrorKind::Internal,
            "a new operation was taken for a known one",
        )),
    }
}
