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

use crate::Mysql;
use crate::outbox::routes_of;
use crate::query::Query;
use crate::row::line_of;
use crate::streams::{first_free, first_rows};
use crate::text;

/// Unclaimed rows that need `scan` now and that the claim covers, the oldest need first.
fn needing(scan: Scan, claim: &Claim) -> String {
    let (routes, limit) = (routes_of(claim), claim.max.to_string());
    let mut values = vec![("routes", routes.as_str()), ("limit", &limit)];
    match line_of(scan) {
        Some(line) => {
            let line = line.to_string();
            values.push(("line", &line));
            Query::NeedingOfLine.of_rows(false, &values)
        }
        None => Query::Overdue.of_rows(false, &values),
    }
}

/// Unclaimed live rows of the process that the claim covers.
fn abandoned(process: ProcessId, claim: &Claim) -> String {
    let [first, last] = process.attempts().map(|id| text::literal(id.0.as_bytes()));
    let line = line_of(Scan::LeaseEnded).unwrap_or_default().to_string();
    let values = [
        ("line", line.as_str()),
        ("first", &first),
        ("last", &last),
        ("routes", &routes_of(claim)),
        ("limit", &claim.max.to_string()),
    ];
    Query::Abandoned.of_rows(false, &values)
}

#[async_trait]
impl Recovery for Mysql {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(claim.clone(), move |tx, claim| {
            Box::pin(async move {
                let found = tx.find(&needing(scan, claim)).await?;
                Ok(tx.claim(found, claim))
            })
        })
        .await
    }

    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        let sql = match line_of(scan) {
            Some(line) => first_rows(line, "", 0),
            None => Query::FirstOverdue.text().to_owned(),
        };
        self.read(sql, |tx, sql| {
            Box::pin(async move {
                let first = first_free(&tx.query(sql).await?)?;
                Ok(first.map(|from| from.since(tx.now)))
            })
        })
        .await
    }

    async fn check_in(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        self.check_in_process(process).await
    }

    async fn abandoned(&self, process: ProcessId, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(claim.clone(), move |tx, claim| {
            Box::pin(async move {
                let found = tx.find(&abandoned(process, claim)).await?;
                Ok(tx.claim(found, claim))
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
        self.complete_letters().await?;
        self.write(prune.clone(), |tx, prune| Box::pin(tx.prune(prune)))
            .await
    }

    async fn seen_time(&self) -> Result<Option<SeenTime>> {
        self.read((), |tx, ()| {
            Box::pin(async move {
                let seen_at = tx.seen_at(Query::SeenAt).await?;
                let now = tx.now;
                Ok(seen_at.map(|seen_at| SeenTime { now, seen_at }))
            })
        })
        .await
    }

    async fn confirm_time(&self) -> Result<SeenTime> {
        self.write((), |tx, ()| Box::pin(tx.confirm_clock())).await
    }
}
