//! From an outcome to its commit. A provider's answer is never dropped.
//!
//! An answer is offered to the store until the store takes it. If the store does not take it within
//! `settle_patience`, whether it fails or does not answer, the answer goes to the spill file. Every
//! process reads its spill file when it starts and while it runs. If the spill file fails too, an
//! operator is alerted and the offers continue. In a stopping process the patience is shorter, and
//! it ends when the process exits.
//!
//! An offer that was given up may still be committed: a second Ok changes nothing, and a second
//! Fail is stale. A spilled Fail is also written to the dead-letter file, because that is where
//! operators look when the store is gone.

use std::sync::Arc;

use clinch_core::policy::SplitMix;
use clinch_core::ports::{
    Answer, AnswerBody, Changed, DeadLetter, Level, Operation, Refused, Reschedule, StoredOk, Tags,
};
use clinch_core::protocol::{Action, State};
use clinch_core::{
    Applied, ContentHash, Effect, Envelope, Error, ErrorKind, Failure, Keys, OpId, Outcome, Result,
    Retry, SPAWN_BYTES_MAX, SPAWN_MAX, Success, TXN_ID_BYTES_MAX, safe_code, shorten,
};

mod attempts;
mod dead_letter;
mod spill;

use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::base::{Base, PAUSE_MAX};
use crate::telemetry::{tags_of, tags_of_row};
use crate::waiters::Waiters;
use attempts::Attempts;
use spill::Spill;

/// Settles operations. It knows the callers that wait for an end, the attempts that run in this
/// process, and the answers that neither the store nor the spill file has yet.
pub(crate) struct Settler {
    base: Arc<Base>,
    pub waiters: Arc<Waiters>,
    pub attempts: Attempts,
    pub spill: Spill,
    unsaved_answers: UnsavedAnswers,
}

impl Deref for Settler {
    type Target = Base;
    fn deref(&self) -> &Base {
        &self.base
    }
}

/// Counts the answers that neither the store nor the spill file has yet.
#[derive(Default)]
struct UnsavedAnswers {
    count: AtomicUsize,
    /// Told when the count falls to zero.
    all_saved: Notify,
}

/// Counts one answer until it is dropped.
struct UnsavedAnswer<'a>(&'a UnsavedAnswers);

impl Drop for UnsavedAnswer<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.all_saved.notify_waiters();
        }
    }
}

/// Where an answer went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// To the store, and the operation is terminal.
    Settled,
    /// To the store. The operation is not terminal by this answer.
    Taken,
    /// To the spill file.
    Spilled,
}

