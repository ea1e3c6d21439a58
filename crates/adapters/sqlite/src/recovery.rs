//! Scans, dead letters and pruning.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::SeenTime;
use clinch_core::ports::{Claim, Claimed, DeadLetter, Page, Prune, Pruned, Recovery, Scan};
use clinch_core::{OpId, ProcessId, Result};
use clinch_stored::letters::{bytes, check, cursor_of, parse_cursor};
use clinch_stored::{Filling, json};
use rusqlite::params;

use crate::Sqlite;
use crate::column::{Column, millis, stored};
use crate::db::Db;
use crate::outbox::Found;
use crate::query::Query;
use crate::row::need_of;
use crate::tx::Tx;

impl Tx<'_, '_> {
    /// Unclaimed rows that need `scan` now and that the claim covers, the oldest need first.
    fn needing(&mut self, scan: Scan, claim: &Claim) -> Result<Vec<Found>> {
        let now = millis(self.now);
        match need_of(scan) {
            Some(need) => self.covered(Query::Needing, params![need, now], claim),
            None => self.covered(Query::Overdue, [now], claim),
        }
    }

    /// Unclaimed live rows of the process that the claim covers.
    fn abandoned(&mut self, process: ProcessId, claim: &Claim) -> Result<Vec<Found>> {
        let params = params![process.to_bits().to_be_bytes(), millis(self.now)];
        self.covered(Query::Abandoned, params, claim)
    }

    /// False: the operation has a dead letter already.
    pub(crate) fn insert_dead_letter(&mut self, letter: &DeadLetter) -> Result<bool> {
        let params = params![
            letter.op_id.0.as_bytes(),
            millis(letter.failed_at),
            json::to_text(letter)?
        ];
        Ok(self.db.run(Query::InsertDeadLetter, params)? == 1)
    }
}

#[async_trait]
impl Recovery for Sqlite {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        let claim = claim.clone();
        let work = move |tx: &mut Tx<'_, '_>| {
            let found = tx.needing(scan, &claim)?;
            tx.claim(&found, &claim)
        };
        self.write(work).await
    }

    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        let now = self.clock().now();
        let read = move |db: &mut Db<'_>| {
            let first = match need_of(scan) {
                Some(need) => db.first_free(Query::NextNeeding, [need])?,
                None => db.first_free(Query::NextOverdue, [])?,
            };
            Ok(first.map(|from| from.since(now)))
        };
        self.read(read).await
    }

    async fn check_in(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        let shared = &self.shared;
        shared.processes.check_in(&shared.wake_dir, process)
    }

    async fn abandoned(&self, process: ProcessId, claim: &Claim) -> Result<Vec<Claimed>> {
        let claim = claim.clone();
        let work = move |tx: &mut Tx<'_, '_>| {
            let found = tx.abandoned(process, &claim)?;
            tx.claim(&found, &claim)
        };
        self.write(work).await
    }

    async fn check_out(&self, process: ProcessId) -> Result<()> {
        let of_process = [process.to_bits().to_be_bytes()];
        let find = move |db: &mut Db<'_>| db.first(Query::HasLive, of_process, |_| Ok(()));
        if self.read(find).await?.is_none() {
            let shared = &self.shared;
            shared.processes.check_out(&shared.wake_dir, process);
        }
        Ok(())
    }

    async fn dead_letters(&self, cursor: Option<&str>, limit: usize) -> Result<Page<DeadLetter>> {
        let after = cursor.map(parse_cursor).transpose()?;
        let read = move |db: &mut Db<'_>| {
            // Before the newest one at first.
            let (at, op_id) = after.unzip();
            let at = at.map_or(i64::MAX, millis);
            let op_id = op_id.map_or([u8::MAX; 16], |op_id: OpId| op_id.0.into_bytes());
            let mut filling = Filling::new(limit);
            let rows = stored(filling.rows() as u64);
            let params = params![at, op_id, rows];
            db.each(Query::DeadLetters, params, |row| {
                let letter: DeadLetter = json::read(row.text(0)?.as_bytes())?;
                let bytes = bytes(&letter);
                Ok(filling.push(letter, bytes))
            })?;
            Ok(filling.page(cursor_of))
        };
        self.read(read).await
    }

    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        check(letters)?;
        let letters = letters.to_vec();
        let import = move |tx: &mut Tx<'_, '_>| {
            let import = |letter: &DeadLetter| tx.insert_dead_letter(letter);
            letters.iter().map(import).collect()
        };
        self.write(import).await
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        self.prune_old(prune.clone()).await
    }

    async fn seen_time(&self) -> Result<Option<SeenTime>> {
        self.read_seen_time().await
    }

    async fn confirm_time(&self) -> Result<SeenTime> {
        self.confirm_clock().await
    }
}
