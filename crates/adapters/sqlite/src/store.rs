//! The hot path: load what a commit's writes need, plan the commit, write the plan.

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Store, Write, Written};
use clinch_core::{LaneKey, Result};
use clinch_stored::commit::{KnownKey, Members, Next, Seen, Unit, Wanted};
use rusqlite::params;

use crate::Sqlite;
use crate::column::{Column, stored};
use crate::query::Query;
use crate::tx::Tx;

#[async_trait]
impl Store for Sqlite {
    async fn commit(&self, writes: &[Write], routes: &Routes) -> Result<Vec<Written>> {
        let (writes, routes) = (writes.to_vec(), routes.clone());
        self.write(move |tx| tx.commit(&writes, &routes, Seen::default()))
            .await
    }
}

impl Tx<'_, '_> {
    /// Plans and writes in this transaction. `seen` holds the rows that were read already.
    pub(crate) fn commit(
        &mut self,
        writes: &[Write],
        routes: &Routes,
        seen: Seen,
    ) -> Result<Vec<Written>> {
        let mut unit = Unit::with(writes, routes, seen);
        loop {
            match unit.next(self.now)? {
                Next::Load => {
                    let (wanted, seen) = unit.load();
                    self.load(wanted, seen)?;
                }
                Next::Write(plan) => {
                    let seqs = self.write_plan(&plan)?;
                    unit.written(plan, &seqs);
                }
                Next::Done(answers) => return Ok(answers),
            }
        }
    }

    fn load(&mut self, wanted: &Wanted, seen: &mut Seen) -> Result<()> {
        for (op_id, whole) in &wanted.rows {
            let row = match whole {
                true => self.db.whole_row(*op_id)?,
                false => match self.db.kept.take_row(*op_id) {
                    Some(row) => Some(row),
                    None => self.db.row(*op_id)?,
                },
            };
            row.into_iter().for_each(|row| seen.row(row));
        }
        for (hash, key) in &wanted.keys {
            if let Some((known, fingerprint)) = self.db.known(&key.keys, hash)? {
                let fingerprint = Some(fingerprint);
                seen.key(*hash, KnownKey { known, fingerprint });
            }
        }
        for op_id in &wanted.ids {
            if self.has(*op_id)? {
                seen.taken(*op_id);
            }
        }
        for lane in &wanted.lanes {
            seen.lane(*lane, self.members(lane, wanted.lane_depth)?);
        }
        for batch_id in &wanted.batches {
            let batch = self.db.batch(*batch_id)?;
            batch.into_iter().for_each(|row| seen.batch(row));
        }
        for domain in &wanted.domains {
            let id = self.db.find_name(domain.as_str())?;
            let paused = match id {
                Some(id) => self.domain_row(id)?.paused,
                None => false,
            };
            if paused {
                seen.paused(domain.clone());
            }
        }
        for op_id in &wanted.spawns {
            let id = [op_id.0.as_bytes()];
            let stored = self.db.first(Query::Spawn, id, |row| row.text(0))?;
            if let Some(stored) = stored {
                seen.spawn(*op_id, stored.as_bytes())?;
            }
        }
        for op_id in &wanted.letters {
            let letter = self.db.seen_letter(*op_id)?;
            letter
                .into_iter()
                .for_each(|letter| seen.letter(*op_id, letter));
        }
        Ok(())
    }

    fn members(&mut self, lane: &LaneKey, depth: usize) -> Result<Members> {
        // One row more than the commit can end tells whether the lane has further members.
        let limit = stored(depth as u64 + 1);
        let params = params![lane.as_bytes().as_slice(), limit];
        let seqs = self
            .db
            .all(Query::LaneMembers, params, |row| row.count(0))?;
        Ok(Members {
            has_more: seqs.len() > depth,
            open: seqs.into_iter().map(|seq| (seq, None)).collect(),
        })
    }
}
