//! What a store has to write.

use clinch_core::ports::{Accepted, Batch, COUNTERS, NewOperation, Scan, Written};
use clinch_core::protocol::{self, State};
use clinch_core::{
    Domain, EventType, Fingerprint, KeyHash, LaneKey, OpId, Priority, Sealed, Timestamp,
};

use super::letters::LetterWrite;
use super::row::{Line, Row};
use super::work::counter_of;

/// Everything that one commit writes. No part of it depends on the order in which a store
/// writes the parts.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The store's clock.
    pub now: Timestamp,
    /// Rows, in the order of their first change; new ones are in the order of acceptance.
    pub rows: Vec<RowWrite>,
    /// Lanes that were joined or left.
    pub lanes: Vec<LaneWrite>,
    /// Operations that are redriven, and by which: a mark that leaves the version as it is.
    pub redriven: Vec<(OpId, OpId)>,
    /// Dead letters whose status changed, also those that the plan makes and that are not open
    /// after it.
    pub letters: Vec<LetterWrite>,
    /// Batches whose counts changed.
    pub batches: Vec<BatchWrite>,
    /// Changes of the counters of domains, in the order of
    /// [`Counts::in_order`](clinch_core::ports::Counts::in_order).
    pub counts: Vec<(Domain, [i64; COUNTERS])>,
    /// Operations that became terminal.
    pub settled: Vec<OpId>,
    /// Streams in which a row may be due, and from when on.
    pub due: Vec<Due>,
    /// New needs of recovery: the earliest of each scan.
    pub needs: Vec<(Scan, Timestamp)>,
    pub(super) answers: Vec<Written>,
}

/// A row to insert, or to write by its version.
#[derive(Debug, Clone)]
pub struct RowWrite {
    /// As it is after the commit.
    pub row: Row,
    /// Its state before; `None`: the row is new.
    pub before: Option<State>,
    /// How much of it changed.
    pub extent: Extent,
    /// What it waits for after the commit.
    pub awaits: Awaits,
    /// The keys of a new row.
    pub key: Option<NewKey>,
    /// Lines to append to its history.
    pub lines: Vec<Line>,
    /// A checkpoint to store.
    pub checkpoint: Option<Sealed>,
    /// What to do about operations that its answer spawns.
    pub spawn: SpawnWrite,
    /// It FAILED other than by cancel: keep a dead letter.
    pub dead_letter: bool,
    /// A provider's yes came after it had FAILED: mark its dead letter.
    pub late_ok: bool,
}

/// How much of a row changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Nothing.
    Nothing,
    /// Its history and its mark of a late yes: its place in the queue and its version stay.
    Ledger,
    /// The row, and with it its place in the queue: earlier announcements and claims end.
    Whole,
}

/// What a row waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// Nothing that a clock or a worker brings: terminal, behind in its lane, or for a person.
    Nothing,
    /// A begin, from this moment on.
    Begin(Timestamp),
    /// Recovery, from this moment on.
    Recovery(Scan, Timestamp),
}

/// The keys of a new row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewKey {
    /// Of the four keys.
    pub hash: KeyHash,
    /// Of the request.
    pub fingerprint: Fingerprint,
}

/// What to do about operations that an answer spawns.
#[derive(Debug, Clone, PartialEq)]
pub enum SpawnWrite {
    /// Nothing.
    Leave,
    /// Keep these until the answer is final.
    Store(Vec<NewOperation>),
    /// The stored ones are accepted: delete them.
    Delete,
}

/// A lane that was joined or left.
#[derive(Debug, Clone)]
pub struct LaneWrite {
    /// The lane.
    pub lane: LaneKey,
    /// Seqs of new rows, provisional.
    pub joined: Vec<u64>,
    /// Seqs of rows that became terminal.
    pub left: Vec<u64>,
    /// Nobody is in it any more.
    pub is_empty: bool,
    /// The operation that is head by this commit and is not written by it otherwise: it stands
    /// in the queue from now on.
    pub lined_up: Option<(u64, Option<OpId>)>,
    /// The lane's domain.
    pub domain: Domain,
}

/// A batch whose counts changed.
#[derive(Debug, Clone)]
pub struct BatchWrite {
    /// As it is after the commit.
    pub batch: Batch,
    /// It is complete by this commit.
    pub completes: bool,
}

/// A stream of the queue in which a row may be due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// The row's domain.
    pub domain: Domain,
    /// The row's event type.
    pub event_type: EventType,
    /// The row's priority.
    pub priority: Priority,
    /// From when on.
    pub at: Timestamp,
}

impl Plan {
    /// Rows to insert, in the order of acceptance.
    pub fn new_rows(&self) -> impl Iterator<Item = &RowWrite> {
        self.rows.iter().filter(|write| write.before.is_none())
    }

    /// The answers to the writes that it covers. Seqs of new rows are provisional.
    pub fn answers(&self) -> &[Written] {
        &self.answers
    }

    /// Every answer is that of a row which the plan inserts or changes, and nothing beside these
    /// rows is written: a store may write each row alone, if the row is as the plan takes it to be.
    pub fn is_rows_alone(&self) -> bool {
        let is_alone = |write: &RowWrite| {
            write.extent == Extent::Whole
                && !write.had_ended()
                && write.checkpoint.is_none()
                && write.spawn == SpawnWrite::Leave
                && !write.dead_letter
        };
        let changes = |answer: &Written| match answer {
            Written::Changed(_) | Written::Begun(_) | Written::Accepted(Accepted::New { .. }) => {
                true
            }
            Written::Accepted(_)
            | Written::Refused(_)
            | Written::Sealed { .. }
            | Written::Letter(_)
            | Written::Noted(_) => false,
        };
        self.lanes.is_empty()
            && self.batches.is_empty()
            && self.redriven.is_empty()
            && self.letters.is_empty()
            && self.rows.iter().all(is_alone)
            && self.answers.iter().all(changes)
    }

    /// Domains in which a row may be due.
    pub fn due_domains(&self) -> std::collections::BTreeSet<&Domain> {
        let lined_up = self.lanes.iter().filter(|lane| lane.lined_up.is_some());
        let lined_up = lined_up.map(|lane| &lane.domain);
        self.due
            .iter()
            .map(|due| &due.domain)
            .chain(lined_up)
            .collect()
    }
}

impl RowWrite {
    /// The row had ended before this commit.
    pub fn had_ended(&self) -> bool {
        self.before.as_ref().is_some_and(State::is_terminal)
    }

    /// The counters of its domain that the row leaves and enters, by their places in
    /// [`Counts::in_order`](clinch_core::ports::Counts::in_order).
    pub fn counters(&self) -> (Option<usize>, usize) {
        (
            self.before.as_ref().map(counter_of),
            counter_of(&self.row.state),
        )
    }
}

impl Awaits {
    pub(super) fn of(state: &State, is_behind: bool, now: Timestamp) -> Self {
        match state.due() {
            protocol::Due::Finalize => Self::Recovery(Scan::Unfinalized, now),
            protocol::Due::Reap(at) => Self::Recovery(Scan::LeaseEnded, at),
            protocol::Due::Probe(Some(at)) => Self::Recovery(Scan::ProbeDue, at),
            protocol::Due::Begin(at) if !is_behind => Self::Begin(at),
            protocol::Due::Begin(_) | protocol::Due::Probe(None) | protocol::Due::Never => {
                Self::Nothing
            }
        }
    }
}
