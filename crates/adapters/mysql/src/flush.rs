//! Writing what a transaction changed, in as few statements as it takes.

use std::collections::HashMap;

use clinch_core::protocol::LaneStand;
use clinch_core::{OpId, Result};

use crate::error;
use crate::link::{STATEMENT_MAX, Script};
use crate::query::Query;
use crate::row::{Place, Row};
use crate::text::{self, Tuple};
use crate::tx::{Dirty, Tx};

/// A row that has no seq yet has one above this.
pub(crate) const PROVISIONAL: u64 = 1 << 62;

/// Rows of one statement that draws seqs.
const CHUNK_ROWS: usize = 1_000;

/// Slots over which the counters of a domain are spread: more than a process has connections.
const SLOTS: u32 = 64;

/// Seqs that were drawn, by the provisional ones.
pub(crate) type Seqs = HashMap<u64, u64>;

/// Operations of one statement that draws seqs, and the statement's place in the script.
struct Chunk {
    ops: Vec<OpId>,
    place: usize,
}

impl Tx<'_> {
    /// Writes everything that is in hand, and forgets what may have changed by it.
    pub(crate) async fn flush(&mut self) -> Result<Seqs> {
        let (script, chunks) = self.script()?;
        if script.is_empty() {
            return Ok(Seqs::new());
        }
        let answers = self.run(script).await?;
        let first_ids = answers.iter().map(|answer| answer.first_id).collect();
        self.written(chunks, first_ids)
    }

    /// Writes everything and commits, in the same round trip where it fits.
    pub(crate) async fn commit(&mut self) -> Result<Seqs> {
        let (mut script, chunks) = self.script()?;
        script.add("COMMIT");
        let (before, last) = script.split_last();
        let mut first_ids = Vec::new();
        if !before.is_empty() {
            let answers = self.run(before).await?;
            first_ids.extend(answers.iter().map(|answer| answer.first_id));
        }
        let answers = self.send(last, error::commit).await?;
        first_ids.extend(answers.iter().map(|answer| answer.first_id));
        self.written(chunks, first_ids)
    }

    fn written(&mut self, chunks: Vec<Chunk>, first_ids: Vec<Option<u64>>) -> Result<Seqs> {
        let mut seqs = Seqs::new();
        for chunk in chunks {
            let first = first_ids.get(chunk.place).copied().flatten();
            let first = first.ok_or_else(|| error::corrupt("seq"))?;
            for (at, op_id) in (0..).zip(chunk.ops) {
                if let Some(loaded) = self.rows.get_mut(&op_id) {
                    let seq = first + at * self.step;
                    seqs.insert(loaded.row.seq, seq);
                    loaded.row.seq = seq;
                }
            }
        }
        for loaded in self.rows.values_mut() {
            loaded.dirty = Dirty::Nothing;
            loaded.before = Some(loaded.row.state.clone());
        }
        self.lanes.clear();
        self.batches.clear();
        Ok(seqs)
    }

    fn script(&mut self) -> Result<(Script, Vec<Chunk>)> {
        let mut script = std::mem::take(&mut self.earlier);
        let chunks = self.write_new(&mut script)?;
        self.write_rows(&mut script)?;
        self.write_lanes(&mut script);
        script = script.followed_by(std::mem::take(&mut self.later));
        let unused = self.keys.iter().filter(|(_, key)| key.is_unused());
        let unused: Vec<_> = unused.map(|(hash, _)| *hash.as_bytes()).collect();
        if !unused.is_empty() {
            self.keys.retain(|_, key| !key.is_unused());
            script.add(&Query::DeleteKeys.with(&[("hashes", &text::list(unused))]));
        }
        self.write_batches(&mut script);
        self.write_counts(&mut script);
        Ok((script, chunks))
    }

    /// New operations: the first insert draws the seqs, the others count from its first.
    fn write_new(&mut self, script: &mut Script) -> Result<Vec<Chunk>> {
        let new = std::mem::take(&mut self.new);
        let mut chunks = Vec::new();
        let (mut ops, mut requests, mut size) = (Vec::new(), Vec::new(), 0);
        for op_id in new {
            let loaded = self.rows.get(&op_id);
            let loaded = loaded.ok_or_else(|| error::corrupt("row"))?;
            let request = loaded.request.as_ref();
            let request = request.ok_or_else(|| error::corrupt("request"))?;
            let values = request.values(&loaded.row)?;
            let full = size + values.len() > STATEMENT_MAX || ops.len() == CHUNK_ROWS;
            if full && !ops.is_empty() {
                chunks.push(self.write_chunk(script, std::mem::take(&mut ops), &requests)?);
                (requests, size) = (Vec::new(), 0);
            }
            size += values.len();
            requests.push(values);
            ops.push(op_id);
        }
        if !ops.is_empty() {
            chunks.push(self.write_chunk(script, ops, &requests)?);
        }
        Ok(chunks)
    }

    fn write_chunk(
        &mut self,
        script: &mut Script,
        ops: Vec<OpId>,
        requests: &[String],
    ) -> Result<Chunk> {
        let place = script.add(&Query::InsertRequests.with(&[("rows", &requests.join(","))]));
        script.add("SET @clinch_seq = LAST_INSERT_ID()");
        let (mut queued, mut members, mut holders) = (Vec::new(), Vec::new(), Vec::new());
        for (at, op_id) in (0..).zip(&ops) {
            let Some(loaded) = self.rows.get_mut(op_id) else {
                continue;
            };
            loaded.dirty = Dirty::Nothing;
            let row = loaded.row.clone();
            let seq = format!("@clinch_seq + {}", at * self.step);
            let place = self.place(&row);
            self.put_stream(&row, script);
            queued.push(row.queued(&seq, place)?);
            members.extend(row.lane.map(|lane| {
                let tuple = Tuple::new().bytes(lane.as_bytes());
                tuple.raw(&seq).end()
            }));
            holders.extend(self.take_holder(&row, &seq));
            self.tell(&row, place);
        }
        let (head, tail) = Query::InsertQueue.around_rows();
        script.add_rows(head, &queued, tail);
        let (head, tail) = Query::InsertLaneMembers.around_rows();
        script.add_rows(head, &members, tail);
        for (lane, seq) in holders {
            let lane = text::literal(lane.as_bytes());
            let values = [("lane", lane.as_str()), ("holder", &seq)];
            script.add(&Query::PutLaneHolder.with(&values));
        }
        Ok(Chunk { ops, place })
    }

    /// Where a row stands, now that everything that was to happen has happened.
    fn place(&self, row: &Row) -> Place {
        let stand = match &row.lane {
            Some(lane) if row.state.awaits_begin() => self.stand(lane, row.seq),
            _ => LaneStand::Unordered,
        };
        row.place(stand, self.now)
    }

    fn write_rows(&mut self, script: &mut Script) -> Result<()> {
        let (mut updates, mut ended, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        let mut dirty: Vec<OpId> = self
            .rows
            .iter()
            .filter(|(_, loaded)| loaded.dirty != Dirty::Nothing)
            .map(|(op_id, _)| *op_id)
            .collect();
        dirty.sort_unstable();
        for op_id in dirty {
            let Some(loaded) = self.rows.get(&op_id) else {
                continue;
            };
            let row = loaded.row.clone();
            let was_ended = loaded.before.as_ref().is_some_and(|s| s.is_terminal());
            let seq = row.seq.to_string();
            if was_ended || loaded.dirty == Dirty::Ledger {
                let ledger = text::literal(&row.ledger);
                let values = [("seq", seq.as_str()), ("ledger", &ledger)];
                if was_ended {
                    let state = text::literal(row.packed()?);
                    let state = [("state", state.as_str())];
                    script.add(&Query::UpdateHistory.with(&[&values[..], &state].concat()));
                } else {
                    script.add(&Query::UpdateLedger.with(&values));
                }
            } else if row.is_ended() {
                ended.push(row.ended(&seq)?);
                gone.push(row.seq);
            } else {
                let place = self.place(&row);
                updates.push(row.queued(&seq, place)?);
                self.tell(&row, place);
            }
        }
        let (head, tail) = Query::UpdateQueue.around_rows();
        script.add_rows(head, &updates, tail);
        if !gone.is_empty() {
            let gone = text::numbers(gone);
            script.add(&Query::DeleteQueue.with(&[("seqs", &gone)]));
        }
        let (head, tail) = Query::InsertHistory.around_rows();
        script.add_rows(head, &ended, tail);
        Ok(())
    }

    fn write_lanes(&mut self, script: &mut Script) {
        let (mut empty, mut due) = (Vec::new(), Vec::new());
        for (lane, row) in &self.lanes {
            let name = text::literal(lane.as_bytes());
            if !row.left.is_empty() {
                let seqs = text::numbers(row.left.iter().copied());
                script.add(&Query::LeaveLane.with(&[("lane", &name), ("seqs", &seqs)]));
            }
            if row.is_empty() {
                empty.push(*lane.as_bytes());
                continue;
            }
            let is_written = row.holder.is_some_and(|holder| holder >= PROVISIONAL);
            if row.holder != row.holder_in_db && !is_written {
                let holder = row.holder.map_or("NULL".into(), |seq| seq.to_string());
                let values = [("lane", name.as_str()), ("holder", &holder)];
                script.add(&Query::PutLaneHolder.with(&values));
            }
            let was_other = |head: &u64| row.head_in_db.is_some_and(|old| old != *head);
            let Some(next) = row.lane.head().filter(was_other) else {
                continue;
            };
            // What is in hand was placed with its row.
            let in_hand =
                |loaded: &crate::tx::Loaded| loaded.row.seq == next && loaded.dirty == Dirty::Row;
            if next < PROVISIONAL && !self.rows.values().any(in_hand) {
                script.add(&Query::LineUp.with(&[("seq", &next.to_string())]));
            }
            due.extend(row.domain.clone());
        }
        self.fresh.due.extend(due);
        if !empty.is_empty() {
            script.add(&Query::DeleteLanes.with(&[("lanes", &text::list(empty))]));
        }
    }

    fn write_counts(&mut self, script: &mut Script) {
        let counts = std::mem::take(&mut self.counts);
        let changed = counts.iter();
        let rows: Vec<String> = changed
            .map(|(domain, counters)| {
                let tuple = Tuple::new().bytes(domain.as_str());
                let tuple = tuple.raw(&format!("CONNECTION_ID() MOD {SLOTS}"));
                counters
                    .iter()
                    .fold(tuple, |tuple, by| tuple.int(*by))
                    .end()
            })
            .collect();
        if !rows.is_empty() {
            script.add(&Query::AddCounts.with(&[("rows", &rows.join(","))]));
        }
    }
}
