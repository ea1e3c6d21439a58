//! A plan in the making.

use std::collections::{BTreeMap, HashMap, HashSet};

use clinch_core::policy::Routes;
use clinch_core::ports::{COUNTERS, Counts, ResultRecord, Scan, Write, Written};
use clinch_core::protocol::{LaneStand, State};
use clinch_core::{
    BatchId, Domain, Error, KeyHash, LaneKey, OpId, Result, Status, Timestamp, WorkerId,
};

use super::batch::BatchWork;
use super::letters::LetterWork;
use super::plan::{Awaits, Due, Extent, LaneWrite, Plan, RowWrite, SpawnWrite};
use super::row::{Line, PROVISIONAL, Row};
use super::seen::{KnownKey, Members, Seen, Wanted};

/// What planning came to.
pub(super) enum Planned {
    Load(Wanted),
    Write(Plan),
}

/// Why a write cannot be planned now.
pub(super) enum Stop {
    /// Something has to be read first; it is in [`Work::wanted`].
    Load,
    /// The write changes a row that an earlier write of this plan inserts: that comes first.
    WriteFirst,
    /// The call is wrong, or what was read is.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

pub(super) type Step<T> = std::result::Result<T, Stop>;

/// What the writes so far have changed of what was read.
pub(super) struct Work<'a> {
    pub routes: &'a Routes,
    pub seen: &'a Seen,
    pub now: Timestamp,
    pub wanted: Wanted,
    pub(super) rows: HashMap<OpId, Box<RowWrite>>,
    /// Rows in the order in which they were first taken.
    order: Vec<OpId>,
    new_rows: u64,
    pub keys: HashMap<KeyHash, KnownKey>,
    lanes: BTreeMap<LaneKey, LaneWork>,
    pub batches: BTreeMap<BatchId, BatchWork>,
    pub(super) redriven: Vec<(OpId, OpId)>,
    pub letters: HashMap<OpId, LetterWork>,
    counts: BTreeMap<Domain, [i64; COUNTERS]>,
    pub settled: Vec<OpId>,
}

