//! Scans, dead letters and pruning.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::SeenTime;
use clinch_core::ports::{
    Claim, Claimed, DeadLetter, LetterFilter, LetterOrder, LetterView, Page, Prune, Pruned,
    Recovery, Scan,
};
use clinch_core::{OpId, ProcessId, Result, Timestamp};
use clinch_stored::letters::{Search, check};

use crate::Postgres;
use crate::link::Params;
use crate::outbox::{Found, found};
use crate::query::Query;
use crate::row::{moment, need_of, stored};
use crate::tx::Tx;

impl Tx<'_> {
    /// Free rows that need `scan` now and that the claim covers, the oldest need first.
    async fn needing(&mut self, scan: Scan, claim: &Claim) -> Result<Found> {
        self.start().await?;
        let (streams, now) = (self.covered(claim), self.now.as_millis());
        let max = stored(claim.max as u64);
        let rows = match need_of(scan) {
            Some(need) => {
                self.query(Query::Needing, &[&need, &now, &streams, &max])
                    .await?
            }
            None => self.query(Query::Overdue, &[&now, &streams, &max]).await?,
        };
        Ok(found(&rows))
    }

    /// Free live rows of the process that the claim covers.
    async fn abandoned(&mut self, process: ProcessId, claim: &Claim) -> Result<Found> {
        self.start().await?;
        let (streams, now) = (self.covered(claim), self.now.as_millis());
        let [first, last] = process.attempts().map(|id| id.0);
        let max = stored(claim.max as u64);
        let params: Params<'_> = &[&first, &last, &now, &streams, &max];
        Ok(found(&self.query(Query::Abandoned, params).await?))
    }
}

#[async_trait]
impl Recovery for Postgres {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(claim.clone(), move |tx, claim| {
            Box::pin(async move {
                let found = tx.needing(scan, claim).await?;
                tx.claim(&found, claim).await
            })
        })
        .await
    }

    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        let row = match need_of(scan) {
            Some(need) => self.shared.first(Query::FirstNeeding, &[&need]).await?,
            None => self.shared.first(Query::FirstOverdue, &[]).await?,
        };
        Ok(row.and_then(|row| {
            let now = Timestamp::from_millis(row.get(1));
            moment(row.get(0)).map(|from| from.since(now))
        }))
    }

    async fn check_in(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        self.check_in_process(process).await
    }

    async fn abandoned(&self, process: ProcessId, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(claim.clone(), move |tx, claim| {
            Box::pin(async move {
                let found = tx.abandoned(process, claim).await?;
                tx.claim(&found, claim).await
            })
        })
        .await
    }

    async fn check_out(&self, process: ProcessId) -> Result<()> {
        self.forget_process(process).await
    }

    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<LetterView>> {
        let search = Search::new(filter, order, cursor, limit)?;
        self.list_letters(filter, order, search).await
    }

    async fn letters(&self, ops: &[OpId]) -> Result<Vec<Option<LetterView>>> {
        self.letters_by_id(ops).await
    }

    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        check(letters)?;
        let letters = letters.to_vec();
        self.write(letters, |tx, letters| Box::pin(tx.import_letters(letters)))
            .await
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        self.prune_old(prune.clone()).await
    }

    async fn seen_time(&self) -> Result<Option<SeenTime>> {
        self.look_at_seen_time().await
    }

    async fn confirm_time(&self) -> Result<SeenTime> {
        self.confirm_seen_time().await
    }
}
