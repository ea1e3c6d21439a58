//! Converts a caller's write into an event and the data that comes with it.

use std::borrow::Cow;

use clinch_core::ports::{
    Amendment, Answer, AnswerBody, LedgerLine, Refused, ResultRecord, StoredOk,
};
use clinch_core::protocol::{
    Event, IllegalTransition, ProbeAnswer, Resolution, Verdict, Why, WriteAhead,
};
use clinch_core::{AttemptId, OpId, Result, Sealed, WorkerId};

/// The protocol's answer: the change, or why there is none.
pub type Answered<T> = Result<T, Refused>;

/// Data that comes with an event but is not part of it.
#[derive(Debug, Default, Clone, Copy)]
pub struct Brought<'a> {
    /// The result of an Ok.
    pub ok: Option<&'a StoredOk>,
    /// The bytes of a checkpoint.
    pub checkpoint: Option<&'a Sealed>,
    /// The process or worker that reports the event.
    pub by: Option<&'a WorkerId>,
    /// The reason, as free text.
    pub reason: &'a str,
    /// The attempt that must have reported the event, if one is named.
    pub attempt_id: Option<AttemptId>,
}

impl<'a> Brought<'a> {
    /// Data with only a worker.
    pub fn by(worker: &'a WorkerId) -> Self {
        Self {
            by: Some(worker),
            ..Self::default()
        }
    }

    /// Data with only an attempt id, if one is named.
    pub fn from(attempt_id: Option<AttemptId>) -> Self {
        Self {
            attempt_id,
            ..Self::default()
        }
    }

    /// The data of an amendment. A begin is not an amendment.
    pub fn of(amendment: &'a Amendment) -> Answered<Self> {
        if matches!(amendment.event, Event::Begin(_)) {
            return Err(not_here("Begin"));
        }
        Ok(Self {
            ok: amendment.ok.as_ref(),
            checkpoint: amendment.checkpoint.as_ref(),
            by: Some(&amendment.by),
            reason: &amendment.reason,
            attempt_id: amendment.attempt_id,
        })
    }
}

/// The event of an answer, and its data.
pub fn said(answer: &Answer) -> Answered<(Event, Brought<'_>)> {
    let brought = Brought {
        attempt_id: answer.attempt_id,
        ..Brought::by(&answer.worker)
    };
    match (&answer.body, answer.fence) {
        (AnswerBody::Ok(ok), fence) => {
            let ok = Some(ok);
            Ok((Event::Ok { fence }, Brought { ok, ..brought }))
        }
        (AnswerBody::Fail(fail), Some(fence)) => {
            let fail = fail.clone();
            Ok((Event::Fail { fence, fail }, brought))
        }
        // A Fail without a fence belongs to no attempt.
        (AnswerBody::Fail(_), None) => Err(not_here("Fail")),
    }
}

fn not_here(event: &'static str) -> Refused {
    Refused::Illegal(IllegalTransition {
        event,
        why: Why::StaleFence,
        ledger: false,
    })
}

/// The event for the operation that redrives a FAILED one which got a late Ok, and its ledger note.
/// Both operations send the same outbound key: a call that was applied was applied for both.
pub fn told_by_predecessor(op_id: OpId) -> (Event, String) {
    let note = format!("a late answer to {op_id}, which this operation redrives");
    (Event::Ok { fence: None }, note)
}

/// Whether to store the event's result. The first recorded Ok is kept: a second one says the same
/// about the same call.
pub fn brings_result(event: &Event, recorded: &WriteAhead) -> bool {
    let has_yes = matches!(
        recorded,
        WriteAhead::Pending {
            verdict: Verdict::Ok,
            ..
        }
    );
    let is_yes = matches!(
        event,
        Event::Ok { .. }
            | Event::Resolve(Resolution::Completed)
            | Event::Probed {
                answer: ProbeAnswer::Succeeded,
                ..
            }
    );
    is_yes && !has_yes
}

/// The result of an Ok, without the operations that it spawns.
pub fn record(ok: &StoredOk) -> ResultRecord {
    ResultRecord {
        provider_txn_id: ok.provider_txn_id.clone(),
        payload: ok.result.clone(),
    }
}

/// The note of the ledger line. For a leased begin it is the attempt id: the next begin overwrites
/// the id in the row, but a late Ok of this attempt must still be provable.
pub fn note_of<'a>(event: &'a Event, reason: &'a str) -> Cow<'a, str> {
    match event {
        Event::NotCalled { reason, .. } | Event::Retry { reason, .. } => reason.into(),
        Event::Fail { fail, .. } => fail.message.as_str().into(),
        Event::Begin(begin) if begin.attempt_id.is_leased() => {
            LedgerLine::lease_note(begin.attempt_id).into()
        }
        _ => reason.into(),
    }
}
