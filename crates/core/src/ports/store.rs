//! The hot path: every change of an operation's row.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{LetterChange, LetterChanged, NewNote, Operation, ResultRecord};
use crate::policy::{Order, Routes, Rules};
use crate::protocol::{Effects, Event, IllegalTransition, Inherited, State};
use crate::{
    Applied, AttemptId, BatchId, ContentHash, Effect, Error, ErrorKind, Fail, Fingerprint, Keys,
    LaneKey, OpId, Options, OutboundKey, Result, Retry, Sealed, Status, Timestamp, WorkerId,
};

/// Where operations live. The row is the truth: every change is one compare-and-set on it,
/// by [`State::apply`] or by SQL that says the same.
#[async_trait]
pub trait Store: Send + Sync {
    /// Makes these changes; one answer for each, in order.
    ///
    /// - A call commits once: all its writes, or on `Err` none. After an `Ambiguous` error all of
    ///   them may have happened, or those of some operations: read back, or send them again.
    /// - Writes of one call are applied in order; each sees what the ones before it changed.
    /// - Time is the store's own clock; callers pass durations.
    /// - A change raises the row's version by one and moves its queue row in the same commit.
    /// - A write that names its attempt is judged by [`State::apply_as`]: only the attempt of the
    ///   row's last begin is heard, and a refusal leaves no ledger line.
    /// - The ledger line of a begin whose attempt id [is a leased one](AttemptId::is_leased) notes
    ///   that id, for as long as the operation is kept.
    ///
    /// [`Write`] describes each kind of write.
    async fn commit(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>>;
}

/// A change to make.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Accepts a new operation. Answered by [`Written::Accepted`].
    ///
    /// - Operation, key and queue row commit together or not at all.
    /// - Known keys with a fingerprint among the offered ones: the existing operation, also
    ///   under concurrent callers and within one call.
    /// - Known keys with another fingerprint: [`Accepted::Mismatch`], naming the operation.
    /// - A key whose operation was pruned answers its id and final state.
    /// - seq grows within (domain, biz_key), also after its lane was empty.
    /// - With `begin`: live in the same commit if every guard of begin allows it, otherwise
    ///   exactly as without.
    /// - If `batch_id` is sealed or unknown, that item alone is refused.
    /// - `redrive_of` marks the predecessor and its dead letter as redriven in the same commit, with a
    ///   line in the predecessor's ledger. That line and the line of the accept say who redrove it.
    /// - A predecessor with a recorded late Ok refuses that item alone, also if the Ok was recorded
    ///   by a concurrent call.
    /// - A predecessor whose dead letter is dismissed refuses that item alone, also if it was
    ///   dismissed by a concurrent call.
    Accept(NewOperation),

    /// Starts an attempt. Answered by [`Written::Begun`].
    ///
    /// - Raises the fence and counts the attempt before anything can be sent.
    /// - Hands out the whole row as it is after the begin.
    /// - Refuses live, held, terminal, not due, paused, canceled, overdue and wrong-lane
    ///   rows, and rows without a declared route, without a change.
    /// - A payload that does not match its content hash is never handed out.
    /// - A call that may not be repeated becomes held; nothing is handed out.
    /// - Of concurrent begins of one row at most one gets it.
    Begin(BeginRequest),

    /// Extends the lease of a running attempt; the answer tells whether cancel was requested.
    ///
    /// - A stale fence changes nothing.
    /// - A lease is never shortened.
    Extend(Extension),

    /// Makes a provider's answer durable before anything else happens to it.
    ///
    /// - The answer is readable after this commit even if nothing else ever succeeds.
    /// - A stale Fail changes nothing but the ledger.
    /// - A late Ok completes the operation in this commit.
    /// - A late Ok on FAILED is also applied to the operation that redrives it, in the same commit:
    ///   if that operation is open, it is COMPLETED and makes no further call.
    /// - The first recorded Ok is kept: a second one says the same of the same call.
    WriteAhead(Answer),

