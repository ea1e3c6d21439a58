//! The hot path: every change of an operation's row.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Operation;
use crate::policy::{Routes, Rules};
use crate::protocol::{Effects, Event, IllegalTransition, Inherited, State};
use crate::{
    Applied, AttemptId, BatchId, ContentHash, Effect, Fail, Fingerprint, Keys, OpId, Options,
    OutboundKey, Result, Retry, Sealed, Status, Timestamp, WorkerId,
};

/// Where operations live. The row is the truth: every change is one compare-and-set on it,
/// by [`State::apply`] or by SQL that says the same.
///
/// Holds for every method:
/// - A call commits once: all its items, or on `Err` none.
/// - Time is the store's own clock; callers pass durations.
/// - A change raises the row's version by one and moves its queue row in the same commit.
/// - Items of one call are applied in order; each sees what the ones before it changed.
/// - An item that names its attempt is judged by [`State::apply_as`]: only the attempt of the
///   row's last begin is heard, and a refusal leaves no ledger line.
/// - The ledger line of a begin whose attempt id [is a leased one](AttemptId::is_leased) notes
///   that id, for as long as the operation is kept.
#[async_trait]
pub trait Store: Send + Sync {
    /// Takes new operations in.
    ///
    /// - Operation, key and queue row commit together or not at all.
    /// - Known keys with a fingerprint among the offered ones: the existing operation, also
    ///   under concurrent callers and within one call.
    /// - Known keys with another fingerprint: [`Accepted::Mismatch`], naming the operation.
    /// - A key whose operation was pruned answers its id and final state.
    /// - seq grows within (domain, biz_key), also after its lane was empty.
    /// - With `begin`: live in the same commit if every guard of begin allows it, otherwise
    ///   exactly as without.
    /// - A `batch_id` that is sealed or unknown is refused for that item alone.
    /// - `redrive_of` marks the predecessor as redriven in the same commit.
    /// - A predecessor with a recorded late yes refuses that item alone, also if the yes was
    ///   recorded by a concurrent call.
    async fn accept(&self, new: &[NewOperation], routes: &Routes) -> Result<Vec<Accepted>>;

    /// Starts attempts.
    ///
    /// - Raises the fence and counts the attempt before anything can be sent.
    /// - Hands out the whole row as it is after the begin.
    /// - Refuses live, held, terminal, not due, paused, canceled, overdue and wrong-lane
    ///   rows, and rows without a declared route, without a change.
    /// - A payload that does not match its content hash is never handed out.
    /// - A call that may not be repeated becomes held; nothing is handed out.
    /// - Of concurrent begins of one row at most one gets it.
    async fn begin(
        &self,
        begins: &[BeginRequest],
        routes: &Routes,
    ) -> Result<Vec<Result<Operation, Refused>>>;

    /// Moves the leases of running attempts; the answer tells whether cancel was requested.
    ///
    /// - A stale fence changes nothing.
    /// - A lease is never shortened.
    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Result<Changed, Refused>>>;

    /// Makes providers' answers durable before anything else happens to them.
    ///
    /// - The answer is readable after this commit even if nothing else ever succeeds.
    /// - A stale Fail changes nothing but the ledger.
    /// - A late Ok completes the operation in this commit.
    /// - A late Ok on FAILED is told to the operation that redrives it, in the same commit: one
    ///   that is open is COMPLETED and makes no further call.
    /// - The first recorded yes is kept: a second one says the same of the same call.
    async fn write_ahead(
        &self,
        answers: &[Answer],
        routes: &Routes,
    ) -> Result<Vec<Result<Changed, Refused>>>;

