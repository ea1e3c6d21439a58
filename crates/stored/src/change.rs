//! What a call says about an operation, as an event and what comes with it.

use std::borrow::Cow;

use clinch_core::ports::{
    Amendment, Answer, AnswerBody, LedgerLine, Refused, ResultRecord, StoredOk,
};
use clinch_core::protocol::{
    Event, IllegalTransition, ProbeAnswer, Resolution, Verdict, Why, WriteAhead,
};
use clinch_core::{AttemptId, OpId, Result, Sealed, WorkerId};

/// The protocol's own answer: the change, or why there is none.
pub type Answered<T> = Result<T, Refused>;

/// What comes with an event but is no part of it.
#[derive(Debug, Default, Clone, Copy)]
pub struct Luggage<'a> {
    /// The result of a yes.
    pub ok: Option<&'a StoredOk>,
    /// The bytes of a checkpoint.
    pub checkpoint: Option<&'a Sealed>,
    /// Who brings it.
    pub by: Option<&'a WorkerId>,
    /// Why, in a person's words.
    pub reason: &'a str,
    /// The attempt that the event must come from, if it names one.
    pub attempt_id: Option<AttemptId>,
}

impl<'a> Luggage<'a> {
    /// A worker, empty-handed.
    pub fn by(worker: &'a WorkerId) -> Self {
        Self {
            by: Some(worker),
            ..Self::default()
        }
    }

    /// An attempt that may have to prove itself.
    pub fn from(attempt_id: Option<AttemptId>) -> Self {
        Self {
            attempt_id,
            ..Self::default()
        }
    }

    /// What an amendment brings. A begin is no amendment.
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

/// The event of an answer, and what comes with it.
pub fn said(answer: &Answer) -> Answered<(Event, Luggage<'_>)> {
    let luggage = Luggage {
        attempt_id: answer.attempt_id,
        ..Luggage::by(&answer.worker)
    };
    match (&answer.body, answer.fence) {
        (AnswerBody::Ok(ok), fence) => {
            let ok = Some(ok);
            Ok((Event::Ok { fence }, Luggage { ok, ..luggage }))
        }
        (AnswerBody::Fail(fail), Some(fence)) => {
            let fail = fail.clone();
            Ok((Event::Fail { fence, fail }, luggage))
        }
        // A refusal without a fence speaks for no attempt.
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

/// The yes that a late Ok on a FAILED operation is to the one that redrives it, with its line
/// in the ledger. Both send the same outbound key: what was applied was applied for both.
pub fn told_by_predecessor(op_id: OpId) -> (Event, String) {
    let note = format!("a late answer to {op_id}, which this operation redrives");
    (Event::Ok { fence: None }, note)
}

/// Whether the event's result is to be stored. The first recorded yes is kept: a second one
/// says the same thing about the same call.
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

/// The result of a yes, without what it spawns.
pub fn record(ok: &StoredOk) -> ResultRecord {
    ResultRecord {
        provider_txn_id: ok.provider_txn_id.clone(),
        payload: ok.result.clone(),
    }
}

/// What the ledger says about why. Of a leased begin it keeps the attempt id: the row forgets
/// it with the next begin, and a late yes must still prove itself.
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