    /// Makes a recorded outcome final.
    ///
    /// - Finalizing twice is one change; without a recorded outcome nothing changes.
    /// - Terminal states never change.
    /// - The terminal commit deletes the queue row, frees the lane, counts the batch, accepts the
    ///   operations that the answer spawned, and keeps a dead letter of a failure.
    /// - A spawned operation joins its parent's batch, whatever batch it names itself.
    /// - A spawned operation whose keys exist is not a member of the batch; one with another
    ///   payload is a ledger line. Neither aborts the commit.
    Finalize(OpId),

    /// Write-ahead and finalize in one commit.
    ///
    /// - Reads back as if both had been committed one after the other.
    Settle(Answer),

    /// Ends an attempt that settled nothing: Retry and NotCalled.
    ///
    /// - A stale fence changes nothing but the ledger.
    /// - NotCalled refunds the attempt; the fence stays raised.
    /// - The result may be waiting, held or FAILED: the protocol decides.
    Reschedule(Reschedule),

    /// Applies any rare event.
    ///
    /// - Exactly what `apply` says, also for events of the other kinds of writes.
    /// - `Begin` is refused: it hands out an envelope and belongs to [`Write::Begin`].
    Amend(Amendment),

    /// Seals a batch: no new members, except those that members spawn. Answered by
    /// [`Written::Sealed`].
    ///
    /// - Sealing twice has no further effect; sealing an unknown batch does nothing.
    /// - A batch completes once: when it is sealed and its last member is terminal,
    ///   whichever comes last, however many settle at the same time.
    /// - The completing commit accepts the batch's `on_complete` operation, unless its keys
    ///   are known already.
    Seal(BatchId),

    /// Dismisses a dead letter, or opens a dismissed one again. Answered by [`Written::Letter`].
    ///
    /// - A change is a compare-and-set of the letter's status, and a line of the operation's
    ///   ledger in the same commit, with reason and actor. The operation's version stays.
    /// - Dismissing twice is one change and one line, and so is reopening.
    /// - A letter that was redriven is neither dismissed nor reopened.
    /// - A letter that was imported without its operation has no ledger, and changes as well.
    Letter(LetterChange),

    /// Notes in an operation's ledger what a person did with it. Answered by [`Written::Noted`].
    ///
    /// - One line with actor and reason; state, version and queue row stay, also of an ended one.
    Note(NewNote),
}

impl Write {
    /// The operation that it accepts or changes; `None`: it is about a batch.
    pub fn op_id(&self) -> Option<OpId> {
        match self {
            Self::Accept(new) => Some(new.op_id),
            Self::Begin(begin) => Some(begin.op_id),
            Self::Extend(extension) => Some(extension.op_id),
            Self::WriteAhead(answer) | Self::Settle(answer) => Some(answer.op_id),
            Self::Finalize(op_id) => Some(*op_id),
            Self::Reschedule(attempt) => Some(attempt.op_id),
            Self::Amend(amendment) => Some(amendment.op_id),
            Self::Letter(change) => Some(change.op_id),
            Self::Note(note) => Some(note.op_id),
            Self::Seal(_) => None,
        }
    }
}

/// The answer to a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// The answer to an accept.
    Accepted(Accepted),
    /// The answer to a begin: the attempt may call.
    Begun(Box<Operation>),
    /// The row changed.
    Changed(Box<Changed>),
    /// The row did not change.
    Refused(Refused),
    /// The answer to a seal.
    Sealed {
        /// The seal completed the batch.
        completed: bool,
    },
    /// The answer to a change of a dead letter.
    Letter(LetterChanged),
    /// The answer to a note: whether there is such an operation.
    Noted(bool),
}

impl Written {
    /// The answer to an accept.
    pub fn accepted(self) -> Result<Accepted> {
        match self {
            Self::Accepted(accepted) => Ok(accepted),
            other => Err(other.unexpected()),
        }
    }

    /// The answer to a begin.
    pub fn begun(self) -> Result<Result<Operation, Refused>> {
        match self {
            Self::Begun(operation) => Ok(Ok(*operation)),
            Self::Refused(refused) => Ok(Err(refused)),
            other => Err(other.unexpected()),
        }
    }

    /// The answer to every other change of a row.
    pub fn changed(self) -> Result<Result<Changed, Refused>> {
        match self {
            Self::Changed(changed) => Ok(Ok(*changed)),
            Self::Refused(refused) => Ok(Err(refused)),
            other => Err(other.unexpected()),
        }
    }

