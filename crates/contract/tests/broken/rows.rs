//! Flaws in how rows change.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use clinch_contract::Fault;
use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, Amendment, Answer, AnswerBody, Clock, Extension, Inspect, NewOperation, Refused,
    Reschedule,
};
use clinch_core::protocol::{IllegalTransition, State, Status, Why, WriteAhead};
use clinch_core::{Applied, Effect, Error, ErrorKind, Failure, Result};
use clinch_memory::Memory;

use crate::flaw::{Changes, Flaw, Real};
use clinch_contract::Calls;

/// Every write counts, whoever brings it.
#[derive(Default)]
pub(crate) struct ForgetsTheFence;

#[async_trait]
impl Flaw for ForgetsTheFence {
    async fn extend(&self, real: &Real, extensions: &[Extension]) -> Changes {
        let mut extensions = extensions.to_vec();
        for extension in &mut extensions {
            extension.fence = real.fence(extension.op_id);
        }
        Calls::extend(&real.memory, &extensions).await
    }
    async fn reschedule(&self, real: &Real, ended: &[Reschedule], routes: &Routes) -> Changes {
        let mut ended = ended.to_vec();
        for attempt in &mut ended {
            attempt.fence = real.fence(attempt.op_id);
        }
        real.memory.reschedule(&ended, routes).await
    }
}

/// The fence alone is looked at: who guesses it is heard.
#[derive(Default)]
pub(crate) struct HearsAnyAttempt;

#[async_trait]
impl Flaw for HearsAnyAttempt {
    async fn settle(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        let mut answers = answers.to_vec();
        for answer in &mut answers {
            answer.attempt_id = None;
        }
        real.memory.settle(&answers, routes).await
    }
}

/// The recorded outcome is in a cache: a crash loses it.
#[derive(Default)]
pub(crate) struct RecordsInAMemoryOnly;

impl Flaw for RecordsInAMemoryOnly {
    fn crash(&self, real: &Real) -> Memory {
        let memory = real.memory.crash();
        memory.edit(|tables| {
            let rows: Vec<_> = tables.rows.iter().map(|(_, row)| row.clone()).collect();
            for mut row in rows {
                let state = &mut row.operation.state;
                if matches!(state.write_ahead, WriteAhead::Pending { .. }) {
                    state.write_ahead = WriteAhead::Empty;
                    state.failure = None;
                    row.operation.result = None;
                    row.spawn.clear();
                    tables.put(row);
                }
            }
        });
        memory
    }
}

/// Final at once, without a record in between.
#[derive(Default)]
pub(crate) struct FinalizesAtWriteAhead;

#[async_trait]
impl Flaw for FinalizesAtWriteAhead {
    async fn write_ahead(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        real.memory.settle(answers, routes).await
    }
}

/// A later Fail overrides an earlier Ok.
#[derive(Default)]
pub(crate) struct AllowsCompletedToFailed;

#[async_trait]
impl Flaw for AllowsCompletedToFailed {
    async fn settle(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        for answer in answers {
            if let AnswerBody::Fail(fail) = &answer.body {
                real.edit(answer.op_id, |row| {
                    let state = &mut row.operation.state;
                    if state.status == Status::Completed {
                        state.status = Status::Failed;
                        state.failure = Some(Failure::from_fail(fail.clone(), Effect::None));
                    }
                });
            }
        }
        real.memory.settle(answers, routes).await
    }
}

/// An answer of an attempt that is not current is thrown away, a yes too.
#[derive(Default)]
pub(crate) struct DropsALateOk;

impl DropsALateOk {
    fn is_late(real: &Real, answer: &Answer) -> bool {
        let state = real.row(answer.op_id).map(|row| row.operation.state);
        let current = |state: State| answer.fence.is_some_and(|fence| state.is_current(fence));
        matches!(answer.body, AnswerBody::Ok(_)) && !state.is_some_and(current)
    }

