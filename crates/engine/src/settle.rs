//! From an outcome to its commit. A provider's answer is never dropped.
//!
//! An answer is offered to the store until it takes it. If it does not within the patience,
//! whether it fails or does not come back, the answer goes to the spill file, which every
//! process reads again while it runs and when it starts. If that fails too, someone is paged
//! and the offers go on. The patience is shorter in a process that stops, and ends when it
//! exits. An offer that was given up may still be taken: a second yes is a no-op, and a second
//! refusal is stale. A refusal is told to the dead-letter file as well: it is what people look
//! for when the store is gone.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::SplitMix;
use clinch_core::ports::{
    Answer, AnswerBody, Changed, DeadLetter, Level, Refused, Reschedule, StoredOk,
};
use clinch_core::protocol::Action;
use clinch_core::{
    Applied, ContentHash, Effect, Envelope, Error, ErrorKind, Failure, Keys, OpId, Outcome, Result,
    Retry, SPAWN_BYTES_MAX, SPAWN_MAX, Success, TXN_ID_BYTES_MAX, shorten,
};

use crate::Orchestrator;
use crate::node::Node;

/// No pause between offers is longer.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Where an answer went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// To the store, and the operation is terminal.
    Settled,
    /// To the store, which knows what to make of it.
    Taken,
    /// To the spill file.
    Spilled,
}

impl Node {
    /// True: the operation is terminal now.
    pub(crate) async fn settle(self: &Arc<Self>, envelope: &Envelope, outcome: Outcome) -> bool {
        let keys = &envelope.command.keys;
        let is_answer = matches!(outcome, Outcome::Ok(_) | Outcome::Fail(_));
        let _in_hand = is_answer.then(|| self.take_in_hand());
        match outcome {
            Outcome::Ok(success) => {
                self.count_for("orchestrator.pump.outcome.ok.count", keys);
                let trace = envelope.trace.as_deref();
                let body = AnswerBody::Ok(self.record(envelope.op_id, &success, trace).await);
                let settled = self.settle_answer(envelope.op_id, envelope.fence, body);
                settled.await == Offered::Settled
            }
            Outcome::Fail(fail) => {
                self.count_for("orchestrator.pump.outcome.fail.count", keys);
                let body = AnswerBody::Fail(fail.clone());
                let offered = self
                    .settle_answer(envelope.op_id, envelope.fence, body)
                    .await;
                if offered == Offered::Spilled {
                    // An earlier attempt may have been applied.
                    let first = envelope.attempt <= 1;
                    let effect = if first { Effect::None } else { Effect::Unknown };
                    let failure = Failure::from_fail(fail, effect);
                    self.keep_dead_letter(envelope, failure).await;
                }
                offered == Offered::Settled
            }
            Outcome::Retry(retry)
                if planted!(UnknownMeansFailed) && retry.applied == Applied::Unknown =>
            {
                let body = AnswerBody::Fail(clinch_core::Fail::new("timeout", retry.reason));
                let settled = self.settle_answer(envelope.op_id, envelope.fence, body);
                settled.await == Offered::Settled
            }
            Outcome::Retry(mut retry) => {
                if planted!(UnknownMeansNotApplied) {
                    retry.applied = Applied::No;
                }
                if retry.applied != Applied::NotCalled {
                    self.count_for("orchestrator.pump.outcome.retry.count", keys);
                    let Envelope {
                        op_id,
                        attempt,
                        fence,
                        ..
                    } = *envelope;
                    self.slow_down(op_id, keys, attempt, fence, &mut retry);
                }
                self.reschedule(envelope, retry).await
            }
        }
    }

    /// In a storm of retries this one is made later than planned.
    pub(crate) fn slow_down(
        &self,
        op_id: OpId,
        keys: &Keys,
        attempt: u32,
        fence: u64,
        retry: &mut Retry,
    ) {
        let Some(handler) = self.handlers.find(&keys.domain, &keys.event_type) else {
            return;
        };
        let rules = &handler.rules.retry;
        if attempt >= rules.max_attempts {
            return;
        }
        let later = handler.gate.retry_delay();
        let (high, low) = op_id.0.as_u64_pair();
        let mut jitter = SplitMix::new(high ^ low ^ fence);
        let planned = rules.delay(attempt, retry.after, &mut jitter);
        // What is named is capped, what is planned is not: never make it earlier.
        if !later.is_zero() && planned < rules.retry_after_max {
            retry.after = Some(planned.saturating_add(later));
        }
    }

