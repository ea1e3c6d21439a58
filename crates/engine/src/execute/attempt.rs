//! One attempt: call, keep the lease, settle.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{Amendment, Attempt, Extension, Level, Operation, Tags};
use clinch_core::protocol::Event;
use clinch_core::{
    Applied, Command, Envelope, Error, ErrorKind, Fail, IdemKey, Keys, OutboundKey, Outcome,
    Result, Retry, Timestamp, code,
};
use tokio::sync::OwnedSemaphorePermit;

use super::Reservation;
use crate::node::Node;
use crate::panics::caught;
use crate::telemetry::{name_of, tags_of};

/// An attempt that has begun and may call.
pub(crate) struct Begun {
    envelope: Envelope,
    /// Monotonic time from which on the lease runs, at the latest.
    from: Duration,
    accepted_at: Timestamp,
}

impl Begun {
    pub(crate) fn new(envelope: Envelope, from: Duration, accepted_at: Timestamp) -> Self {
        Self {
            envelope,
            from,
            accepted_at,
        }
    }

    pub(crate) fn into_envelope(self) -> Envelope {
        self.envelope
    }

    /// Runs in the background, in the room that was taken for it.
    pub(crate) fn spawn(self, node: &Arc<Node>, mut room: InlineRoom) {
        let background = node.clone();
        let task = async move {
            self.run(&background, room.reservation.take()).await;
            drop(room);
        };
        node.ports.spawner.spawn(Box::pin(task));
    }

    /// Calls, and settles what came of it. The lease is kept until both are done.
    pub(crate) async fn run(self, node: &Arc<Node>, reservation: Option<Reservation>) {
        let lease = node.config.lease;
        let running = Arc::new(Running {
            node: node.clone(),
            op_id: self.envelope.op_id,
            fence: self.envelope.fence,
            lease,
            believed_until: AtomicU64::new(millis(self.from.saturating_add(lease))),
            canceled: node.attempt_runs(self.envelope.op_id, self.envelope.fence),
            reservation: Mutex::new(reservation),
        });
        let work = async {
            tokio::select! {
                biased;
                () = self.work(node, &running) => {}
                () = running.keep_lease() => {}
            }
        };
        let tags = tags_of(&self.envelope);
        node.within("attempt", &tags, Box::pin(work)).await;
    }

    /// Execute, then settle, with what is told of both.
    async fn work(&self, node: &Arc<Node>, running: &Arc<Running>) {
        let (envelope, clock) = (&self.envelope, &node.ports.clock);
        let keys = &envelope.command.keys;
        let tags = tags_of(envelope);
        let started = clock.monotonic();
        let waited = started.saturating_sub(self.from);
        node.measure("orchestrator.pump.start.delay", keys, waited);
        node.log(Level::Info, "attempt started", &tags);
        let mut outcome = Outcome::Retry(Retry::unknown("the attempt was cut off"));
        let execute = async { outcome = call(node, envelope, running).await };
        node.within("execute", &tags, Box::pin(execute)).await;
        // Of an attempt that no guard let through, and of an executor without guards.
        running.admitted();
        let ended = clock.monotonic();
        let (name, retried) = (name_of(&outcome), is_retried(&outcome));
        // Settled before anything is told: a recorder that fails must not cost an answer.
        let mut settled = false;
        let settle = async { settled = node.settle(envelope, outcome).await };
        node.within("settle", &tags, Box::pin(settle)).await;
        let took = clock.monotonic().saturating_sub(ended);
        let latency = ended.saturating_sub(started);
        node.measure("orchestrator.execute.duration", keys, latency);
        node.measure("orchestrator.settle.duration", keys, took);
        let tags = Tags {
            latency: Some(latency),
            outcome: Some(name),
            ..tags
        };
        node.tell_outcome(keys, envelope.attempt, retried, &tags);
        if settled {
            let whole = clock.now().since(self.accepted_at);
            node.measure("orchestrator.end_to_end.duration", keys, whole);
        }
    }
}

/// What an attempt that begins with its accept takes first: a permit of this process and room at
/// its destination. Dropped, it wakes whoever waits for either.
pub(crate) struct InlineRoom {
    node: Arc<Node>,
    permit: Option<OwnedSemaphorePermit>,
    reservation: Option<Reservation>,
}

impl InlineRoom {
    pub(crate) fn new(
        node: Arc<Node>,
        permit: OwnedSemaphorePermit,
        reservation: Reservation,
    ) -> Self {
        Self {
            node,
            permit: Some(permit),
            reservation: Some(reservation),
        }
    }
}

impl Drop for InlineRoom {
    fn drop(&mut self) {
        self.permit = None;
        self.reservation = None;
        self.node.call_ended();
    }
}

fn is_retried(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Retry(retry) if retry.applied != Applied::NotCalled)
}

impl Node {
    /// The levels of RUN-10: a retry is a warning, and so is what comes close to a limit.
    pub(super) fn tell_outcome(&self, keys: &Keys, attempt: u32, retried: bool, tags: &Tags<'_>) {
        let handler = self.handlers.find(&keys.domain, &keys.event_type);
        let level = if retried { Level::Warn } else { Level::Info };
        self.log(level, "attempt ended", tags);
        let slow = handler.and_then(|handler| handler.slow);
        if slow.is_some_and(|slow| tags.latency >= Some(slow)) {
            self.log(Level::Warn, "the call came close to its timeout", tags);
        }
        let last = handler.map(|handler| handler.rules.retry.max_attempts.saturating_sub(1));
        if retried && last == Some(attempt) {
            self.log(Level::Warn, "one attempt is left", tags);
        }
    }
}

