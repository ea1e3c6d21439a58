//! Writes a plan with as few statements as possible.

use clinch_core::ports::COUNTERS;
use clinch_core::{Domain, Result};
use clinch_stored::commit::{Extent, Plan, RowWrite, SpawnWrite};
use clinch_stored::json;
use clinch_stored::ledger::{self, By};

use crate::error;
use crate::letters;
use crate::link::{STATEMENT_MAX, Script};
use crate::query::Query;
use crate::row;
use crate::text::{self, Tuple};
use crate::tx::Tx;

/// Rows in one statement that draws seqs.
const DRAW_ROWS_MAX: usize = 1_000;

/// Slots over which the counters of a domain are spread: more than a process has connections.
const SLOTS: u32 = 64;

/// A statement that draws seqs: its index in the script, and its number of rows.
pub(crate) struct Draw {
    place: usize,
    rows: u64,
}

/// The seqs of new rows in order. `first_ids` holds the first seq that each statement drew.
pub(crate) fn seqs_of(draws: &[Draw], first_ids: &[Option<u64>], step: u64) -> Result<Vec<u64>> {
    let mut seqs = Vec::new();
    for draw in draws {
        let first = first_ids.get(draw.place).copied().flatten();
        let first = first.ok_or_else(|| error::corrupt("seq"))?;
        seqs.extend((0..draw.rows).map(|at| first + at * step));
    }
    Ok(seqs)
}

impl Tx<'_> {
    /// Adds a plan to the pending statements; returns those that draw seqs.
    pub(crate) fn add_plan(&mut self, plan: &Plan) -> Result<Vec<Draw>> {
        let mut script = std::mem::take(&mut self.later);
        let draws = self.add_new_rows(plan, &mut script)?;
        add_changed_rows(plan, &mut script)?;
        // Writing a row would restore its old `redriven_by`, so this comes after the rows.
        add_redriven(plan, &mut script);
        letters::add_changes(plan, &mut script)?;
        self.add_lanes(plan, &mut script);
        self.add_keys(plan, &mut script);
        add_batches(plan, &mut script);
        let counts = plan.counts.iter();
        add_counts(counts.map(|(domain, by)| (domain, *by)), &mut script);
        self.later = script;
        self.wakes.add(plan);
        Ok(draws)
    }

    /// New rows: inserting a request draws its seq, and the other tables count from the first one.
    fn add_new_rows(&mut self, plan: &Plan, script: &mut Script) -> Result<Vec<Draw>> {
        let mut draws = Vec::new();
        let (mut writes, mut requests, mut size) = (Vec::new(), Vec::new(), 0);
        for write in plan.new_rows() {
            let values = row::request_values(&write.row)?;
            let full = size + values.len() > STATEMENT_MAX || writes.len() == DRAW_ROWS_MAX;
            if full && !writes.is_empty() {
                draws.push(self.add_draw(script, &writes, &requests)?);
                writes.clear();
                requests.clear();
                size = 0;
            }
            size += values.len();
            requests.push(values);
            writes.push(write);
        }
        if !writes.is_empty() {
            draws.push(self.add_draw(script, &writes, &requests)?);
        }
        Ok(draws)
    }

    fn add_draw(
        &mut self,
        script: &mut Script,
        writes: &[&RowWrite],
        requests: &[String],
    ) -> Result<Draw> {
        let place = script.add(&Query::InsertRequests.with(&[("rows", &requests.join(","))]));
        script.add("SET @clinch_seq = LAST_INSERT_ID()");
        let (mut queued, mut members) = (Vec::new(), Vec::new());
        for (at, write) in (0..).zip(writes) {
            let row = &write.row;
            let seq = format!("@clinch_seq + {}", at * self.step);
            self.add_stream(row, script);
            let ledger = add_side_rows(write, &seq, script)?;
            queued.push(row::queue_values(write, &seq, &ledger)?);
            members.extend(row.lane.map(|lane| {
                let tuple = Tuple::new().bytes(lane.as_bytes());
                tuple.raw(&seq).end()
            }));
        }
        script.add_rows(Query::InsertQueue, &queued);
        script.add_rows(Query::InsertLaneMembers, &members);
        let rows = writes.len() as u64;
        Ok(Draw { place, rows })
    }

    /// Removes members that left, queues the new heads, and deletes lanes without members.
    fn add_lanes(&mut self, plan: &Plan, script: &mut Script) {
        let mut empty = std::mem::take(&mut self.reserved_lanes);
        for write in &plan.lanes {
            let lane = text::literal(write.lane.as_bytes());
            if !write.left.is_empty() {
                let seqs = text::numbers(write.left.iter().copied());
                script.add(&Query::LeaveLane.with(&[("lane", &lane), ("seqs", &seqs)]));
            }
            if let Some((seq, _)) = write.lined_up {
                script.add(&Query::LineUp.with(&[("seq", &seq.to_string())]));
            }
            match write.is_empty {
                true => empty.insert(write.lane),
                false => empty.remove(&write.lane),
            };
        }
        if !empty.is_empty() {
            let lanes = text::list(empty.iter().map(|lane| lane.as_bytes()));
            script.add(&Query::DeleteLanes.with(&[("lanes", &lanes)]));
        }
    }
}

