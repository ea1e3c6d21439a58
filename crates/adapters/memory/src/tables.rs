//! Every table of the store, and the one way to write an operation's row.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use clinch_core::ports::{
    ApiKey, Counts, Document, LedgerLine, LetterState, LetterView, NewOperation, Operation, Pause,
    Record, Scan,
};
use clinch_core::protocol::{Due, LaneStand, State};
use clinch_core::{
    BatchId, Domain, Fingerprint, KeyHash, LaneKey, OpId, ProcessId, Status, Timestamp, WorkerId,
};

use clinch_stored::commit::BatchRow;

use crate::Table;

/// What is stored. Public so that tests and simulations can look and meddle; nothing else
/// should.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// Operations, open and settled.
    pub rows: Table<OpId, Row>,
    /// By hash of the four keys; outlives the row.
    pub keys: Table<KeyHash, Key>,
    /// What open rows wait for, in the order in which it is served.
    pub slots: Table<Slot, OpId>,
    /// Lanes: their open operations by seq. The first one may begin.
    pub lanes: Table<LaneKey, BTreeMap<u64, OpId>>,
    /// Batches.
    pub batches: Table<BatchId, BatchRow>,
    /// Operations that ended FAILED other than by cancel.
    pub dead_letters: Table<OpId, LetterView>,
    /// Everything that was said of an operation.
    pub ledger: Table<OpId, Vec<LedgerLine>>,
    /// Domains with their counters.
    pub domains: Table<Domain, DomainRow>,
    /// Who paused a domain, when and why.
    pub pauses: Table<Domain, Pause>,
    /// Locks by name.
    pub locks: Table<String, LockRow>,
    /// Keys of the API by id.
    pub api_keys: Table<String, ApiKey>,
    /// Records of an application by key.
    pub records: Table<String, Record>,
    /// Documents of an application by collection and id.
    pub documents: Table<(String, String), Document>,
    /// When each running process last said that it is alive.
    pub processes: Table<ProcessId, Timestamp>,
    /// The latest time that was vouched for; moved by prunes alone.
    pub seen_at: Option<Timestamp>,
    /// The last seq given out. Not rolled back: a gap is harmless, a repeat is not.
    pub seq: u64,
}

/// One operation.
#[derive(Debug, Clone)]
pub struct Row {
    /// What others see.
    pub operation: Operation,
    /// What the recorded answer spawns when it is final.
    pub spawn: Vec<NewOperation>,
    /// The queue row; none once terminal.
    pub queue: Option<QueueRow>,
}

/// The queue row of an open operation.
#[derive(Debug, Clone, Default)]
pub struct QueueRow {
    /// When the operation last changed.
    pub since: Timestamp,
    /// When it was last announced since then.
    pub announced_at: Option<Timestamp>,
    /// How often since then.
    pub rounds: u32,
    /// Who works on it, and until when.
    pub claim: Option<(WorkerId, Timestamp)>,
    /// Since when: tells this claim from an earlier one.
    pub claimed_at: Timestamp,
    /// Where it stands in [`Tables::slots`].
    pub slots: Vec<Slot>,
}

/// A place in line. The order of this type is the order of service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// Waits for a begin and has not been announced.
    Fresh {
        /// Its domain.
        domain: Domain,
        /// Higher first.
        priority: Reverse<i8>,
        /// Not before.
        due: Timestamp,
        /// Earlier first.
        seq: u64,
    },
    /// Waits for a begin and has been announced.
    Announced {
        /// When.
        at: Timestamp,
        /// Earlier first.
        seq: u64,
    },
    /// Needs recovery.
    Need {
        /// Which.
        scan: Scan,
        /// From when on.
        since: Timestamp,
        /// Earlier first.
        seq: u64,
    },
}

/// What is known by the four keys.
#[derive(Debug, Clone)]
pub struct Key {
    /// The operation.
    pub op_id: OpId,
    /// Of its request.
    pub fingerprint: Fingerprint,
    /// Its final state, once it has one.
    pub settled: Option<(Status, Timestamp)>,
}

/// A domain.
#[derive(Debug, Clone, Copy, Default)]
pub struct DomainRow {
    /// No attempt begins.
    pub paused: bool,
    /// Maintained with every row.
    pub counts: Counts,
}

/// A lock.
#[derive(Debug, Clone)]
pub struct LockRow {
    /// Who has it.
    pub owner: WorkerId,
    /// Until when.
    pub until: Timestamp,
    /// Grows with every new owner.
    pub fence: u64,
}

impl Tables {
    /// The domain's row, or an empty one.
    pub fn domain(&self, domain: &Domain) -> DomainRow {
        self.domains.get(domain).copied().unwrap_or_default()
    }