impl Node {
    /// Opens the row's payload for the executor. One that does not open was not what was
    /// accepted: it fails, and is never sent.
    pub(crate) async fn open(&self, operation: Operation, from: Duration) -> Option<Begun> {
        let opened = self.envelope(&operation);
        let (op_id, fence) = (operation.op_id, operation.state.fence);
        match opened {
            Ok(envelope) => Some(Begun::new(envelope, from, operation.accepted_at)),
            Err(_) => {
                let fail = Fail::new(code::INTEGRITY, "the stored payload cannot be opened");
                self.settle_answer(op_id, fence, clinch_core::ports::AnswerBody::Fail(fail))
                    .await;
                None
            }
        }
    }

    /// What an executor or a probe sees of a row.
    pub(crate) fn envelope(&self, operation: &Operation) -> Result<Envelope> {
        let sealer = &self.ports.sealer;
        let op_id = operation.op_id;
        let checkpoint = operation.checkpoint.as_ref();
        let checkpoint = checkpoint.map(|sealed| sealer.open(op_id, sealed));
        Ok(Envelope {
            op_id,
            command: Command {
                keys: operation.keys.clone(),
                payload: sealer.open_payload(op_id, &operation.payload)?,
                options: operation.options.clone(),
            },
            seq: operation.seq,
            attempt: operation.state.attempts,
            fence: operation.state.fence,
            outbound_key: self.sent_key(operation),
            deadline: operation.state.deadline,
            checkpoint: checkpoint.transpose()?,
            trace: operation.trace.clone(),
        })
    }
}

impl Node {
    /// The key of the row: the same for every attempt.
    fn sent_key(&self, operation: &Operation) -> OutboundKey {
        if planted!(FreshOutboundKey) {
            let mut keys = operation.keys.clone();
            keys.idem_key =
                IdemKey::new(operation.state.fence.to_string()).unwrap_or(keys.idem_key);
            return keys.outbound_key();
        }
        operation.outbound_key.clone()
    }
}

async fn call(node: &Arc<Node>, envelope: &Envelope, running: &Arc<Running>) -> Outcome {
    let keys = &envelope.command.keys;
    let handler = node.handlers.find(&keys.domain, &keys.event_type);
    let Some(executor) = handler.and_then(|handler| handler.executor.as_ref()) else {
        return Outcome::Retry(Retry::not_called("no executor is registered here"));
    };
    if node.is_stopping() {
        let given_back = Retry::not_called("the worker is shutting down");
        return Outcome::Retry(given_back.after(Duration::ZERO));
    }
    if !running.holds_lease() {
        return Outcome::Retry(Retry::not_called("the lease ended before the call"));
    }
    let attempt: Arc<dyn Attempt> = running.clone();
    let call = executor.execute(envelope, &attempt);
    let panicked = |_| {
        node.log(Level::Error, "the handler panicked", &tags_of(envelope));
        Outcome::Retry(if planted!(PanicMeansNotCalled) {
            Retry::not_called("the handler panicked")
        } else {
            Retry::unknown("the handler panicked")
        })
    };
    caught(call).await.unwrap_or_else(panicked)
}

/// What the executor holds while it runs.
struct Running {
    node: Arc<Node>,
    op_id: clinch_core::OpId,
    fence: u64,
    lease: Duration,
    /// Milliseconds on the monotonic clock.
    believed_until: AtomicU64,
    canceled: Arc<AtomicBool>,
    /// Until the guards count the call.
    reservation: Mutex<Option<Reservation>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.node.attempt_ended(self.op_id, &self.canceled);
    }
}

impl Running {
    /// Extends the lease three times within its length, for as long as it is polled. An
    /// attempt that is no longer current stops believing in its lease and goes on: its
    /// answer still counts.
    async fn keep_lease(&self) {
        loop {
            self.node.sleep(self.lease / 3).await;
            let from = self.node.ports.clock.monotonic();
            let extension = Extension {
                op_id: self.op_id,
                fence: self.fence,
                lease: self.lease,
                attempt_id: None,
            };
            match self.node.groups.extend.call(extension).await {
                Ok(Ok(changed)) => {
                    let until = millis(from.saturating_add(self.lease));
                    self.believed_until.fetch_max(until, Ordering::SeqCst);
                    self.canceled
                        .fetch_or(changed.state.cancel_requested, Ordering::SeqCst);
                    self.node
                        .count("orchestrator.visibility.extended.count", None, 1);
                }
                Ok(Err(_)) => self.believed_until.store(0, Ordering::SeqCst),
                // The store does not answer: the belief runs out by itself.
                Err(_) => {}
            }
        }
    }
}

#[async_trait]
impl Attempt for Running {
    fn holds_lease(&self) -> bool {
        if planted!(NoLeaseCheck) {
            return true;
        }
        millis(self.node.ports.clock.monotonic()) < self.believed_until.load(Ordering::SeqCst)
    }

    fn is_canceled(&self) -> bool {
        self.canceled.load(Ordering::SeqCst)
    }

    fn admitted(&self) {
        let mut reservation = self
            .reservation
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        drop(reservation.take());
    }

    async fn checkpoint(&self, bytes: &[u8]) -> Result<()> {
        let max = self.node.config.checkpoint_bytes_max;
        if bytes.len() > max {
            let message = format!("a checkpoint holds at most {max} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let amendment = Amendment {
            op_id: self.op_id,
            event: Event::Checkpoint { fence: self.fence },
            ok: None,
            checkpoint: Some(self.node.ports.sealer.seal(self.op_id, bytes)?),
            by: self.node.config.worker.clone(),
            reason: String::new(),
            attempt_id: None,
        };
        let kept = self.node.groups.amend.call(amendment).await?;
        kept.map_err(|refused| Error::new(ErrorKind::Conflict, refused.to_string()))?;
        Ok(())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
