//! The hot path: what a commit needs is loaded from the tables, and its plan is written to them.

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Known, LedgerLine, Operation, Scan, Store, Write, Written};
use clinch_core::protocol::LaneStand;
use clinch_core::{LaneKey, Result, Status, Timestamp};
use clinch_stored::commit::{
    self, Extent, KnownKey, LaneWrite, Members, Next, Plan, Request, RowWrite, Seen, SeenLetter,
    SpawnWrite, Unit, Wanted, is_provisional,
};
use clinch_stored::letters;

use crate::{Key, Memory, QueueRow, Row, Slot, Tables, Tx};

#[async_trait]
impl Store for Memory {
    async fn commit(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        self.write(|tx| tx.commit(writes, routes))
    }
}

impl Tx<'_> {
    pub(crate) fn commit(&mut self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        let mut unit = Unit::new(writes, routes);
        loop {
            match unit.next(self.now)? {
                Next::Load => {
                    let (wanted, seen) = unit.load();
                    self.tables.load(wanted, seen);
                }
                Next::Write(plan) => {
                    let seqs = self.apply(&plan)?;
                    unit.written(plan, &seqs);
                }
                Next::Done(answers) => return Ok(answers),
            }
        }
    }

    /// Writes a plan; the seqs of its new rows.
    fn apply(&mut self, plan: &Plan) -> Result<Vec<u64>> {
        let seqs: Vec<u64> = plan.new_rows().map(|_| self.tables.next_seq()).collect();
        let first = plan.new_rows().next().map_or(0, |write| write.row.seq);
        let drawn = |seq: u64| match is_provisional(seq) {
            true => seqs[(seq - first) as usize],
            false => seq,
        };
        // Places in the queue depend on lanes, so lanes are written first.
        for lane in &plan.lanes {
            self.write_lane(lane, plan, drawn);
        }
        for write in &plan.rows {
            self.write_row(write, drawn(write.row.seq))?;
        }
        for lane in &plan.lanes {
            if let Some((seq, _)) = lane.lined_up {
                self.line_up(lane.lane, seq);
            }
        }
        for (predecessor, by) in &plan.redriven {
            if let Some(mut row) = self.tables.rows.get(predecessor).cloned() {
                row.operation.redriven_by = Some(*by);
                self.tables.put(row);
            }
        }
        for write in &plan.letters {
            if let Some(mut letter) = self.tables.dead_letters.get(&write.op_id).cloned() {
                letter.status = write.status.clone();
                self.tables.put_letter(write.op_id, Some(letter));
            }
        }
        for write in &plan.batches {
            if let Some(mut row) = self.tables.batches.get(&write.batch.batch_id).cloned() {
                row.batch = write.batch.clone();
                self.tables.batches.insert(write.batch.batch_id, row);
            }
        }
        self.news.settled.extend(&plan.settled);
        Ok(seqs)
    }

    fn write_lane(&mut self, write: &LaneWrite, plan: &Plan, drawn: impl Fn(u64) -> u64) {
        let mut lane = self.tables.lanes.get(&write.lane).cloned();
        let members = lane.get_or_insert_default();
        for seq in &write.joined {
            let new = plan.new_rows().find(|new| new.row.seq == *seq);
            members.extend(new.map(|new| (drawn(*seq), new.row.op_id)));
        }
        for seq in &write.left {
            members.remove(seq);
        }
        match lane.filter(|members| !members.is_empty()) {
            Some(members) => self.tables.lanes.insert(write.lane, members),
            None => self.tables.lanes.remove(&write.lane),
        }
    }

    /// The operation is head of its lane now.
    fn line_up(&mut self, lane: LaneKey, seq: u64) {
        let head = self.tables.lanes.get(&lane);
        let head = head.and_then(|members| members.get(&seq).copied());
        if let Some(row) = head.and_then(|op| self.tables.rows.get(&op)).cloned() {
            self.put(row);
        }
    }

    fn write_row(&mut self, write: &RowWrite, seq: u64) -> Result<()> {
        let op_id = write.row.op_id;
        let lines = self.tables.ledger.get(&op_id);
        let mut lines = lines.cloned().unwrap_or_default();
        lines.extend(write.lines.iter().cloned().map(LedgerLine::from));
        self.tables.ledger.insert(op_id, lines);
        if let Some(mut letter) = self.tables.dead_letters.get(&op_id).cloned() {
            letter.late_ok |= write.late_ok;
            self.tables.put_letter(op_id, Some(letter));
        }
        if let Some(key) = write.key {
            let known = Key {
                op_id,
                fingerprint: key.fingerprint,
                settled: None,
            };
            self.tables.keys.insert(key.hash, known);
        }
        let mut operation = write.row.operation()?;
        operation.seq = seq;
        let before = self.tables.rows.get(&op_id).cloned();
        let (mut spawn, queue) = before.map_or_else(Default::default, |row| (row.spawn, row.queue));
        match &write.spawn {
            SpawnWrite::Leave => {}
            SpawnWrite::Store(new) => spawn.clone_from(new),
            SpawnWrite::Delete => spawn.clear(),
        }
        if write.dead_letter {
            let letter = letters::of(&write.row, self.now)?;
            self.tables.put_letter(op_id, Some(letter));
        }
        let queue = match write.extent {
            Extent::Whole if operation.state.is_terminal() => {
                self.remember_end(&operation);
                None
            }
            Extent::Whole => Some(QueueRow {
                since: self.now,
                ..QueueRow::default()
            }),
            Extent::Ledger | Extent::Nothing => queue,
        };
        let row = Row {
            operation,
            spawn,
            queue,
        };
        match write.extent {
            Extent::Whole => self.put(row),
            Extent::Ledger | Extent::Nothing => self.tables.put(row),
        }
        Ok(())
    }

    /// Writes the row and tells who waits for what it became.
    pub(crate) fn put(&mut self, row: Row) {
        let op_id = row.operation.op_id;
        self.tables.put(row);
        let row = self.tables.rows.get(&op_id);
        let slots = row.and_then(|row| row.queue.as_ref()).map(|q| &q.slots);
        for slot in slots.into_iter().flatten() {
            match slot {
                Slot::Fresh { domain, .. } => {
                    self.news.due.insert(domain.clone());
                }
                Slot::Need { scan, .. } => {
                    self.news.recovery |= is_first(self.tables, *scan, slot);
                }
                Slot::Announced { .. } => {}
            }
        }
    }

    fn remember_end(&mut self, operation: &Operation) {
        let hash = operation.keys.hash();
        if let Some(mut key) = self.tables.keys.get(&hash).cloned() {
            key.settled = Some((operation.state.status, self.now));
            self.tables.keys.insert(hash, key);
        }
    }
}