    /// Offers until the store takes it, or the spill file does.
    pub(crate) async fn settle_answer(&self, op_id: OpId, fence: u64, body: AnswerBody) -> Offered {
        let answer = Answer {
            op_id,
            fence: Some(fence),
            worker: self.config.worker.clone(),
            body,
            attempt_id: None,
        };
        let _in_hand = self.take_in_hand();
        let mut paged = false;
        let mut pause = self.config.settle_pause;
        tokio::select! {
            biased;
            offered = self.offer_until_taken(&answer) => return offered,
            () = self.patience_ends() => {}
        }
        loop {
            if self.spill(&answer).await.is_ok() {
                return Offered::Spilled;
            }
            if !std::mem::replace(&mut paged, true) {
                let message = "an answer can be stored nowhere: store and spill file both fail";
                self.alert("answer_at_risk", message, Some(op_id)).await;
            }
            tokio::select! {
                biased;
                offered = self.offer_until_taken(&answer) => return offered,
                () = self.sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The store has had its time to take an answer.
    async fn patience_ends(&self) {
        let patience = self.config.settle_patience;
        let stopping = async {
            self.stop_told().await;
            self.sleep(patience.min(self.config.shutdown_grace / 4))
                .await;
        };
        tokio::select! {
            biased;
            () = self.close_told() => {}
            () = stopping => {}
            () = self.sleep(patience) => {}
        }
    }

    async fn offer_until_taken(&self, answer: &Answer) -> Offered {
        let op_id = answer.op_id;
        let mut pause = self.config.settle_pause;
        loop {
            match self.groups.settle.call(answer.clone()).await {
                Ok(Ok(changed)) => {
                    self.follow(op_id, &changed).await;
                    return if changed.state.is_terminal() {
                        Offered::Settled
                    } else {
                        Offered::Taken
                    };
                }
                Ok(Err(refused)) => {
                    // Stale or settled already: the ledger has it, the row knows better.
                    self.page_if_unknown(op_id, &refused).await;
                    return Offered::Taken;
                }
                Err(_) if planted!(AnswerDropped) => return Offered::Taken,
                Err(_) => self.log_op(Level::Error, "the store did not take an answer", op_id),
            }
            self.sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// An answer for an operation that the store does not have, such as after a restore of an
    /// old backup: a person must look.
    pub(crate) async fn page_if_unknown(&self, op_id: OpId, refused: &Refused) {
        if *refused == Refused::NotFound {
            let message = "a provider answered for an operation that the store does not have";
            self.alert("answer_without_operation", message, Some(op_id))
                .await;
        }
    }

    /// A retry that cannot be written becomes a lost attempt, which says less and never
    /// more than the truth.
    async fn reschedule(&self, envelope: &Envelope, retry: Retry) -> bool {
        let attempt = Reschedule {
            op_id: envelope.op_id,
            fence: envelope.fence,
            worker: self.config.worker.clone(),
            retry,
            attempt_id: None,
        };
        let patience = self.config.settle_patience;
        let call = || self.groups.reschedule.call(attempt.clone());
        let written = self.persist(patience, call);
        let Ok(Ok(changed)) = written.await else {
            return false;
        };
        self.follow(envelope.op_id, &changed).await;
        changed.state.is_terminal()
    }

    /// What this process does after any change it made.
    pub(crate) async fn follow(&self, op_id: OpId, changed: &Changed) {
        for action in &changed.effects {
            match action {
                Action::Settle => self.waiters.wake(op_id),
                Action::DeadLetter => {
                    self.count("orchestrator.dlq.count", None, 1);
                    self.log_op(Level::Error, "dead letter", op_id);
                }
                Action::AlertLateOk => {
                    let message = "a provider applied a call whose operation had FAILED";
                    self.alert("late_ok", message, Some(op_id)).await;
                }
                Action::TellAttempt => self.tell_attempt(op_id),
                Action::Call | Action::Record | Action::Wait | Action::Hold => {}
            }
        }
    }

    /// The answer as it is stored, with what it spawns. Someone is paged about what is left
    /// out.
    pub(crate) async fn record(
        self: &Arc<Self>,
        op_id: OpId,
        success: &Success,
        trace: Option<&str>,
    ) -> StoredOk {
        let (stored, problems) = self.stored_answer(op_id, success, trace);
        for (_, problem) in problems {
            let message = format!("a part of an answer was left out: {problem}");
            self.alert("answer_incomplete", &message, Some(op_id)).await;
        }
        stored
    }

    /// The answer as it is stored, and what was left out of it and why. The yes is kept whatever
    /// else is wrong with it: a spawned command that cannot be accepted, or a result that cannot
    /// be sealed.
    pub(crate) fn stored_answer(
        self: &Arc<Self>,
        op_id: OpId,
        success: &Success,
        trace: Option<&str>,
    ) -> (StoredOk, Vec<(String, Error)>) {
        let mut problems = Vec::new();
        let orchestrator = Orchestrator { node: self.clone() };
        let mut stored = store_ok(self, op_id, success).unwrap_or_else(|error| {
            problems.push(("payload".to_owned(), error));
            StoredOk {
                provider_txn_id: stored_txn_id(success),
                ..StoredOk::default()
            }
        });
        let mut bytes = 0;
        for (number, command) in success.spawn.iter().enumerate() {
            bytes += command.payload.as_bytes().len();
            if number >= SPAWN_MAX || bytes > SPAWN_BYTES_MAX {
                let message = format!(
                    "an answer spawns at most {SPAWN_MAX} operations of {SPAWN_BYTES_MAX} bytes in all"
                );
                let error = Error::new(ErrorKind::Invalid, message);
                problems.push((format!("spawn[{number}..]"), error));
                break;
            }
            // What it spawns belongs to its trace.
            match orchestrator.prepare(command.clone(), trace.map(str::to_owned)) {
                Ok(new) => stored.spawn.push(new),
                Err(error) => problems.push((format!("spawn[{number}]"), error)),
            }
        }
        if planted!(SpawnForgotten) {
            stored.spawn.clear();
        }
        (stored, problems)
    }

    async fn keep_dead_letter(&self, envelope: &Envelope, failure: Failure) {
        let keys = &envelope.command.keys;
        let op_id = envelope.op_id;
        let plain = envelope.command.payload.as_bytes();
        let Ok(payload) = self.ports.sealer.seal(op_id, plain) else {
            return;
        };
        let letter = DeadLetter {
            op_id,
            keys: keys.clone(),
            failure,
            attempts: envelope.attempt,
            content_hash: ContentHash::of(&op_id, &keys.event_type, payload.as_bytes()),
            payload,
            failed_at: self.ports.clock.now(),
            late_ok: false,
        };
        self.file_dead_letter(&letter).await;
    }

    /// Tries again with growing pauses while trying again can help, within the patience.
    pub(crate) async fn persist<T, F>(
        &self,
        patience: Duration,
        mut call: impl FnMut() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut pause = self.config.settle_pause;
        let give_up_at = self.ports.clock.monotonic().saturating_add(patience);
        loop {
            match call().await {
                Ok(done) => return Ok(done),
                Err(error) if !may_help(&error) => return Err(error),
                Err(error) if self.ports.clock.monotonic() >= give_up_at => return Err(error),
                Err(_) => self.sleep(pause).await,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Every write of an attempt carries its fence, so repeating one whose end is unclear is
/// safe: the second is refused as stale or settled.
pub(crate) fn may_help(error: &Error) -> bool {
    error.is_retryable() || error.kind() == ErrorKind::Ambiguous
}

fn stored_txn_id(success: &Success) -> Option<String> {
    let txn_id = success.provider_txn_id.clone();
    txn_id.map(|id| shorten(id, TXN_ID_BYTES_MAX))
}

/// The answer as it is stored, without what it spawns.
pub(crate) fn store_ok(node: &Node, op_id: OpId, success: &Success) -> Result<StoredOk> {
    let sealed = node.ports.sealer.seal(op_id, success.payload.as_bytes())?;
    Ok(StoredOk {
        provider_txn_id: stored_txn_id(success),
        result: Some(sealed),
        spawn: Vec::new(),
    })
}
