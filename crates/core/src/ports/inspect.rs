//! Reading, for the API, the console and the engine's own checks.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::protocol::{Phase, State, WriteAhead};
use crate::{
    AttemptId, BatchId, BizKey, ContentHash, Domain, EventType, IdemKey, Keys, LaneKey, OpId,
    OpIdPrefix, Options, OutboundKey, Result, Sealed, Status, Timestamp, WorkerId,
};

/// Maximum number of items of one page.
pub const PAGE_MAX: usize = 1_000;

/// A page ends when its payloads, results and checkpoints reach this many bytes, however few its
/// items are: a list of long operations must not take more memory than one of short ones.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A list that searches (see [`Filter::searches`]) looks at no more rows than this for one page.
pub const SEARCH_MAX: usize = 10_000;

/// Read-only views. Never on the hot path.
#[async_trait]
pub trait Inspect: Send + Sync {
    /// Rows by id, in order; `None` where there is no row.
    ///
    /// - Sees every commit that returned before the call.
    /// - Shows the attempt id, so that an ambiguous begin can be read back.
    async fn get(&self, ops: &[OpId]) -> Result<Vec<Option<Operation>>>;

    /// The rows that are live under these attempt ids, in order; `None` where there is none.
    ///
    /// - After an ambiguous begin or dequeue this shows which attempts the caller has to run.
    async fn begun(&self, attempts: &[AttemptId]) -> Result<Vec<Option<Operation>>>;

    /// Ids by the four keys, also of pruned operations.
    ///
    /// - After an ambiguous accept this tells whether it happened.
    async fn find(&self, keys: &[Keys]) -> Result<Vec<Option<super::Known>>>;

    /// Operations whose id begins so, by id: at most `max`, at most [`SEARCH_MAX`] + 1.
    ///
    /// - Reads no more than a constant number of rows beyond those that it returns: looks the range
    ///   of ids up in an index.
    /// - Open and settled ones; pruned ones are not found.
    async fn by_prefix(&self, prefix: &OpIdPrefix, max: usize) -> Result<Vec<FoundId>>;

    /// One page of operations, newest first.
    ///
    /// - Pages by keyset: nothing is shown twice or skipped while rows are added.
    /// - At most `limit`, at most [`PAGE_MAX`].
    /// - Ends with the item that reaches [`PAGE_BYTES_MAX`], and reads no further than the one
    ///   after it: only `next_cursor` tells whether there are more.
    /// - A list that [searches](Filter::searches) may end a page after [`SEARCH_MAX`] rows, with
    ///   fewer items or none: the search continues at `next_cursor`.
    async fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Operation>>;

    /// Operations that are IN_PROGRESS and whose first attempt began before this time: at most
    /// `max`, at most [`PAGE_MAX`].
    ///
    /// - If there are more, any of them are returned.
    async fn long_in_progress(&self, before: Timestamp, max: usize) -> Result<Vec<OpId>>;

    /// Every event of an operation, in order.
    ///
    /// - One line for each change, plus refused and late answers.
    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>>;

    /// The store's clock.
    async fn now(&self) -> Result<Timestamp>;
}

/// An operation that was found by the beginning of its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundId {
    /// The operation.
    pub op_id: OpId,
    /// Of its keys.
    pub domain: Domain,
    /// Of its keys.
    pub event_type: EventType,
}

/// The whole row of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// The operation.
    pub op_id: OpId,
    /// The four keys.
    pub keys: Keys,
    /// The payload as it is stored.
    pub payload: Sealed,
    /// The hash of the stored payload.
    pub content_hash: ContentHash,
    /// The idempotency key that the provider sees.
    pub outbound_key: OutboundKey,
    /// When and how to run it.
    pub options: Options,
    /// Grows within (domain, biz_key).
    pub seq: u64,
    /// Its lane, if it was accepted under `order = "key"`.
    pub lane: Option<LaneKey>,
    /// The part that the protocol reads and writes.
    pub state: State,
    /// Announcements so far.
    pub dispatch_no: u64,
    /// The recorded or final result.
    pub result: Option<ResultRecord>,
    /// Bytes that an attempt kept for the next one, as they are stored.
    pub checkpoint: Option<Sealed>,
    /// The batch that it is a member of.
    pub batch_id: Option<BatchId>,
    /// The operation it redrives.
    pub redrive_of: Option<OpId>,
    /// The operation that redrives it.
    pub redriven_by: Option<OpId>,
    /// W3C `traceparent`.
    pub trace: Option<String>,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When its first attempt began.
    pub started_at: Option<Timestamp>,
    /// When it became terminal.
    pub finished_at: Option<Timestamp>,
}

impl Operation {
    /// Size of its payload, result and checkpoint.
    pub fn bytes(&self) -> usize {
        let result = self.result.as_ref().and_then(|one| one.payload.as_ref());
        let all = [Some(&self.payload), result, self.checkpoint.as_ref()];
        all.into_iter()
            .flatten()
            .map(|one| one.as_bytes().len())
            .sum()
    }
}

/// A provider's Ok, without the operations that it spawned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResultRecord {
    /// The provider's own transaction id.
    pub provider_txn_id: Option<String>,
    /// The result as it is stored.
    pub payload: Option<Sealed>,
}

/// One line of an operation's history.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerLine {
    /// When, on the store's clock.
    pub at: Timestamp,
    /// The event's name.
    pub event: String,
    /// The row's fence after it.
    pub fence: u64,
    /// The row's version after it.
    pub version: u64,
    /// The state after it.
    pub status: Status,
    /// The phase after it.
    pub phase: Option<Phase>,
    /// The operator, process or worker that reported the event.
    pub by: Option<WorkerId>,
    /// Set if the event changed nothing: the reason.
    pub refused: Option<String>,
    /// Reason or error, cut and redacted.
    pub note: String,
    /// A late answer's result, kept for the operator who resolves.
    pub late: Option<ResultRecord>,
}

