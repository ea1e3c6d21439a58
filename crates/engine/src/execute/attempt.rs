//! One attempt: call the provider, keep the lease, settle.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{
    Amendment, Attempt, Extension, Level, NewOperation, Operation, StageEnd, Tags,
};
use clinch_core::protocol::Event;
use clinch_core::{
    Applied, Envelope, Error, ErrorKind, Fail, Keys, Outcome, Result, Retry, Timestamp, code,
};
use tokio::sync::OwnedSemaphorePermit;

use super::Reservation;
use super::Workers;
use crate::panics::caught;
use crate::telemetry::{ends_as, name_of, tags_of};

/// An attempt that has begun: its call may be made.
pub(crate) struct Begun {
    envelope: Envelope,
    /// As the begin left it.
    row: Arc<Operation>,
    /// Monotonic time before the begin was requested. The lease started no earlier.
    from: Duration,
    accepted_at: Timestamp,
}

impl Begun {
    pub(crate) fn new(
        envelope: Envelope,
        row: Arc<Operation>,
        from: Duration,
        accepted_at: Timestamp,
    ) -> Self {
        Self {
            envelope,
            row,
            from,
            accepted_at,
        }
    }

    pub(crate) fn into_envelope(self) -> Envelope {
        self.envelope
    }

    /// Runs in the background, with the permit and the reservation that were taken for it.
    pub(crate) fn spawn(self, workers: &Arc<Workers>, mut room: InlineRoom) {
        let background = workers.clone();
        let task = async move {
            self.run(&background, room.reservation.take()).await;
            drop(room);
        };
        workers.ports.spawner.spawn(Box::pin(task));
    }

    /// Makes the call and settles its outcome. The lease is extended until both are done.
    pub(crate) async fn run(self, workers: &Arc<Workers>, reservation: Option<Reservation>) {
        let lease = workers.config.lease;
        let running = Arc::new(Running {
            workers: workers.clone(),
            op_id: self.envelope.op_id,
            fence: self.envelope.fence,
            lease,
            believed_until: AtomicU64::new(millis(self.from.saturating_add(lease))),
            canceled: workers.attempts.begin(self.row.clone()),
            reservation: Mutex::new(reservation),
        });
        let end = Arc::<StageEnd>::default();
        let work = async {
            tokio::select! {
                biased;
                () = self.work(workers, &running, &end) => {}
                () = running.keep_lease() => {}
            }
        };
        let tags = Tags {
            end: Some(&end),
            ..self.tags(workers)
        };
        workers.within("attempt", &tags, Box::pin(work)).await;
    }

    fn tags<'a>(&'a self, workers: &'a Workers) -> Tags<'a> {
        Tags {
            destination: workers.destination_name(&self.envelope.command.keys),
            ..tags_of(&self.envelope)
        }
    }

    /// Executes and settles, and records metrics and log lines for both.
    async fn work(&self, workers: &Arc<Workers>, running: &Arc<Running>, end: &Arc<StageEnd>) {
        let (envelope, clock) = (&self.envelope, &workers.ports.clock);
        let keys = &envelope.command.keys;
        let tags = Tags {
            end: Some(end),
            ..self.tags(workers)
        };
        let started = clock.monotonic();
        let waited = started.saturating_sub(self.from);
        workers.measure("orchestrator.pump.start.delay", keys, waited);
        workers.log(Level::Info, "attempt started", &tags);
        let mut outcome = Outcome::Retry(Retry::unknown("the attempt was cut off"));
        let execute = async {
            outcome = call(workers, envelope, running).await;
            ends_as(end, &outcome);
        };
        workers.within("execute", &tags, Box::pin(execute)).await;
        // Ends the reservation if no guard did: none let the call through, or the executor has no
        // guards.
        running.admitted();
        let ended = clock.monotonic();
        let (name, retried) = (name_of(&outcome), is_retried(&outcome));
        let until = retry_at(&outcome, clock.now());
        // Settle before recording metrics: a failing recorder must not cost an answer.
        let mut settled = false;
        let settle = async { settled = workers.settle(envelope, outcome).await };
        workers.within("settle", &tags, Box::pin(settle)).await;
        let took = clock.monotonic().saturating_sub(ended);
        let latency = ended.saturating_sub(started);
        workers.measure("orchestrator.execute.duration", keys, latency);
        workers.measure("orchestrator.settle.duration", keys, took);
        let tags = Tags {
            latency: Some(latency),
            outcome: Some(name),
            code: end.code(),
            until,
            ..tags
        };
        workers.tell_outcome(keys, envelope.attempt, retried, &tags);
        if settled {
            let whole = clock.now().since(self.accepted_at);
            workers.measure("orchestrator.end_to_end.duration", keys, whole);
        }
    }
}

/// Taken before an accept begins an attempt: a permit of this process and a reservation at the
/// destination. Dropping it wakes the runners that wait for either.
pub(crate) struct InlineRoom {
    workers: Arc<Workers>,
    permit: Option<OwnedSemaphorePermit>,
    reservation: Option<Reservation>,
}

impl InlineRoom {
    pub(crate) fn new(
        workers: Arc<Workers>,
        permit: OwnedSemaphorePermit,
        reservation: Reservation,
    ) -> Self {
        Self {
            workers,
            permit: Some(permit),
            reservation: Some(reservation),
        }
    }
}

impl Drop for InlineRoom {
    fn drop(&mut self) {
        self.permit = None;
        self.reservation = None;
        self.workers.wakes.call_ended();
    }
}