    /// The answer to a seal: whether it completed the batch.
    pub fn sealed(self) -> Result<bool> {
        match self {
            Self::Sealed { completed } => Ok(completed),
            other => Err(other.unexpected()),
        }
    }

    /// The answer to a change of a dead letter.
    pub fn letter(self) -> Result<LetterChanged> {
        match self {
            Self::Letter(changed) => Ok(changed),
            other => Err(other.unexpected()),
        }
    }

    /// The answer to a note: whether there is such an operation.
    pub fn noted(self) -> Result<bool> {
        match self {
            Self::Noted(is_noted) => Ok(is_noted),
            other => Err(other.unexpected()),
        }
    }

    fn unexpected(&self) -> Error {
        let message = "the store's answer does not match the kind of write";
        Error::new(ErrorKind::Ambiguous, message)
    }
}

/// An operation to accept. The payload bytes have passed the sealer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewOperation {
    /// Generated by the caller. If the keys are known, the existing id wins.
    pub op_id: OpId,
    /// The four keys.
    pub keys: Keys,
    /// The payload as it is stored.
    pub payload: Sealed,
    /// The first is stored. The others are the fingerprints of the same request under other
    /// versions or keys, so that turning sealing on does not turn replays into mismatches.
    pub fingerprints: Vec<Fingerprint>,
    /// The hash of the stored payload.
    pub content_hash: ContentHash,
    /// The idempotency key that the provider sees.
    pub outbound_key: OutboundKey,
    /// When and how to run it.
    pub options: Options,
    /// The batch that it joins.
    pub batch_id: Option<BatchId>,
    /// The operation that it redrives.
    pub redrive_of: Option<OpId>,
    /// What it inherits from its predecessor.
    pub inherited: Inherited,
    /// Who redrives it, for the ledgers of both operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<WorkerId>,
    /// W3C `traceparent`.
    pub trace: Option<String>,
    /// Begin an attempt in the same commit, if allowed.
    #[serde(skip)]
    pub begin: Option<BeginRequest>,
}

/// The result of an accept.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted {
    /// The operation is accepted. It is live if a begin was requested and allowed: the attempt may
    /// call.
    New {
        /// Its sequence number within (domain, biz_key).
        seq: u64,
        /// Its state.
        state: Box<State>,
        /// When it was accepted, on the store's clock. If it is live, it was started then too.
        accepted_at: Timestamp,
    },
    /// The keys were known, with the same request.
    Known(Known),
    /// The keys were known, with another request.
    Mismatch(Known),
    /// The named batch is sealed or unknown.
    BatchClosed,
    /// The call of the redriven operation was applied: a late Ok is recorded.
    PredecessorApplied,
    /// The dead letter of the redriven operation is dismissed.
    PredecessorDismissed,
}

/// What the key table knows about an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The operation.
    pub op_id: OpId,
    /// Its status now, or when it was pruned.
    pub status: Status,
    /// The row was pruned; only the key is left.
    pub pruned: bool,
}

/// A request to begin an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginRequest {
    /// The operation.
    pub op_id: OpId,
    /// New for this begin.
    pub attempt_id: AttemptId,
    /// The worker that will run it.
    pub worker: WorkerId,
    /// Length of the lease from now, on the store's clock.
    pub lease: Duration,
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The row's state after it.
    pub state: State,
    /// What has to follow.
    pub effects: Effects,
    /// The batch that this change completed. Reported once for each batch.
    pub batch_completed: Option<BatchId>,
    /// The row's result after it.
    pub result: Option<ResultRecord>,
    /// When the row became terminal, if it is.
    pub finished_at: Option<Timestamp>,
}

impl Changed {
    /// Whether a recorded outcome waits to be finalized.
    pub fn awaits_finalize(&self) -> bool {
        self.state.due() == crate::protocol::Due::Finalize
    }
}

/// A change that was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The protocol forbids it.
    #[error(transparent)]
    Illegal(#[from] IllegalTransition),
    /// There is no such operation.
    #[error("there is no such operation")]
    NotFound,
    /// No route is declared for its domain and event type.
    #[error("no route is declared for its domain and event type")]
    NoRoute,
    /// The begin found that no call may be made: the row is held or FAILED now.
    #[error("no call may be made")]
    Withheld(Box<State>),
}