impl Settler {
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self {
            base,
            waiters: Arc::default(),
            attempts: Attempts::default(),
            spill: Spill::default(),
            unsaved_answers: UnsavedAnswers::default(),
        }
    }

    /// Notes that a provider's answer has arrived: an exiting process waits for it.
    fn note_unsaved(&self) -> UnsavedAnswer<'_> {
        self.unsaved_answers.count.fetch_add(1, Ordering::SeqCst);
        UnsavedAnswer(&self.unsaved_answers)
    }

    /// Returns when the store or the spill file has every answer.
    pub(crate) async fn answers_saved(&self) {
        let unsaved = &self.unsaved_answers;
        loop {
            // Before the count is read, so that a fall to zero in between is not missed.
            let mut all_saved = pin!(unsaved.all_saved.notified());
            all_saved.as_mut().enable();
            if unsaved.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            all_saved.await;
        }
    }

    /// Settles an outcome. True: the operation is terminal now.
    pub(crate) async fn settle(&self, envelope: &Envelope, outcome: Outcome) -> bool {
        let keys = &envelope.command.keys;
        let is_answer = matches!(outcome, Outcome::Ok(_) | Outcome::Fail(_));
        let _unsaved = is_answer.then(|| self.note_unsaved());
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
            Outcome::Retry(mut retry) => {
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

    /// Delays this retry further while the destination gets too many retries.
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
        // An explicit delay is capped at `retry_after_max`, a planned one is not: never make the
        // retry earlier than planned.
        if !later.is_zero() && planned < rules.retry_after_max {
            retry.after = Some(planned.saturating_add(later));
        }
    }

    /// Offers the answer until the store or the spill file takes it.
    pub(crate) async fn settle_answer(&self, op_id: OpId, fence: u64, body: AnswerBody) -> Offered {
        let answer = Answer {
            op_id,
            fence: Some(fence),
            worker: self.config.worker.clone(),
            body,
            attempt_id: None,
        };
        let _unsaved = self.note_unsaved();
        self.attempts.settle(op_id, fence);
        let mut paged = false;
        let mut pause = self.config.settle_pause;
        tokio::select! {
            biased;
            offered = self.offer_until_taken(&answer) => return offered,
            () = self.patience_ends() => {}
        }
        loop {
            if self.spill(&answer).await.is_ok() {
                self.waiters.wake(op_id, || None);
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

    /// Returns when the store has had its time to take an answer.
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
            match self.commits.settle(answer.clone()).await {
                Ok(Ok(changed)) => {
                    self.follow(&Tags::of(op_id), &changed).await;
                    return if changed.state.is_terminal() {
                        Offered::Settled
                    } else {
                        Offered::Taken
                    };
                }
                Ok(Err(refused)) => {
                    // Stale or settled already: the ledger records the answer, and the row stays as
                    // it is.
                    self.waiters.wake(op_id, || None);
                    self.page_if_unknown(op_id, &refused).await;
                    return Offered::Taken;
                }
                Err(_) => {
                    self.waiters.wake(op_id, || None);
                    self.log_op(Level::Error, "the store did not take an answer", op_id);
                }
            }
            self.sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Alerts an operator about an answer for an operation that the store does not have, for
    /// example after an old backup was restored.
    pub(crate) async fn page_if_unknown(&self, op_id: OpId, refused: &Refused) {
        if *refused == Refused::NotFound {
            let message = "a provider answered for an operation that the store does not have";
            self.alert("answer_without_operation", message, Some(op_id))
                .await;
        }
    }

    /// Writes a retry. If it cannot be written, the attempt becomes a lost attempt, which claims
    /// less than the retry and is never wrong.
    async fn reschedule(&self, envelope: &Envelope, retry: Retry) -> bool {
        let attempt = Reschedule {
            op_id: envelope.op_id,
            fence: envelope.fence,
            worker: self.config.worker.clone(),
            retry,
            attempt_id: None,
        };
        let patience = self.config.settle_patience;
        let call = || self.commits.reschedule(attempt.clone());
        let written = self.persist(patience, call);
        let Ok(Ok(changed)) = written.await else {
            return false;
        };
        self.follow(&tags_of(envelope), &changed).await;
        changed.state.is_terminal()
    }

    /// The store says that the operation settled. While this process settles it, its waiters are
    /// woken by the result of that commit instead, which carries the final row.
    pub(crate) fn settled_notice(&self, op_id: OpId) {
        if !self.attempts.is_settling(op_id) {
            self.waiters.wake(op_id, || None);
        }
    }

    /// What this process does after every change that it made.
    pub(crate) async fn follow(&self, tags: &Tags<'_>, changed: &Changed) {
        let Some(op_id) = tags.op_id else { return };
        for action in &changed.effects {
            match action {
                Action::Settle => {
                    let end = || self.attempts.settled_row(op_id, changed);
                    self.waiters.wake(op_id, end);
                }
                Action::DeadLetter => {
                    let row = self.row_to_tell(tags, op_id).await;
                    let tags = row.as_deref().map_or(*tags, tags_of_row);
                    self.tell_dead_letter(changed.state.failure.as_ref(), &tags)
                        .await;
                }
                Action::AlertLateOk => {
                    let message = "a provider applied a call whose operation had FAILED";
                    self.alert("late_ok", message, Some(op_id)).await;
                }
                Action::TellAttempt => self.attempts.cancel(op_id),
                Action::Hold => {
                    let row = self.row_to_tell(tags, op_id).await;
                    self.tell_hold(&row.as_deref().map_or(*tags, tags_of_row), &changed.state);
                }
                Action::Call | Action::Record | Action::Wait => {}
            }
        }
    }

    /// The row for a line about its operation, unless the tags name its domain already.
    async fn row_to_tell(&self, tags: &Tags<'_>, op_id: OpId) -> Option<Arc<Operation>> {
        if tags.keys.is_some() || tags.domain.is_some() {
            return None;
        }
        match self.attempts.row(op_id) {
            Some(row) => Some(row),
            None => self.row(op_id).await.ok().map(Arc::new),
        }
    }

    /// Logs that an operation is held, and once more when only an operator can end it.
    fn tell_hold(&self, tags: &Tags<'_>, state: &State) {
        let Some(hold) = &state.hold else { return };
        let message = match (hold.probes, hold.probe_at) {
            (0, Some(_)) => "operation held: its effect is unknown",
            (_, None) => "operation held for an operator: its effect is unknown",
            _ => return,
        };
        let tags = Tags {
            code: Some(safe_code(&hold.failure.code).unwrap_or("effect_unknown")),
            until: hold.probe_at,
            ..*tags
        };
        self.log(Level::Warn, message, &tags);
    }

    /// Logs that a held operation is held no longer.
    pub(crate) fn tell_released(&self, tags: &Tags<'_>, by: &'static str) {
        let tags = Tags {
            code: Some(by),
            ..*tags
        };
        self.log(Level::Info, "operation released", &tags);
    }

    /// The Ok as it is stored, with the operations that it spawns. Alerts an operator about parts
    /// that are left out.
    pub(crate) async fn record(
        &self,
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

    /// The Ok as it is stored, and the parts that were left out of it with the reasons. The Ok is
    /// kept whatever else is wrong: a spawned command that cannot be accepted, or a result that
    /// cannot be sealed.
    pub(crate) fn stored_answer(
        &self,
        op_id: OpId,
        success: &Success,
        trace: Option<&str>,
    ) -> (StoredOk, Vec<(String, Error)>) {
        let mut problems = Vec::new();
        let mut stored = store_ok(&self.base, op_id, success).unwrap_or_else(|error| {
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
            // Spawned operations belong to the trace of their parent.
            match self.prepare(command.clone(), trace.map(str::to_owned)) {
                Ok(new) => stored.spawn.push(new),
                Err(error) => problems.push((format!("spawn[{number}]"), error)),
            }
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
}

fn stored_txn_id(success: &Success) -> Option<String> {
    let txn_id = success.provider_txn_id.clone();
    txn_id.map(|id| shorten(id, TXN_ID_BYTES_MAX))
}

/// The Ok as it is stored, without the operations that it spawns.
pub(crate) fn store_ok(base: &Base, op_id: OpId, success: &Success) -> Result<StoredOk> {
    let sealed = base.ports.sealer.seal(op_id, success.payload.as_bytes())?;
    Ok(StoredOk {
        provider_txn_id: stored_txn_id(success),
        result: Some(sealed),
        spawn: Vec::new(),
    })
}