impl Workers {
    /// A permit and a reservation for the operation's first attempt, if this process runs it and it
    /// is due now. Taken before the begin: without room, the operation is queued.
    pub(crate) fn inline_room(self: &Arc<Self>, new: &NewOperation) -> Option<InlineRoom> {
        let destination = self.destination_for(&new.keys.domain, &new.keys.event_type)?;
        if self.is_stopping() || new.options.run_at.is_some() {
            return None;
        }
        let permit = self.inline_permits.clone().try_acquire_owned().ok()?;
        let reservation = destination.reserve(1, self.ports.clock.monotonic()).pop()?;
        Some(InlineRoom::new(self.clone(), permit, reservation))
    }
}

/// When the provider or a guard wants the next attempt, if either said so.
pub(super) fn retry_at(outcome: &Outcome, now: Timestamp) -> Option<Timestamp> {
    match outcome {
        Outcome::Retry(retry) => retry
            .after
            .filter(|after| !after.is_zero())
            .map(|after| now + after),
        Outcome::Ok(_) | Outcome::Fail(_) => None,
    }
}

fn is_retried(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Retry(retry) if retry.applied != Applied::NotCalled)
}

impl Workers {
    /// The log levels of RUN-10: a retry is a warning, and so is an attempt close to a limit.
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

impl Workers {
    /// Opens the row's payload for the executor. A payload that does not open is not the payload
    /// that was accepted: the operation fails, and nothing is sent.
    pub(crate) async fn open(&self, operation: Operation, from: Duration) -> Option<Begun> {
        let opened = self.envelope(&operation);
        let (op_id, fence) = (operation.op_id, operation.state.fence);
        let accepted_at = operation.accepted_at;
        match opened {
            Ok(envelope) => Some(Begun::new(envelope, Arc::new(operation), from, accepted_at)),
            Err(_) => {
                let fail = Fail::new(code::INTEGRITY, "the stored payload cannot be opened");
                self.settle_answer(op_id, fence, clinch_core::ports::AnswerBody::Fail(fail))
                    .await;
                None
            }
        }
    }
}

async fn call(workers: &Arc<Workers>, envelope: &Envelope, running: &Arc<Running>) -> Outcome {
    let keys = &envelope.command.keys;
    let handler = workers.handlers.find(&keys.domain, &keys.event_type);
    let Some(executor) = handler.and_then(|handler| handler.executor.as_ref()) else {
        return Outcome::Retry(Retry::not_called("no executor is registered here"));
    };
    if workers.is_stopping() {
        let given_back = Retry::not_called("the worker is shutting down");
        return Outcome::Retry(given_back.after(Duration::ZERO));
    }
    if let Some(reason) = running.refusal() {
        return Outcome::Retry(Retry::not_called(reason));
    }
    let attempt: Arc<dyn Attempt> = running.clone();
    let call = executor.execute(envelope, &attempt);
    let panicked = |_| {
        workers.log(Level::Error, "the handler panicked", &tags_of(envelope));
        Outcome::Retry(Retry::unknown("the handler panicked"))
    };
    caught(call).await.unwrap_or_else(panicked)
}

/// The attempt as its executor sees it while it runs.
struct Running {
    workers: Arc<Workers>,
    op_id: clinch_core::OpId,
    fence: u64,
    lease: Duration,
    /// The lease lasts at least until then, as far as this process knows. Milliseconds on the
    /// monotonic clock.
    believed_until: AtomicU64,
    canceled: Arc<AtomicBool>,
    /// Held until the guards count the call.
    reservation: Mutex<Option<Reservation>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.workers.attempts.end(self.op_id, &self.canceled);
    }
}

impl Running {
    /// Extends the lease three times within its length, for as long as this future is polled. If
    /// the attempt is no longer current, it treats its lease as ended and continues: its answer
    /// still counts.
    async fn keep_lease(&self) {
        loop {
            self.workers.sleep(self.lease / 3).await;
            let from = self.workers.ports.clock.monotonic();
            let extension = Extension {
                op_id: self.op_id,
                fence: self.fence,
                lease: self.lease,
                attempt_id: None,
            };
            match self.workers.commits.extend(extension).await {
                Ok(Ok(changed)) => {
                    let until = millis(from.saturating_add(self.lease));
                    self.believed_until.fetch_max(until, Ordering::SeqCst);
                    self.canceled
                        .fetch_or(changed.state.cancel_requested, Ordering::SeqCst);
                    self.workers
                        .count("orchestrator.visibility.extended.count", None, 1);
                }
                Ok(Err(_)) => self.believed_until.store(0, Ordering::SeqCst),
                // The store does not answer: the lease ends by itself at `believed_until`.
                Err(_) => {}
            }
        }
    }
}

#[async_trait]
impl Attempt for Running {
    fn holds_lease(&self) -> bool {
        millis(self.workers.ports.clock.monotonic()) < self.believed_until.load(Ordering::SeqCst)
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
        let max = self.workers.config.checkpoint_bytes_max;
        if bytes.len() > max {
            let message = format!("a checkpoint holds at most {max} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let amendment = Amendment {
            op_id: self.op_id,
            event: Event::Checkpoint { fence: self.fence },
            ok: None,
            checkpoint: Some(self.workers.ports.sealer.seal(self.op_id, bytes)?),
            by: self.workers.config.worker.clone(),
            reason: String::new(),
            attempt_id: None,
        };
        let kept = self.workers.commits.amend(amendment).await?;
        kept.map_err(|refused| Error::new(ErrorKind::Conflict, refused.to_string()))?;
        Ok(())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