/// A lease to extend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// The operation.
    pub op_id: OpId,
    /// The attempt's fence.
    pub fence: u64,
    /// Length of the lease from now, on the store's clock.
    pub lease: Duration,
    /// For a report that names its attempt: nothing changes unless the row's last begin has this
    /// id. `None`: the caller vouches for the fence.
    pub attempt_id: Option<AttemptId>,
}

/// A provider's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The operation.
    pub op_id: OpId,
    /// The attempt's fence; `None` for an answer from a spill file.
    pub fence: Option<u64>,
    /// The process or worker that reports the answer.
    pub worker: WorkerId,
    /// What the provider said.
    pub body: AnswerBody,
    /// For a report that names its attempt: nothing changes unless the row's last begin has this
    /// id. `None`: the caller vouches for the fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<AttemptId>,
}

/// What a provider said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AnswerBody {
    /// The provider applied the call.
    Ok(StoredOk),
    /// The provider refused for good.
    Fail(Fail),
}

/// A provider's Ok, as it is stored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StoredOk {
    /// The provider's own transaction id.
    pub provider_txn_id: Option<String>,
    /// The result as it is stored.
    pub result: Option<Sealed>,
    /// Operations to accept in the commit that settles.
    pub spawn: Vec<NewOperation>,
}

/// The end of an attempt that settled nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reschedule {
    /// The operation.
    pub op_id: OpId,
    /// The attempt's fence.
    pub fence: u64,
    /// The process or worker that reports it.
    pub worker: WorkerId,
    /// What the executor returned.
    pub retry: Retry,
    /// For a report that names its attempt: nothing changes unless the row's last begin has this
    /// id. `None`: the caller vouches for the fence.
    pub attempt_id: Option<AttemptId>,
}

/// A rare event and its data.
#[derive(Debug, Clone, PartialEq)]
pub struct Amendment {
    /// The operation.
    pub op_id: OpId,
    /// What happened.
    pub event: Event,
    /// For an Ok: the result. Ignored otherwise.
    pub ok: Option<StoredOk>,
    /// For `Checkpoint`: the sealed bytes. Ignored otherwise.
    pub checkpoint: Option<Sealed>,
    /// The operator, process or worker that reports the event, for the ledger.
    pub by: WorkerId,
    /// Why, for the ledger.
    pub reason: String,
    /// For a report that names its attempt: nothing changes unless the row's last begin has this
    /// id. `None`: the caller vouches for the fence.
    pub attempt_id: Option<AttemptId>,
}

impl Reschedule {
    /// The equivalent event.
    pub fn event(&self) -> Event {
        let Retry {
            reason,
            after,
            applied,
            ..
        } = self.retry.clone();
        let fence = self.fence;
        let effect = match applied {
            Applied::NotCalled => {
                return Event::NotCalled {
                    fence,
                    after,
                    reason,
                };
            }
            Applied::No => Effect::None,
            Applied::Unknown => Effect::Unknown,
        };
        Event::Retry {
            fence,
            after,
            effect,
            reason,
        }
    }
}

impl NewOperation {
    /// When the operation is due, if it is accepted at `now`. A `run_at` in the past counts as now:
    /// it neither makes an operation old nor puts it before operations that were accepted earlier.
    pub fn run_at(&self, now: Timestamp) -> Timestamp {
        self.options.run_at.map_or(now, |run_at| run_at.max(now))
    }

    /// The lane that it joins under these rules.
    pub fn lane(&self, rules: &Rules) -> Option<LaneKey> {
        match rules.order {
            Order::Key => Some(LaneKey::of(&self.keys.domain, &self.keys.biz_key)),
            Order::None => None,
        }
    }

    /// The deadline if the operation is accepted at `now`: no attempt begins at or after it. It is
    /// the command's own deadline, or the route's, counted from when the operation may first run.
    pub fn deadline(&self, now: Timestamp, rules: &Rules) -> Option<Timestamp> {
        let by_route = || {
            rules
                .deadline
                .map(|after| self.run_at(now).max(now) + after)
        };
        self.options.deadline.or_else(by_route)
    }
}