impl LedgerLine {
    /// The note on the ledger line of a leased begin.
    pub fn lease_note(attempt_id: AttemptId) -> String {
        format!("leased as {attempt_id}")
    }

    /// Whether this line is a begin that was leased to a remote worker under this fence and attempt
    /// id.
    pub fn is_lease(&self, fence: u64, attempt_id: AttemptId) -> bool {
        let begun = self.event == "Begin" && self.refused.is_none();
        begun && self.fence == fence && self.note == Self::lease_note(attempt_id)
    }
}

/// Selects operations; every field narrows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of one of these domains. Empty: any.
    pub domains: Vec<Domain>,
    /// Of one of these event types. Empty: any.
    pub event_types: Vec<EventType>,
    /// Of this business object.
    pub biz_key: Option<BizKey>,
    /// With this idempotency key.
    pub idem_key: Option<IdemKey>,
    /// With this transaction id of the provider.
    pub provider_txn_id: Option<String>,
    /// In this state.
    pub status: Option<Status>,
    /// In this phase.
    pub phase: Option<Phase>,
    /// With this label.
    pub label: Option<(String, String)>,
    /// Of this batch.
    pub batch_id: Option<BatchId>,
    /// Accepted at or after this moment.
    pub from: Option<Timestamp>,
    /// Accepted before this moment.
    pub to: Option<Timestamp>,
    /// With this code: of its failure, of what it is held for, or of its last error.
    pub code: Option<String>,
    /// Of one of these routes. Empty: any.
    pub routes: Vec<OfRoute>,
}

/// The operations of one route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfRoute {
    /// The route's domain.
    pub domain: Domain,
    /// Of this event type. `None`: of every event type but `except`.
    pub event_type: Option<EventType>,
    /// The event types of the domain that have routes of their own.
    pub except: Vec<EventType>,
}

impl OfRoute {
    /// Whether operations of this domain and event type belong to the route.
    pub fn includes(&self, domain: &Domain, event_type: &EventType) -> bool {
        let is_of_type = match &self.event_type {
            Some(one) => one == event_type,
            None => !self.except.contains(event_type),
        };
        self.domain == *domain && is_of_type
    }
}

impl Filter {
    /// Whether the rows that it selects can be far apart in the list of all operations, so that
    /// many rows are looked at for one that is found. Operations of one business object and of
    /// one batch have an index.
    pub fn searches(&self) -> bool {
        let has_index = self.biz_key.is_some() || self.batch_id.is_some();
        !has_index && *self != Self::default()
    }

    /// Whether the operation has the code that is asked for.
    pub fn has_code(&self, state: &State) -> bool {
        let Some(code) = &self.code else {
            return true;
        };
        let hold = state.hold.as_ref().map(|hold| &hold.failure.code);
        let failure = state.failure.as_ref().map(|failure| &failure.code);
        let error = state.last_error.as_ref().map(|error| &error.code);
        [hold, failure, error].contains(&Some(code))
    }

    /// How the code stands in the JSON of failures, holds and last errors. A quote inside a text is
    /// escaped there, so these bytes are found where a code is and nowhere else.
    pub fn code_in_json(&self) -> Option<String> {
        let code = self.code.as_ref()?;
        let code = serde_json::Value::from(code.as_str());
        Some(format!("\"code\":{code}"))
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Pass it to get the next page. `None`: this was the last page.
    pub next_cursor: Option<String>,
}

/// Number of counters of a domain.
pub const COUNTERS: usize = 8;

/// Maintained counters of one domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// PENDING.
    pub pending: u64,
    /// IN_PROGRESS and live, without an answer yet.
    pub live: u64,
    /// IN_PROGRESS with a recorded answer that is not final yet.
    pub recorded: u64,
    /// IN_PROGRESS and waiting.
    pub waiting: u64,
    /// IN_PROGRESS and held.
    pub held: u64,
    /// COMPLETED, pruned ones not included.
    pub completed: u64,
    /// FAILED, pruned ones not included.
    pub failed: u64,
    /// Dead letters that are open.
    #[serde(default)]
    pub dead_letters_open: u64,
}

impl Counts {
    /// The counters in the order in which stores keep them.
    pub fn in_order(&self) -> [u64; COUNTERS] {
        [
            self.pending,
            self.live,
            self.recorded,
            self.waiting,
            self.held,
            self.completed,
            self.failed,
            self.dead_letters_open,
        ]
    }

    /// The same, to change them.
    pub fn in_order_mut(&mut self) -> [&mut u64; COUNTERS] {
        [
            &mut self.pending,
            &mut self.live,
            &mut self.recorded,
            &mut self.waiting,
            &mut self.held,
            &mut self.completed,
            &mut self.failed,
            &mut self.dead_letters_open,
        ]
    }

    /// The place of [`Self::dead_letters_open`] in that order.
    pub const DEAD_LETTERS_OPEN: usize = COUNTERS - 1;

    /// The counter that `state` belongs to.
    pub fn of(&mut self, state: &State) -> &mut u64 {
        match (state.status, state.phase) {
            (Status::Pending, _) => &mut self.pending,
            (Status::Completed, _) => &mut self.completed,
            (Status::Failed, _) => &mut self.failed,
            (Status::InProgress, _) if !matches!(state.write_ahead, WriteAhead::Empty) => {
                &mut self.recorded
            }
            (Status::InProgress, Some(Phase::Live)) => &mut self.live,
            (Status::InProgress, Some(Phase::Held)) => &mut self.held,
            (Status::InProgress, _) => &mut self.waiting,
        }
    }
}
