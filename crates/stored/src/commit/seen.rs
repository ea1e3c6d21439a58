//! What a transaction has read, and what it has to read before it can go on.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use clinch_core::ports::{Batch, Known, LetterStatus, NewBatch, NewOperation};
use clinch_core::{BatchId, Domain, Fingerprint, KeyHash, Keys, LaneKey, OpId, Result, Status};

use super::row::Row;
use crate::{error, json};

/// What a transaction has read and locked. Entries of `None` are known to be absent.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub(super) rows: HashMap<OpId, Option<Row>>,
    pub(super) keys: HashMap<KeyHash, Option<KnownKey>>,
    pub(super) taken: HashMap<OpId, bool>,
    pub(super) lanes: HashMap<LaneKey, Members>,
    pub(super) batches: HashMap<BatchId, Option<BatchRow>>,
    pub(super) paused: HashMap<Domain, bool>,
    pub(super) spawns: HashMap<OpId, Vec<NewOperation>>,
    pub(super) letters: HashMap<OpId, Option<SeenLetter>>,
}

/// What to read and lock.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Rows; true: with request and checkpoint.
    pub rows: BTreeMap<OpId, bool>,
    /// Keys, by hash.
    pub keys: BTreeMap<KeyHash, WantedKey>,
    /// Ids of new operations: whether they name an operation already.
    pub ids: BTreeSet<OpId>,
    /// Lanes that an operation joins or leaves.
    pub lanes: BTreeSet<LaneKey>,
    /// The first members of each lane, as many as this, are enough.
    pub lane_depth: usize,
    /// Batches.
    pub batches: BTreeSet<BatchId>,
    /// Domains: whether they are paused.
    pub domains: BTreeSet<Domain>,
    /// Operations whose stored spawned operations are needed.
    pub spawns: BTreeSet<OpId>,
    /// Operations whose dead letters are needed. They are locked after the rows.
    pub letters: BTreeSet<OpId>,
}

/// A dead letter that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenLetter {
    /// The letter's domain.
    pub domain: Domain,
    /// Its status.
    pub status: LetterStatus,
}

/// The keys of a new operation.
#[derive(Debug, Clone)]
pub struct WantedKey {
    /// The four keys.
    pub keys: Keys,
    /// The operation that wants them.
    pub op_id: OpId,
    /// The fingerprint that would be stored.
    pub fingerprint: Fingerprint,
}

/// What is known by the four keys.
#[derive(Debug, Clone)]
pub struct KnownKey {
    /// The operation, and where it stands or stood.
    pub known: Known,
    /// Of its request; `None`: of no request that this version can make.
    pub fingerprint: Option<Fingerprint>,
}

/// The open operations of a lane by seq, from the first one on.
#[derive(Debug, Clone, Default)]
pub struct Members {
    /// Their ids, where the store reads them.
    pub open: BTreeMap<u64, Option<OpId>>,
    /// There are further ones.
    pub has_more: bool,
}

/// A batch.
#[derive(Debug, Clone)]
pub struct BatchRow {
    /// Its counts.
    pub batch: Batch,
    /// The operation to accept when it completes, as JSON.
    pub on_complete: Option<Vec<u8>>,
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.keys.is_empty()
            && self.ids.is_empty()
            && self.lanes.is_empty()
            && self.batches.is_empty()
            && self.domains.is_empty()
            && self.spawns.is_empty()
            && self.letters.is_empty()
    }

    /// Nothing but keys, ids and pauses: a store may take the keys to be new and the domains not to
    /// be paused, and find out when it writes.
    pub fn is_of_new_keys(&self) -> bool {
        self.rows.is_empty()
            && self.lanes.is_empty()
            && self.batches.is_empty()
            && self.spawns.is_empty()
            && self.letters.is_empty()
    }
}

impl Seen {
    /// A row that was read.
    pub fn row(&mut self, row: Row) {
        self.rows.insert(row.op_id, Some(row));
    }

    /// Whether a row was read.
    pub fn has_row(&self, op_id: OpId) -> bool {
        self.rows.get(&op_id).is_some_and(Option::is_some)
    }

    /// Keys that are known.
    pub fn key(&mut self, hash: KeyHash, key: KnownKey) {
        self.keys.insert(hash, Some(key));
    }

    /// An id that names an operation.
    pub fn taken(&mut self, op_id: OpId) {
        self.taken.insert(op_id, true);
    }

    /// A lane.
    pub fn lane(&mut self, lane: LaneKey, members: Members) {
        self.lanes.insert(lane, members);
    }

    /// A batch.
    pub fn batch(&mut self, row: BatchRow) {
        self.batches.insert(row.batch.batch_id, Some(row));
    }

    /// A domain that is paused.
    pub fn paused(&mut self, domain: Domain) {
        self.paused.insert(domain, true);
    }

    /// A domain that is not paused.
    pub fn not_paused(&mut self, domain: Domain) {
        self.paused.insert(domain, false);
    }

    /// Whether it is known if the domain is paused.
    pub fn knows_pause(&self, domain: &Domain) -> bool {
        self.paused.contains_key(domain)
    }

    /// What the recorded answer of an operation spawns.
    pub fn spawned(&mut self, op_id: OpId, spawn: Vec<NewOperation>) {
        self.spawns.insert(op_id, spawn);
    }

    /// The dead letter of an operation.
    pub fn letter(&mut self, op_id: OpId, letter: SeenLetter) {
        self.letters.insert(op_id, Some(letter));
    }

    /// What the recorded answer of an operation spawns, as JSON.
    pub fn spawn(&mut self, op_id: OpId, stored: &[u8]) -> Result<()> {
        self.spawned(op_id, json::read(stored)?);
        Ok(())
    }

    /// Whatever was wanted and not found is absent.
    pub(super) fn conclude(&mut self, wanted: Wanted) -> Result<()> {
        for (op_id, whole) in wanted.rows {
            let row = self.rows.entry(op_id).or_default();
            if whole && row.as_ref().is_some_and(|row| row.request.is_none()) {
                return Err(error::corrupt("request"));
            }
        }
        for hash in wanted.keys.into_keys() {
            self.keys.entry(hash).or_default();
        }
        for op_id in wanted.ids {
            self.taken.entry(op_id).or_default();
        }
        for lane in wanted.lanes {
            self.lanes.entry(lane).or_default();
        }
        for batch_id in wanted.batches {
            self.batches.entry(batch_id).or_default();
        }
        for domain in wanted.domains {
            self.paused.entry(domain).or_default();
        }
        for op_id in wanted.spawns {
            self.spawns.entry(op_id).or_default();
        }
        for op_id in wanted.letters {
            self.letters.entry(op_id).or_default();
        }
        Ok(())
    }

    /// Everything but pauses may have changed.
    pub(super) fn forget_rows(&mut self) {
        let paused = std::mem::take(&mut self.paused);
        *self = Self {
            paused,
            ..Self::default()
        };
    }
}

impl KnownKey {
    pub(super) fn of_new(new: &NewOperation) -> Self {
        Self {
            known: Known {
                op_id: new.op_id,
                status: Status::Pending,
                pruned: false,
            },
            fingerprint: new.fingerprints.first().copied(),
        }
    }
}

impl BatchRow {
    /// A batch that was just opened.
    pub fn open(new: &NewBatch) -> Result<Self> {
        let event = new.on_complete.as_ref().map(json::to_bytes);
        Ok(Self {
            batch: Batch::empty(new),
            on_complete: event.transpose()?,
        })
    }
}

impl Members {
    pub(super) fn head(&self) -> Option<u64> {
        self.open.keys().next().copied()
    }
}