    async fn send(&self, real: &Real, answers: &[Answer], routes: &Routes, fin: bool) -> Changes {
        let mut results = Vec::new();
        for answer in answers {
            if Self::is_late(real, answer) {
                results.push(Err(Refused::Illegal(IllegalTransition {
                    event: "Ok",
                    why: Why::StaleFence,
                    ledger: true,
                })));
                continue;
            }
            let one = std::slice::from_ref(answer);
            results.extend(match fin {
                true => real.memory.settle(one, routes).await?,
                false => real.memory.write_ahead(one, routes).await?,
            });
        }
        Ok(results)
    }
}

#[async_trait]
impl Flaw for DropsALateOk {
    async fn write_ahead(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        self.send(real, answers, routes, false).await
    }
    async fn settle(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        self.send(real, answers, routes, true).await
    }
}

/// Looks whether the keys are known, and then inserts.
#[derive(Default)]
pub(crate) struct AcceptsTwiceUnderARace;

#[async_trait]
impl Flaw for AcceptsTwiceUnderARace {
    async fn accept(
        &self,
        real: &Real,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        let keys: Vec<_> = new.iter().map(|new| new.keys.clone()).collect();
        let known = real.memory.find(&keys).await?;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        if known.iter().all(Option::is_none) && new.len() == 1 {
            real.memory
                .edit(|tables| tables.keys.remove(&keys[0].hash()));
        }
        real.memory.accept(new, routes).await
    }
}

/// Another payload under known keys passes as a replay.
#[derive(Default)]
pub(crate) struct ForgetsTheFingerprint;

#[async_trait]
impl Flaw for ForgetsTheFingerprint {
    async fn accept(
        &self,
        real: &Real,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        let mut accepted = real.memory.accept(new, routes).await?;
        for answer in &mut accepted {
            if let Accepted::Mismatch(known) = answer {
                *answer = Accepted::Known(known.clone());
            }
        }
        Ok(accepted)
    }
}

/// The operation is there; nobody will ever look at it.
#[derive(Default)]
pub(crate) struct AcceptsWithoutAQueueRow;

#[async_trait]
impl Flaw for AcceptsWithoutAQueueRow {
    async fn accept(
        &self,
        real: &Real,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        let accepted = real.memory.accept(new, routes).await?;
        for new in new {
            real.edit(new.op_id, |row| row.queue = None);
        }
        Ok(accepted)
    }
}

/// Two commits where one was promised: a fault between them leaves the first.
#[derive(Default)]
pub(crate) struct AcceptsInTwoCommits(Mutex<bool>);

#[async_trait]
impl Flaw for AcceptsInTwoCommits {
    fn arm(&self, real: &Real, fault: Fault) {
        match fault {
            Fault::MidCommit => *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true,
            _ => crate::flaw::Unbroken.arm(real, fault),
        }
    }
    async fn accept(
        &self,
        real: &Real,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        let accepted = real.memory.accept(new, routes).await?;
        let armed = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if armed {
            for new in new {
                real.edit(new.op_id, |row| row.queue = None);
            }
            return Err(Error::new(ErrorKind::Unavailable, "between two commits"));
        }
        Ok(accepted)
    }
}

/// A seq counts from 1 whenever the key has no open operation.
#[derive(Default)]
pub(crate) struct RestartsSeqWithTheLane;

#[async_trait]
impl Flaw for RestartsSeqWithTheLane {
    async fn accept(
        &self,
        real: &Real,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        real.memory.edit(|tables| {
            let has_lane = tables
                .rows
                .iter()
                .any(|(_, row)| row.operation.lane.is_some());
            if has_lane && tables.lanes.is_empty() {
                tables.seq = 0;
            }
        });
        real.memory.accept(new, routes).await
    }
}

/// The attempt that was never sent counts as one that was.
#[derive(Default)]
pub(crate) struct RefundsNothing;

#[async_trait]
impl Flaw for RefundsNothing {
    async fn reschedule(&self, real: &Real, ended: &[Reschedule], routes: &Routes) -> Changes {
        let mut ended = ended.to_vec();
        for attempt in &mut ended {
            if attempt.retry.applied == Applied::NotCalled {
                attempt.retry.applied = Applied::No;
            }
        }
        real.memory.reschedule(&ended, routes).await
    }
}

/// An extension is no change worth counting.
#[derive(Default)]
pub(crate) struct DoesNotRaiseTheVersion;

