//! Scans, dead letters and pruning.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::SeenTime;
use clinch_core::ports::{Claim, Claimed, DeadLetter, Page, Prune, Pruned, Recovery, Scan};
use clinch_core::{Failure, ProcessId, Result};
use clinch_stored::letters::{bytes, check, cursor_of, parse_cursor};
use clinch_stored::{Filling, json};

use crate::Mysql;
use crate::column::Column;
use crate::outbox::routes_of;
use crate::query::Query;
use crate::row::{self, WHOLE_COLUMNS, line_of};
use crate::streams::{first_free, first_rows};
use crate::text::{self, Tuple};

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

fn read_letter(row: &mysql_async::Row) -> Result<DeadLetter> {
    if let Some(letter) = row.maybe_bytes(WHOLE_COLUMNS)? {
        return json::read(letter);
    }
    let row = row::read_whole(row)?;
    let request = row.request()?;
    let unknown = || Failure::own("unknown", "", row.state.effect);
    Ok(DeadLetter {
        op_id: row.op_id,
        keys: row.keys()?,
        failure: row.state.failure.clone().unwrap_or_else(unknown),
        attempts: row.state.attempts,
        payload: request.payload.clone(),
        content_hash: request.content_hash,
        failed_at: row.finished_at.unwrap_or_default(),
        late_ok: row.state.late_ok,
    })
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

    async fn dead_letters(&self, cursor: Option<&str>, limit: usize) -> Result<Page<DeadLetter>> {
        let after = match cursor.map(parse_cursor).transpose()? {
            Some((at, op_id)) => format!(
                "(d.failed_at < {at} OR (d.failed_at = {at} AND d.op_id < {op}))",
                at = at.as_millis(),
                op = text::literal(op_id.0.as_bytes())
            ),
            None => "TRUE".to_owned(),
        };
        let more = Filling::<()>::new(limit).rows().to_string();
        let values = [("after", after.as_str()), ("limit", &more)];
        let sql = Query::DeadLetters.of_rows(true, &values);
        let weigh = |row: &_| read_letter(row).map_or(0, |letter| bytes(&letter));
        let filling = self.fill(sql, limit, weigh).await?;
        let letters = filling.items().iter().map(read_letter);
        let letters = letters.collect::<Result<_>>()?;
        Ok(filling.with(letters).page(cursor_of))
    }

    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        check(letters)?;
        let mut rows = Vec::with_capacity(letters.len());
        for letter in letters {
            let tuple = Tuple::new().bytes(letter.op_id.0.as_bytes());
            let body = json::to_bytes(letter)?;
            rows.push(tuple.at(letter.failed_at).bytes(body).end());
        }
        self.insert_each(Query::InsertDeadLetter, rows).await
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
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