    /// Makes recorded outcomes final.
    ///
    /// - Twice is one change; without a recorded outcome nothing changes.
    /// - Terminal states never change.
    /// - The terminal commit deletes the queue row, frees the lane, counts the batch,
    ///   accepts what the answer spawned, and keeps a dead letter of a failure.
    /// - A spawned operation joins its parent's batch, whatever it names itself.
    /// - A spawned operation whose keys exist is not a member of the batch; one with another
    ///   payload is a ledger line. Neither aborts the commit.
    async fn finalize(
        &self,
        ops: &[OpId],
        routes: &Routes,
    ) -> Result<Vec<Result<Changed, Refused>>>;

    /// Write-ahead and finalize, in one commit where the store can.
    ///
    /// - Reads back as if both had been called.
    async fn settle(
        &self,
        answers: &[Answer],
        routes: &Routes,
    ) -> Result<Vec<Result<Changed, Refused>>> {
        let mut results = self.write_ahead(answers, routes).await?;
        let recorded: Vec<(usize, OpId)> = answers
            .iter()
            .zip(&results)
            .enumerate()
            .filter(|(_, (_, result))| result.as_ref().is_ok_and(Changed::awaits_finalize))
            .map(|(at, (answer, _))| (at, answer.op_id))
            .collect();
        let ops: Vec<OpId> = recorded.iter().map(|(_, op_id)| *op_id).collect();
        // What is not finalized now is the Finalizer's; the answers are safe.
        if let Ok(finalized) = self.finalize(&ops, routes).await {
            for ((at, _), result) in recorded.into_iter().zip(finalized) {
                results[at] = result;
            }
        }
        Ok(results)
    }

    /// Ends attempts that settled nothing: Retry and NotCalled.
    ///
    /// - A stale fence changes nothing but the ledger.
    /// - NotCalled refunds the attempt; the fence stays raised.
    /// - The result may be waiting, held or FAILED: the protocol decides.
    async fn reschedule(
        &self,
        attempts: &[Reschedule],
        routes: &Routes,
    ) -> Result<Vec<Result<Changed, Refused>>>;

    /// Applies any rare event: read, [`State::apply`], write by version.
    ///
    /// - Exactly what `apply` says, also for Begin-free events of the hot path.
    /// - `Begin` is refused: it hands out an envelope and belongs to [`Store::begin`].
    async fn amend(
        &self,
        amendments: &[Amendment],
        routes: &Routes,
    ) -> Result<Vec<Result<Changed, Refused>>>;
}

/// An operation to take in. Payload bytes have passed the sealer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewOperation {
    /// Drawn by the caller; the existing one wins where the keys are known.
    pub op_id: OpId,
    /// The four keys.
    pub keys: Keys,
    /// The payload as it is stored.
    pub payload: Sealed,
    /// The first is stored. The others are the same request under other versions or keys
    /// of the hash, so that turning sealing on does not turn replays into mismatches.
    pub fingerprints: Vec<Fingerprint>,
    /// Of the stored payload.
    pub content_hash: ContentHash,
    /// What the provider will see.
    pub outbound_key: OutboundKey,
    /// How and when.
    pub options: Options,
    /// The batch it joins.
    pub batch_id: Option<BatchId>,
    /// The operation it redrives.
    pub redrive_of: Option<OpId>,
    /// What it inherits from that one.
    pub inherited: Inherited,
    /// W3C `traceparent`.
    pub trace: Option<String>,
    /// Begin in the same commit if allowed.
    #[serde(skip)]
    pub begin: Option<BeginRequest>,
}

/// What became of a new operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted {
    /// Taken in. Live if a begin was asked for and allowed: the attempt may call.
    New {
        /// Its place among those of its key.
        seq: u64,
        /// Its state.
        state: Box<State>,
    },
    /// The keys were known and it is the same request.
    Known(Known),
    /// The keys were known and it is another request.
    Mismatch(Known),
    /// The batch it names is sealed or unknown.
    BatchClosed,
    /// The operation that it redrives was applied: a late yes is recorded.
    PredecessorApplied,
}

/// What is known of an operation by its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The operation.
    pub op_id: OpId,
    /// Where it stands, or stood when it was pruned.
    pub status: Status,
    /// Its row is gone; only the key is left.
    pub pruned: bool,
}

