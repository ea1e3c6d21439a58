//! Scans, dead letters and pruning.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::SeenTime;
use clinch_core::ports::{Claim, Claimed, DeadLetter, Page, Prune, Pruned, Recovery, Scan};
use clinch_core::{Failure, Keys, Result};
use clinch_stored::Filling;
use clinch_stored::letters::{bytes, check, cursor_of, parse_cursor};

use crate::Mysql;
use crate::column::Column;
use crate::error;
use crate::line::{first_free, first_of_line};
use crate::link::Script;
use crate::outbox::routes_of;
use crate::query::Query;
use crate::request::{Request, to_json};
use crate::row::{LEASE_ENDED, PROBE_DUE, ROW_COLUMNS, Row, UNFINALIZED};
use crate::text::{self, Tuple};

/// Columns of a row and of what was asked for.
const WHOLE_COLUMNS: usize = ROW_COLUMNS + 11;

fn line_of(scan: Scan) -> Option<u8> {
    match scan {
        Scan::Unfinalized => Some(UNFINALIZED),
        Scan::LeaseEnded => Some(LEASE_ENDED),
        Scan::ProbeDue => Some(PROBE_DUE),
        Scan::Overdue => None,
    }
}

/// Rows that need `scan` now, are free and that the claim covers, the oldest need first.
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

fn read_letter(row: &mysql_async::Row) -> Result<DeadLetter> {
    if let Some(letter) = row.maybe_bytes(WHOLE_COLUMNS)? {
        let letter = serde_json::from_slice::<DeadLetter>(letter);
        return letter.map_err(|error| error::corrupt("dead letter").caused_by(error));
    }
    let (row, request) = (Row::read(row)?, Request::read(row)?);
    let unknown = || Failure::own("unknown", "", row.state.effect);
    Ok(DeadLetter {
        op_id: row.op_id,
        failure: row.state.failure.clone().unwrap_or_else(unknown),
        keys: Keys {
            domain: row.domain,
            event_type: row.event_type,
            biz_key: request.biz_key,
            idem_key: request.idem_key,
        },
        attempts: row.state.attempts,
        payload: request.payload,
        content_hash: request.content_hash,
        failed_at: row.finished_at.unwrap_or_default(),
        late_ok: row.state.late_ok,
    })
}

#[async_trait]
impl Recovery for Mysql {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        let claim = Arc::new(claim.clone());
        self.write(move |tx| {
            let claim = claim.clone();
            Box::pin(async move {
                let found = tx.find(&needing(scan, &claim)).await?;
                Ok(tx.claim(found, &claim))
            })
        })
        .await
    }

    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        let sql = match line_of(scan) {
            Some(line) => first_of_line(line, "", 0),
            None => Query::FirstOverdue.text().to_owned(),
        };
        self.read(move |tx| {
            let sql = sql.clone();
            Box::pin(async move {
                let first = first_free(&tx.query(&sql).await?)?;
                Ok(first.map(|from| from.since(tx.now)))
            })
        })
        .await
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
            rows.push(tuple.at(letter.failed_at).bytes(to_json(letter)?).end());
        }
        let rows = Arc::new(rows);
        self.write(move |tx| {
            let rows = rows.clone();
            Box::pin(async move {
                let mut script = Script::default();
                for row in rows.iter() {
                    script.add(&Query::InsertDeadLetters.with(&[("rows", row)]));
                }
                let answers = tx.run(script).await?;
                Ok(answers.iter().map(|answer| answer.affected == 1).collect())
            })
        })
        .await
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        let prune = Arc::new(prune.clone());
        self.write(move |tx| {
            let prune = prune.clone();
            Box::pin(async move { tx.prune(&prune).await })
        })
        .await
    }

    async fn seen_time(&self) -> Result<Option<SeenTime>> {
        self.read(|tx| {
            Box::pin(async move {
                let seen_at = tx.seen_at(Query::SeenAt).await?;
                let now = tx.now;
                Ok(seen_at.map(|seen_at| SeenTime { now, seen_at }))
            })
        })
        .await
    }

    async fn confirm_time(&self) -> Result<SeenTime> {
        self.write(|tx| Box::pin(tx.confirm_clock())).await
    }
}
