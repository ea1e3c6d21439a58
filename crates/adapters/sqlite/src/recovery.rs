//! Scans, dead letters and pruning.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::SeenTime;
use clinch_core::ports::{
    Claim, Claimed, DeadLetter, LetterFilter, LetterOrder, LetterView, Page, Prune, Pruned,
    Recovery, Scan,
};
use clinch_core::{OpId, ProcessId, Result};
use clinch_stored::letters::{Search, check};
use rusqlite::params;

use crate::Sqlite;
use crate::column::millis;
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

    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<LetterView>> {
        let search = Search::new(filter, order, cursor, limit)?;
        let filter = filter.clone();
        self.read(move |db| db.dead_letters(&filter, order, search))
            .await
    }

    async fn letters(&self, ops: &[OpId]) -> Result<Vec<Option<LetterView>>> {
        let ops = ops.to_vec();
        self.read(move |db| ops.iter().map(|op| db.letter(*op)).collect())
            .await
    }

    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        check(letters)?;
        let letters = letters.to_vec();
        let import = move |tx: &mut Tx<'_, '_>| {
            let import = |letter: &DeadLetter| tx.import_letter(letter);
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