impl Tables {
    fn load(&self, wanted: &Wanted, seen: &mut Seen) {
        for op_id in wanted.rows.keys() {
            if let Some(row) = self.rows.get(op_id) {
                seen.row(self.row(row));
            }
        }
        for hash in wanted.keys.keys() {
            if let Some(key) = self.keys.get(hash) {
                let known = KnownKey {
                    known: known(self, key),
                    fingerprint: Some(key.fingerprint),
                };
                seen.key(*hash, known);
            }
        }
        for op_id in wanted.ids.iter().filter(|op| self.rows.contains(op)) {
            seen.taken(*op_id);
        }
        for lane in &wanted.lanes {
            let members = self.lanes.get(lane).into_iter().flatten();
            let open = members.map(|(seq, op)| (*seq, Some(*op))).collect();
            let has_more = false;
            seen.lane(*lane, Members { open, has_more });
        }
        for batch_id in &wanted.batches {
            if let Some(row) = self.batches.get(batch_id) {
                seen.batch(row.clone());
            }
        }
        for domain in wanted.domains.iter().filter(|one| self.domain(one).paused) {
            seen.paused(domain.clone());
        }
        for op_id in &wanted.spawns {
            if let Some(row) = self.rows.get(op_id) {
                seen.spawned(*op_id, row.spawn.clone());
            }
        }
        for op_id in &wanted.letters {
            if let Some(letter) = self.dead_letters.get(op_id) {
                let domain = letter.keys.domain.clone();
                let status = letter.status.clone();
                seen.letter(*op_id, SeenLetter { domain, status });
            }
        }
    }

    fn row(&self, row: &Row) -> commit::Row {
        let operation = &row.operation;
        let keys = &operation.keys;
        let request = Request {
            biz_key: keys.biz_key.clone(),
            idem_key: keys.idem_key.clone(),
            payload: operation.payload.clone(),
            content_hash: operation.content_hash,
            outbound_key: operation.outbound_key.clone(),
            run_at: operation.options.run_at,
            deadline: operation.options.deadline,
            labels: operation.options.labels.clone(),
            redrive_of: operation.redrive_of,
            trace: operation.trace.clone(),
        };
        commit::Row {
            op_id: operation.op_id,
            seq: operation.seq,
            domain: keys.domain.clone(),
            event_type: keys.event_type.clone(),
            priority: operation.options.priority,
            accepted_at: operation.accepted_at,
            batch_id: operation.batch_id,
            lane: operation.lane,
            is_head: Some(self.lane_stand(operation) != LaneStand::Behind),
            state: operation.state.clone(),
            has_checkpoint: operation.checkpoint.is_some(),
            has_spawn: !row.spawn.is_empty(),
            dispatch_no: operation.dispatch_no,
            started_at: operation.started_at,
            finished_at: operation.finished_at,
            result: operation.result.clone(),
            redriven_by: operation.redriven_by,
            ledger: Vec::new(),
            is_intact: request.is_intact(&operation.op_id, &keys.event_type),
            request: Some(request.into()),
            checkpoint: operation.checkpoint.clone(),
        }
    }
}

/// What is known by the four keys, also after the row is gone.
pub(crate) fn known(tables: &Tables, key: &Key) -> Known {
    let row = tables.rows.get(&key.op_id);
    let final_status = key.settled.map(|(status, _)| status);
    Known {
        op_id: key.op_id,
        status: row
            .map(|row| row.operation.state.status)
            .or(final_status)
            .unwrap_or(Status::Pending),
        pruned: row.is_none(),
    }
}

fn is_first(tables: &Tables, scan: Scan, slot: &Slot) -> bool {
    let first = Slot::Need {
        scan,
        since: Timestamp::from_millis(i64::MIN),
        seq: 0,
    };
    let head = tables.slots.range(first..).next();
    head.is_some_and(|(head, _)| head == slot)
}