fn add_changed_rows(plan: &Plan, script: &mut Script) -> Result<()> {
    let (mut updates, mut ended, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for write in plan.rows.iter().filter(|write| write.before.is_some()) {
        let row = &write.row;
        let seq = row.seq.to_string();
        let ledger = add_side_rows(write, &seq, script)?;
        if write.had_ended() {
            script.add(&Query::UpdateHistory.with(&[
                ("seq", &seq),
                ("ledger", &text::literal(&ledger)),
                ("state", &text::literal(row::packed(row)?)),
            ]));
        } else if write.extent == Extent::Ledger {
            let ledger = text::literal(&ledger);
            script.add(&Query::UpdateLedger.with(&[("seq", &seq), ("ledger", &ledger)]));
        } else if row.state.is_terminal() {
            ended.push(row::history_values(row, &ledger)?);
            gone.push(row.seq);
        } else {
            updates.push(row::queue_values(write, &seq, &ledger)?);
        }
    }
    script.add_rows(Query::UpdateQueue, &updates);
    if !gone.is_empty() {
        script.add(&Query::DeleteQueue.with(&[("seqs", &text::numbers(gone))]));
    }
    script.add_rows(Query::InsertHistory, &ended);
    Ok(())
}

/// Adds the rows beside an operation's row: ledger pages, checkpoint, spawned operations, dead
/// letter. Returns the part of the ledger that stays in the row. `seq` is an SQL expression.
fn add_side_rows(write: &RowWrite, seq: &str, script: &mut Script) -> Result<Vec<u8>> {
    let row = &write.row;
    let with_seq = |bytes: &[u8]| Tuple::new().raw(seq).bytes(bytes).end();
    let mut ledger = row.ledger.clone();
    let pages = ledger::grow(&mut ledger, &write.lines, row.accepted_at, |worker| {
        Ok(By::Name(worker.as_str()))
    })?;
    for page in pages {
        script.add(&Query::InsertLedgerPage.with(&[("row", &with_seq(&page))]));
    }
    if let Some(checkpoint) = &write.checkpoint {
        let values = with_seq(checkpoint.as_bytes());
        script.add(&Query::PutCheckpoint.with(&[("row", &values)]));
    }
    match &write.spawn {
        SpawnWrite::Leave => {}
        SpawnWrite::Store(spawn) => {
            let values = with_seq(&json::to_bytes(spawn)?);
            script.add(&Query::PutSpawn.with(&[("row", &values)]));
        }
        SpawnWrite::Delete => {
            script.add(&Query::DeleteSpawns.with(&[("seqs", seq)]));
        }
    }
    if write.dead_letter {
        letters::add_letter(row, script)?;
    }
    if write.late_ok {
        let id = text::literal(row.op_id.0.as_bytes());
        script.add(&Query::MarkLetter.with(&[("id", &id)]));
    }
    Ok(ledger)
}

fn add_redriven(plan: &Plan, script: &mut Script) {
    for (op_id, by) in &plan.redriven {
        let (id, by) = (op_id.0.as_bytes(), by.0.as_bytes());
        let (id, by) = (text::literal(id), text::literal(by));
        for query in [Query::SetRedriven, Query::SetRedrivenHistory] {
            script.add(&query.with(&[("id", &id), ("by", &by)]));
        }
    }
}

fn add_batches(plan: &Plan, script: &mut Script) {
    for write in &plan.batches {
        let batch = &write.batch;
        let id = text::literal(batch.batch_id.0.as_bytes());
        script.add(&Query::PutBatch.with(&[
            ("id", &id),
            ("sealed", &u8::from(batch.sealed).to_string()),
            ("total", &batch.total.to_string()),
            ("completed", &batch.completed.to_string()),
            ("failed", &batch.failed.to_string()),
        ]));
        if let Some(at) = batch.completed_at.filter(|_| write.completes) {
            let at = at.as_millis().to_string();
            script.add(&Query::CompleteBatch.with(&[("id", &id), ("at", &at)]));
        }
    }
}

/// Adds to the counters of domains, each in the connection's own slot.
pub(crate) fn add_counts<'d>(
    counts: impl Iterator<Item = (&'d Domain, [i64; COUNTERS])>,
    script: &mut Script,
) {
    let row = |(domain, by): (&Domain, [i64; COUNTERS])| {
        let tuple = Tuple::new().bytes(domain.as_str());
        let tuple = tuple.raw(&format!("CONNECTION_ID() MOD {SLOTS}"));
        by.into_iter().fold(tuple, Tuple::int).end()
    };
    let rows: Vec<String> = counts.map(row).collect();
    script.add_rows(Query::AddCounts, &rows);
}