    /// Where the operation stands in its lane.
    pub fn lane_stand(&self, operation: &Operation) -> LaneStand {
        let members = operation.lane.and_then(|lane| self.lanes.get(&lane));
        match members.and_then(|members| members.keys().next()) {
            None => LaneStand::Unordered,
            Some(head) if *head == operation.seq => LaneStand::Ours,
            Some(_) => LaneStand::Behind,
        }
    }

    /// Writes a row: its place in line and its domain's counters move with it.
    pub fn put(&mut self, mut row: Row) {
        let op_id = row.operation.op_id;
        let domain = row.operation.keys.domain.clone();
        let before = self.rows.get(&op_id);
        let left = before.map(|row| row.operation.state.clone());
        let places = before.and_then(|row| row.queue.as_ref());
        for slot in places.map(|queue| queue.slots.clone()).unwrap_or_default() {
            self.slots.remove(&slot);
        }
        let slots = self.slots_of(&row);
        for slot in &slots {
            self.slots.insert(slot.clone(), op_id);
        }
        if let Some(queue) = row.queue.as_mut() {
            queue.slots = slots;
        }
        self.count(&domain, left.as_ref(), Some(&row.operation.state));
        self.rows.insert(op_id, row);
    }

    /// Deletes a settled row and what goes with it.
    pub fn forget(&mut self, op_id: OpId) {
        if let Some(row) = self.rows.get(&op_id).cloned() {
            let domain = row.operation.keys.domain.clone();
            self.count(&domain, Some(&row.operation.state), None);
            self.rows.remove(&op_id);
            self.ledger.remove(&op_id);
            self.put_letter(op_id, None);
        }
    }

    /// Writes or deletes a dead letter: its domain's counter of open ones moves with it.
    pub fn put_letter(&mut self, op_id: OpId, letter: Option<LetterView>) {
        let before = self.dead_letters.get(&op_id).cloned();
        for (one, is_left) in [(&before, true), (&letter, false)] {
            let Some(one) = one else { continue };
            if one.status.state() == LetterState::Open {
                let mut row = self.domain(&one.keys.domain);
                match is_left {
                    true => row.counts.dead_letters_open -= 1,
                    false => row.counts.dead_letters_open += 1,
                }
                self.domains.insert(one.keys.domain.clone(), row);
            }
        }
        match letter {
            Some(letter) => self.dead_letters.insert(op_id, letter),
            None => self.dead_letters.remove(&op_id),
        }
    }

    fn count(&mut self, domain: &Domain, left: Option<&State>, entered: Option<&State>) {
        let mut row = self.domain(domain);
        if let Some(state) = left {
            *row.counts.of(state) -= 1;
        }
        if let Some(state) = entered {
            *row.counts.of(state) += 1;
        }
        self.domains.insert(domain.clone(), row);
    }

    fn slots_of(&self, row: &Row) -> Vec<Slot> {
        let Some(queue) = &row.queue else {
            return Vec::new();
        };
        let operation = &row.operation;
        let seq = operation.seq;
        let need = |scan, since| Slot::Need { scan, since, seq };
        match operation.state.due() {
            Due::Never | Due::Probe(None) => Vec::new(),
            Due::Finalize => vec![need(Scan::Unfinalized, queue.since)],
            Due::Reap(at) => vec![need(Scan::LeaseEnded, at)],
            Due::Probe(Some(at)) => vec![need(Scan::ProbeDue, at)],
            Due::Begin(due) => {
                let overdue = operation.state.deadline.map(|at| need(Scan::Overdue, at));
                let line = match queue.announced_at {
                    _ if self.lane_stand(operation) == LaneStand::Behind => None,
                    Some(at) => Some(Slot::Announced { at, seq }),
                    None => Some(Slot::Fresh {
                        domain: operation.keys.domain.clone(),
                        priority: Reverse(operation.options.priority.get()),
                        due,
                        seq,
                    }),
                };
                overdue.into_iter().chain(line).collect()
            }
        }
    }

    pub(crate) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(crate) fn commit(&mut self) {
        self.end(true);
    }

    pub(crate) fn roll_back(&mut self) {
        self.end(false);
    }

    fn end(&mut self, keep: bool) {
        fn end<K: Ord + Clone, V>(table: &mut Table<K, V>, keep: bool) {
            if keep {
                table.commit();
            } else {
                table.roll_back();
            }
        }
        end(&mut self.rows, keep);
        end(&mut self.keys, keep);
        end(&mut self.slots, keep);
        end(&mut self.lanes, keep);
        end(&mut self.batches, keep);
        end(&mut self.dead_letters, keep);
        end(&mut self.ledger, keep);
        end(&mut self.domains, keep);
        end(&mut self.locks, keep);
        end(&mut self.api_keys, keep);
        end(&mut self.records, keep);
        end(&mut self.documents, keep);
    }
}