struct LaneWork {
    members: Members,
    head_before: Option<u64>,
    joined: Vec<u64>,
    left: Vec<u64>,
    domain: Domain,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        seen: &'a Seen,
        routes: &'a Routes,
        now: Timestamp,
        writes: &[Write],
    ) -> Self {
        let ends_a_row = |write: &&Write| {
            let ends_none = matches!(
                write,
                Write::Accept(_)
                    | Write::Extend(_)
                    | Write::Seal(_)
                    | Write::Letter(_)
                    | Write::Note(_)
            );
            !ends_none
        };
        let ends = writes.iter().filter(ends_a_row).count();
        Self {
            routes,
            seen,
            now,
            wanted: Wanted {
                // A write ends at most its own row and the one that redrives it.
                lane_depth: 2 * ends + 1,
                ..Wanted::default()
            },
            rows: HashMap::with_capacity(writes.len()),
            order: Vec::with_capacity(writes.len()),
            new_rows: 0,
            keys: HashMap::new(),
            lanes: BTreeMap::new(),
            batches: BTreeMap::new(),
            redriven: Vec::new(),
            letters: HashMap::new(),
            counts: BTreeMap::new(),
            settled: Vec::new(),
        }
    }

    /// Plans as many of the writes as can be written together. If anything is missing, goes on
    /// only to find out what else is, so that all of it is read at once.
    pub(super) fn plan(mut self, writes: &[Write]) -> Result<Planned> {
        let mut answers = Vec::with_capacity(writes.len());
        for write in writes {
            match self.apply(write) {
                Ok(answer) => answers.push(answer),
                Err(Stop::WriteFirst) => break,
                Err(Stop::Failed(error)) if self.wanted.is_empty() => return Err(error),
                Err(Stop::Failed(_) | Stop::Load) => {}
            }
        }
        match self.wanted.is_empty() {
            true => Ok(self.finish(answers)),
            false => Ok(Planned::Load(self.wanted)),
        }
    }

    fn apply(&mut self, write: &Write) -> Step<Written> {
        match write {
            Write::Accept(new) => self.accept_from_outside(new).map(Written::Accepted),
            Write::Begin(begin) => self.begin(begin),
            Write::Extend(extension) => self.extend(extension),
            Write::WriteAhead(answer) => self.answer(answer, false),
            Write::Settle(answer) => self.answer(answer, true),
            Write::Finalize(op_id) => self.finalize(*op_id),
            Write::Reschedule(attempt) => self.reschedule(attempt),
            Write::Amend(amendment) => self.amend(amendment),
            Write::Seal(batch_id) => self.seal(*batch_id),
            Write::Letter(change) => self.change_letter(change).map(Written::Letter),
            Write::Note(note) => self.note_of_person(note).map(Written::Noted),
        }
    }

    // Rows.

    /// The row of an operation, to change it; `None`: there is no such operation.
    pub(super) fn take(&mut self, op_id: OpId, whole: bool) -> Step<Option<Box<RowWrite>>> {
        if let Some(write) = self.rows.get(&op_id) {
            if write.before.is_none() {
                return Err(Stop::WriteFirst);
            }
            if !whole || write.row.request.is_some() {
                return Ok(self.rows.remove(&op_id));
            }
        }
        let mut row = match self.seen.rows.get(&op_id) {
            Some(Some(row)) if !whole || row.request.is_some() => row.clone(),
            Some(None) => return Ok(None),
            Some(Some(_)) | None => return Err(self.want_row(op_id, whole)),
        };
        let redriven = self.redriven.iter().rev().find(|(op, _)| *op == op_id);
        if let Some((_, by)) = redriven {
            row.redriven_by = Some(*by);
        }
        self.order.push(op_id);
        Ok(Some(Box::new(RowWrite::of(row))))
    }

    fn want_row(&mut self, op_id: OpId, whole: bool) -> Stop {
        *self.wanted.rows.entry(op_id).or_default() |= whole;
        Stop::Load
    }

    /// Keeps a row that was taken.
    pub(super) fn put(&mut self, write: Box<RowWrite>) {
        self.rows.insert(write.row.op_id, write);
    }

    /// Keeps a new row.
    pub(super) fn put_new(&mut self, write: Box<RowWrite>) {
        self.new_rows += 1;
        self.order.push(write.row.op_id);
        self.rows.insert(write.row.op_id, write);
    }

    /// Stands for the seq of the next new row.
    pub(super) fn next_seq(&self) -> u64 {
        PROVISIONAL + self.new_rows
    }

    /// The state of an operation as this commit leaves it so far.
    pub(super) fn state(&mut self, op_id: OpId) -> Step<Option<&State>> {
        if !self.rows.contains_key(&op_id) && !self.seen.rows.contains_key(&op_id) {
            return Err(self.want_row(op_id, false));
        }
        let changed = self.rows.get(&op_id).map(|write| &write.row);
        let seen = self.seen.rows.get(&op_id).and_then(Option::as_ref);
        Ok(changed.or(seen).map(|row| &row.state))
    }

    /// The status of an operation, if this commit has read or changed it.
    pub(super) fn status_if_seen(&self, op_id: OpId) -> Option<Status> {
        let changed = self.rows.get(&op_id).map(|write| &write.row);
        let seen = || self.seen.rows.get(&op_id).and_then(Option::as_ref);
        changed.or_else(seen).map(|row| row.state.status)
    }

    /// The id names an operation.
    pub(super) fn is_taken(&mut self, op_id: OpId) -> Step<bool> {
        if self.rows.contains_key(&op_id) {
            return Ok(true);
        }
        let seen = self.seen.rows.get(&op_id).map(Option::is_some);
        match seen.or_else(|| self.seen.taken.get(&op_id).copied()) {
            Some(is_taken) => Ok(is_taken),
            None => {
                self.wanted.ids.insert(op_id);
                Err(Stop::Load)
            }
        }
    }

    pub(super) fn note(&self, write: &mut RowWrite, line: Note<'_>) {
        let state = &write.row.state;
        write.lines.push(Line {
            at: self.now,
            event: line.event,
            fence: state.fence,
            version: state.version,
            status: state.status,
            phase: state.phase,
            by: line.by.cloned(),
            refused: line.refused,
            note: line.note,
            late: line.late,
        });
        write.extent = write.extent.max(Extent::Ledger);
    }

    /// Adds a line to a row that was put back.
    pub(super) fn note_on(&mut self, op_id: OpId, line: Note<'_>) {
        if let Some(mut write) = self.rows.remove(&op_id) {
            self.note(&mut write, line);
            self.rows.insert(op_id, write);
        }
    }

    // Domains.

    pub(super) fn is_paused(&mut self, domain: &Domain) -> Step<bool> {
        match self.seen.paused.get(domain) {
            Some(paused) => Ok(*paused),
            None => {
                self.wanted.domains.insert(domain.clone());
                Err(Stop::Load)
            }
        }
    }

    /// What this commit adds to the counters of a domain.
    pub(super) fn counters(&mut self, domain: &Domain) -> &mut [i64; COUNTERS] {
        if !self.counts.contains_key(domain) {
            self.counts.insert(domain.clone(), [0; COUNTERS]);
        }
        self.counts.entry(domain.clone()).or_insert([0; COUNTERS])
    }

    /// Moves an operation from one counter to another.
    pub(super) fn count(&mut self, domain: &Domain, left: Option<&State>, entered: &State) {
        let counters = self.counters(domain);
        if let Some(state) = left {
            counters[counter_of(state)] -= 1;
        }
        counters[counter_of(entered)] += 1;
    }

    // Lanes.

    fn lane(&mut self, lane: LaneKey, domain: &Domain) -> Step<&mut LaneWork> {
        use std::collections::btree_map::Entry;
        match self.lanes.entry(lane) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => match self.seen.lanes.get(&lane) {
                Some(members) => Ok(unknown.insert(LaneWork {
                    head_before: members.head(),
                    members: members.clone(),
                    joined: Vec::new(),
                    left: Vec::new(),
                    domain: domain.clone(),
                })),
                None => {
                    self.wanted.lanes.insert(lane);
                    Err(Stop::Load)
                }
            },
        }
    }

    /// A new operation joins at the tail.
    pub(super) fn join_lane(
        &mut self,
        lane: LaneKey,
        domain: &Domain,
        seq: u64,
        op: OpId,
    ) -> Step<()> {
        let held = self.lane(lane, domain)?;
        held.members.open.insert(seq, Some(op));
        held.joined.push(seq);
        Ok(())
    }

    /// The operation is terminal.
    pub(super) fn leave_lane(&mut self, row: &Row) -> Step<()> {
        let Some(lane) = row.lane else {
            return Ok(());
        };
        let held = self.lane(lane, &row.domain)?;
        held.members.open.remove(&row.seq);
        held.left.push(row.seq);
        if held.members.open.is_empty() && held.members.has_more {
            return Err(Stop::Failed(crate::error::corrupt("lane")));
        }
        Ok(())
    }

    /// Where an operation stands in its lane. One that is live or held is its head.
    pub(super) fn stand(&mut self, write: &RowWrite) -> Step<LaneStand> {
        let row = &write.row;
        let Some(lane) = row.lane else {
            return Ok(LaneStand::Unordered);
        };
        if let Some(held) = self.lanes.get(&lane) {
            return Ok(match held.members.head() {
                None => LaneStand::Unordered,
                Some(head) if head == row.seq => LaneStand::Ours,
                Some(_) => LaneStand::Behind,
            });
        }
        let awaited_begin = write.before.as_ref().is_none_or(State::awaits_begin);
        match row.is_head {
            _ if !awaited_begin => Ok(LaneStand::Ours),
            Some(true) => Ok(LaneStand::Ours),
            Some(false) => Ok(LaneStand::Behind),
            None => {
                self.lane(lane, &row.domain)?;
                self.stand(write)
            }
        }
    }

    // The end.

    fn finish(mut self, answers: Vec<Written>) -> Planned {
        let mut rows = Vec::with_capacity(self.order.len());
        for op_id in std::mem::take(&mut self.order) {
            let Some(mut write) = self.rows.remove(&op_id) else {
                continue;
            };
            if write.extent == Extent::Whole && write.row.state.awaits_begin() {
                let Ok(stand) = self.stand(&write) else {
                    return Planned::Load(self.wanted);
                };
                write.row.is_head = Some(stand != LaneStand::Behind);
            }
            if write.extent != Extent::Nothing {
                let is_behind = write.row.is_head == Some(false);
                write.awaits = Awaits::of(&write.row.state, is_behind, self.now);
                rows.push(*write);
            }
        }
        let mut plan = Plan {
            now: self.now,
            lanes: lanes(self.lanes, &rows),
            redriven: self.redriven,
            letters: super::letters::writes(self.letters),
            batches: super::batch::writes(self.batches),
            counts: self.counts.into_iter().collect(),
            settled: self.settled,
            due: Vec::new(),
            needs: Vec::new(),
            rows,
            answers,
        };
        plan.counts.retain(|(_, by)| *by != [0; COUNTERS]);
        plan.wake();
        Planned::Write(plan)
    }
}