/// A wish to start an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginRequest {
    /// The operation.
    pub op_id: OpId,
    /// Fresh for this begin.
    pub attempt_id: AttemptId,
    /// Who will run it.
    pub worker: WorkerId,
    /// From now, on the store's clock.
    pub lease: Duration,
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The row's state after it.
    pub state: State,
    /// What follows.
    pub effects: Effects,
    /// The batch that this change completed. Said once for a batch.
    pub batch_completed: Option<BatchId>,
}

impl Changed {
    /// A recorded outcome waits to be finalized.
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
    /// A begin that found that no call may be made: the row is held or has failed.
    #[error("no call may be made")]
    Withheld(Box<State>),
}

/// A lease to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// The operation.
    pub op_id: OpId,
    /// The attempt's fence.
    pub fence: u64,
    /// From now, on the store's clock.
    pub lease: Duration,
    /// Of a report that names its attempt: nothing changes unless the row's last begin carries
    /// it. `None`: the caller vouches for the fence.
    pub attempt_id: Option<AttemptId>,
}

/// A provider's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The operation.
    pub op_id: OpId,
    /// The attempt's fence; `None` for an answer from a spill file.
    pub fence: Option<u64>,
    /// Who brings it.
    pub worker: WorkerId,
    /// What the provider said.
    pub body: AnswerBody,
    /// Of a report that names its attempt: nothing changes unless the row's last begin carries
    /// it. `None`: the caller vouches for the fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<AttemptId>,
}

/// What a provider said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AnswerBody {
    /// Yes.
    Ok(StoredOk),
    /// No, for good.
    Fail(Fail),
}

/// A provider's yes, as it is stored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StoredOk {
    /// The provider's own id of what it did.
    pub provider_txn_id: Option<String>,
    /// The result as it is stored.
    pub result: Option<Sealed>,
    /// To accept in the commit that settles.
    pub spawn: Vec<NewOperation>,
}

/// The end of an attempt that settled nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reschedule {
    /// The operation.
    pub op_id: OpId,
    /// The attempt's fence.
    pub fence: u64,
    /// Who says so.
    pub worker: WorkerId,
    /// What the executor returned.
    pub retry: Retry,
    /// Of a report that names its attempt: nothing changes unless the row's last begin carries
    /// it. `None`: the caller vouches for the fence.
    pub attempt_id: Option<AttemptId>,
}

/// A rare event and what goes with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Amendment {
    /// The operation.
    pub op_id: OpId,
    /// What happened.
    pub event: Event,
    /// With a yes: the result. Ignored otherwise.
    pub ok: Option<StoredOk>,
    /// With Checkpoint: the bytes, sealed. Ignored otherwise.
    pub checkpoint: Option<Sealed>,
    /// Who says so, for the ledger.
    pub by: WorkerId,
    /// Why, for the ledger.
    pub reason: String,
    /// Of a report that names its attempt: nothing changes unless the row's last begin carries
    /// it. `None`: the caller vouches for the fence.
    pub attempt_id: Option<AttemptId>,
}

impl Reschedule {
    /// The event that says the same.
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
    /// When it is due, if it was accepted at `now`. A `run_at` in the past is now: it neither
    /// makes an operation old nor puts it before those that were accepted earlier.
    pub fn run_at(&self, now: Timestamp) -> Timestamp {
        self.options.run_at.map_or(now, |run_at| run_at.max(now))
    }

    /// No attempt begins at or after it, if it was accepted at `now`: the command's own
    /// deadline, or that of the route, counted from when the operation may run first.
    pub fn deadline(&self, now: Timestamp, rules: &Rules) -> Option<Timestamp> {
        let by_route = || {
            rules
                .deadline
                .map(|after| self.run_at(now).max(now) + after)
        };
        self.options.deadline.or_else(by_route)
    }
}
