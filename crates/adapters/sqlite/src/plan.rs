//! Writes the plan of a commit.

use clinch_core::{LaneKey, Result};
use clinch_stored::commit::{Extent, LaneWrite, Plan, RowWrite, SpawnWrite, is_provisional};
use clinch_stored::json;
use clinch_stored::ledger::{self, By};
use clinch_stored::letters::{self, Summary};
use rusqlite::params;

use crate::column::stored;
use crate::error;
use crate::query::Query;
use crate::request::short_hash;
use crate::tx::Tx;

impl Tx<'_, '_> {
    /// Writes a plan; returns the seqs of its new rows.
    pub(crate) fn write_plan(&mut self, plan: &Plan) -> Result<Vec<u64>> {
        let mut seqs = Vec::new();
        for write in plan.new_rows() {
            seqs.push(self.insert(write)?);
        }
        for write in plan.rows.iter().filter(|write| write.before.is_some()) {
            self.update(write)?;
        }
        let first = plan.new_rows().next().map_or(0, |write| write.row.seq);
        let drawn = |seq: u64| match is_provisional(seq) {
            true => seqs[(seq - first) as usize],
            false => seq,
        };
        for lane in &plan.lanes {
            self.write_lane(lane, drawn)?;
        }
        for (predecessor, by) in &plan.redriven {
            let params = params![predecessor.0.as_bytes(), by.0.as_bytes()];
            self.db.run(Query::SetRedriven, params)?;
            self.db.kept.take_row(*predecessor);
        }
        for write in &plan.letters {
            self.write_letter(write)?;
        }
        for write in &plan.batches {
            self.put_batch(&write.batch, write.completes)?;
        }
        for (domain, by) in &plan.counts {
            let domain = self.db.name(domain.as_str())?;
            self.count(domain, by)?;
        }
        self.tell(plan);
        Ok(seqs)
    }

    fn insert(&mut self, write: &RowWrite) -> Result<u64> {
        let seq = self.next_seq()?;
        let key = write.key.ok_or_else(|| error::corrupt("key"))?;
        let short = short_hash(&write.row.keys()?, &key.hash);
        let ledger = self.grown_ledger(write, seq)?;
        self.db.insert_request(seq, write, key.fingerprint)?;
        self.db.insert_row(write, seq, &ledger)?;
        self.insert_key(short, seq)?;
        self.db.kept.row_written(&write.row, seq, ledger);
        self.accepted(write.row.op_id);
        Ok(seq)
    }

    fn update(&mut self, write: &RowWrite) -> Result<()> {
        let seq = write.row.seq;
        let ledger = self.grown_ledger(write, seq)?;
        if write.extent == Extent::Ledger {
            self.db.update_ledger(&write.row, &ledger)?;
        } else {
            self.db.update_row(write, &ledger)?;
        }
        self.db.kept.row_written(&write.row, seq, ledger);
        if let Some(bytes) = &write.checkpoint {
            let params = params![stored(seq), bytes.as_bytes()];
            self.db.run(Query::PutCheckpoint, params)?;
        }
        match &write.spawn {
            SpawnWrite::Leave => {}
            SpawnWrite::Store(spawn) => {
                let params = params![stored(seq), json::to_text(spawn)?];
                self.db.run(Query::PutSpawn, params)?;
            }
            SpawnWrite::Delete => {
                self.db.run(Query::DeleteSpawn, [stored(seq)])?;
            }
        }
        if write.dead_letter {
            let mut row = write.row.clone();
            if row.request.is_none() {
                row.request = self.db.request(seq)?.map(Into::into);
            }
            let letter = letters::of(&row, self.now)?;
            self.insert_letter(&letter, &json::to_text(&Summary::of(&row))?)?;
        }
        if write.late_ok {
            let id = [write.row.op_id.0.as_bytes()];
            self.db.run(Query::MarkDeadLetter, id)?;
        }
        Ok(())
    }

    /// The row's ledger with the new lines; what is too long for the row moves to ledger pages.
    fn grown_ledger(&mut self, write: &RowWrite, seq: u64) -> Result<Vec<u8>> {
        let accepted_at = write.row.accepted_at;
        let mut blob = write.row.ledger.clone();
        let pages = ledger::grow(&mut blob, &write.lines, accepted_at, |worker| {
            Ok(By::Number(self.db.name(worker.as_str())?))
        })?;
        for page in pages {
            let params = params![stored(seq), page.as_slice()];
            self.db.run(Query::InsertLedgerPage, params)?;
        }
        Ok(blob)
    }

    fn write_lane(&mut self, write: &LaneWrite, drawn: impl Fn(u64) -> u64) -> Result<()> {
        let each = |lane: &LaneKey, seq: u64| (*lane.as_bytes(), stored(seq));
        for seq in &write.joined {
            let (lane, seq) = each(&write.lane, drawn(*seq));
            self.db
                .run(Query::JoinLane, params![lane.as_slice(), seq])?;
        }
        for seq in &write.left {
            let (lane, seq) = each(&write.lane, *seq);
            self.db
                .run(Query::LeaveLane, params![lane.as_slice(), seq])?;
        }
        if let Some((seq, _)) = write.lined_up {
            self.db.run(Query::LineUp, [stored(seq)])?;
        }
        Ok(())
    }
}