impl Plan {
    /// Whom to wake for what the rows became.
    fn wake(&mut self) {
        let mut due = BTreeMap::new();
        let mut needs: BTreeMap<Scan, Timestamp> = BTreeMap::new();
        let mut need = |scan, at: Timestamp| {
            let first = needs.entry(scan).or_insert(at);
            *first = at.min(*first);
        };
        for write in self.rows.iter().filter(|one| one.extent == Extent::Whole) {
            let row = &write.row;
            match write.awaits {
                Awaits::Begin(at) => {
                    let stream = (&row.domain, &row.event_type, row.priority);
                    let first = due.entry(stream).or_insert(at);
                    *first = at.min(*first);
                }
                Awaits::Recovery(scan, at) => need(scan, at),
                Awaits::Nothing => {}
            }
            if let Some(deadline) = row.state.deadline.filter(|_| row.state.awaits_begin()) {
                need(Scan::Overdue, deadline);
            }
        }
        let due = due
            .into_iter()
            .map(|((domain, event_type, priority), at)| Due {
                domain: domain.clone(),
                event_type: event_type.clone(),
                priority,
                at,
            });
        self.due = due.collect();
        self.needs = needs.into_iter().collect();
    }
}

fn lanes(lanes: BTreeMap<LaneKey, LaneWork>, rows: &[RowWrite]) -> Vec<LaneWrite> {
    let whole = rows.iter().filter(|write| write.extent == Extent::Whole);
    let written: HashSet<u64> = whole.map(|write| write.row.seq).collect();
    let touched = lanes
        .into_iter()
        .filter(|(_, held)| !held.joined.is_empty() || !held.left.is_empty());
    touched
        .map(|(lane, held)| {
            let head = held.members.open.iter().next();
            let moved = head.filter(|(seq, _)| Some(**seq) != held.head_before);
            let lined_up = moved.filter(|(seq, _)| !written.contains(seq));
            LaneWrite {
                lane,
                is_empty: held.members.open.is_empty() && !held.members.has_more,
                lined_up: lined_up.map(|(seq, op)| (*seq, *op)),
                joined: held.joined,
                left: held.left,
                domain: held.domain,
            }
        })
        .collect()
}

/// A line before the row's state is written into it.
#[derive(Default)]
pub(super) struct Note<'a> {
    pub event: &'static str,
    pub by: Option<&'a WorkerId>,
    pub refused: Option<String>,
    pub note: String,
    pub late: Option<ResultRecord>,
}

impl RowWrite {
    /// A row that was read.
    pub(super) fn of(row: Row) -> Self {
        Self {
            before: Some(row.state.clone()),
            row,
            extent: Extent::Nothing,
            awaits: Awaits::Nothing,
            key: None,
            lines: Vec::new(),
            checkpoint: None,
            spawn: SpawnWrite::Leave,
            dead_letter: false,
            late_ok: false,
        }
    }
}

/// The place of a state's counter among the columns: pending, live, recorded, waiting, held,
/// completed, failed.
pub(super) fn counter_of(state: &State) -> usize {
    let mut counts = Counts::default();
    *counts.of(state) = 1;
    let place = counts.in_order().iter().position(|count| *count == 1);
    place.unwrap_or(0)
}