#[async_trait]
impl Flaw for DoesNotRaiseTheVersion {
    async fn extend(&self, real: &Real, extensions: &[Extension]) -> Changes {
        let mut results = Calls::extend(&real.memory, extensions).await?;
        for changed in results.iter_mut().flatten() {
            changed.state.version -= 1;
        }
        for (extension, result) in extensions.iter().zip(&results) {
            if result.is_ok() {
                real.edit(extension.op_id, |row| row.operation.state.version -= 1);
            }
        }
        Ok(results)
    }
}

/// The last extension wins, also where it is the shorter one.
#[derive(Default)]
pub(crate) struct ShortensTheLease;

#[async_trait]
impl Flaw for ShortensTheLease {
    async fn extend(&self, real: &Real, extensions: &[Extension]) -> Changes {
        let mut results = Calls::extend(&real.memory, extensions).await?;
        let now = real.memory.now().await?;
        for (extension, result) in extensions.iter().zip(&mut results) {
            if let Ok(changed) = result {
                let until = Some(now + extension.lease);
                changed.state.lease_until = until;
                real.edit(extension.op_id, |row| {
                    row.operation.state.lease_until = until
                });
            }
        }
        Ok(results)
    }
}

/// A canceled operation is as dead as any.
#[derive(Default)]
pub(crate) struct KeepsDeadLettersOfCancels;

#[async_trait]
impl Flaw for KeepsDeadLettersOfCancels {
    async fn amend(&self, real: &Real, amendments: &[Amendment], routes: &Routes) -> Changes {
        let results = real.memory.amend(amendments, routes).await?;
        for row in amendments
            .iter()
            .filter_map(|amendment| real.row(amendment.op_id))
        {
            let operation = row.operation;
            let (Some(failure), Some(failed_at)) =
                (operation.state.failure.clone(), operation.finished_at)
            else {
                continue;
            };
            let letter = clinch_core::ports::LetterView {
                op_id: operation.op_id,
                seq: operation.seq,
                keys: operation.keys,
                failure,
                attempts: operation.state.attempts,
                failed_at,
                late_ok: false,
                fingerprint: String::new(),
                status: clinch_core::ports::LetterStatus::Open,
            };
            real.memory
                .edit(|tables| tables.put_letter(letter.op_id, Some(letter)));
        }
        Ok(results)
    }
}

/// Work that is to wait uses up its route's deadline by waiting.
#[derive(Default)]
pub(crate) struct CountsTheDeadlineFromAccept;

#[async_trait]
impl Flaw for CountsTheDeadlineFromAccept {
    async fn accept(
        &self,
        real: &Real,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        let mut accepted = real.memory.accept(new, routes).await?;
        for (new, accepted) in new.iter().zip(&mut accepted) {
            let Accepted::New { state, .. } = accepted else {
                continue;
            };
            let delay = new
                .options
                .run_at
                .map(|run_at| run_at.since(real.clock.now()));
            let deadline = state.deadline.filter(|_| new.options.deadline.is_none());
            state.deadline = deadline.map(|at| at - delay.unwrap_or_default());
            real.edit(new.op_id, |row| {
                row.operation.state.deadline = state.deadline;
            });
        }
        Ok(accepted)
    }
}

/// A redrive is an operation like any other.
#[derive(Default)]
pub(crate) struct RedrivesWhatWasApplied;

#[async_trait]
impl Flaw for RedrivesWhatWasApplied {
    async fn accept(
        &self,
        real: &Real,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        for predecessor in new.iter().filter_map(|new| new.redrive_of) {
            real.edit(predecessor, |row| row.operation.state.late_ok = false);
        }
        real.memory.accept(new, routes).await
    }
}

/// A late yes is for the operation that it names and for no other.
#[derive(Default)]
pub(crate) struct ForgetsTheRedrive;

#[async_trait]
impl Flaw for ForgetsTheRedrive {
    async fn settle(&self, real: &Real, answers: &[Answer], routes: &Routes) -> Changes {
        for answer in answers {
            real.edit(answer.op_id, |row| row.operation.redriven_by = None);
        }
        real.memory.settle(answers, routes).await
    }
}
