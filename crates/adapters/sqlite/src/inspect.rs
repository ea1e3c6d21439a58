//! Reading.

use async_trait::async_trait;
use clinch_core::ports::{Filter, Inspect, Known, LedgerLine, Operation, Page};
use clinch_core::{AttemptId, Error, ErrorKind, Keys, OpId, Result, Timestamp};
use clinch_stored::ledger;
use rusqlite::params;

use crate::Sqlite;
use crate::column::{Column, maybe_millis, stored};
use crate::db::Db;
use crate::query::Query;
use crate::request::biz_hash;
use crate::row::{phase_code, read_both, status_column};

/// Largest page, whatever the caller asks for.
const PAGE_MAX: usize = 1_000;

/// Rows that are read on the caller's own thread: a handful of pages, most likely in memory.
const QUICK_MAX: usize = 2;

impl Db<'_> {
    pub(crate) fn get(&mut self, op_id: OpId) -> Result<Option<Operation>> {
        match self.both(op_id)? {
            Some((row, request)) => self.operation(row, request).map(Some),
            None => Ok(None),
        }
    }

    fn ledger(&mut self, op_id: OpId) -> Result<Vec<LedgerLine>> {
        let Some(row) = self.row(op_id)? else {
            return Ok(Vec::new());
        };
        let pages = self.all(Query::LedgerPages, [stored(row.seq)], |page| {
            Ok(page.bytes(0)?.to_vec())
        })?;
        let mut lines = Vec::new();
        for page in pages {
            ledger::read(&page, row.accepted_at, &mut lines, |left| {
                self.worker(left.signed()?)
            })?;
        }
        ledger::read(&row.ledger, row.accepted_at, &mut lines, |left| {
            self.worker(left.signed()?)
        })?;
        Ok(lines)
    }

    fn list(
        &mut self,
        filter: &Filter,
        below: Option<i64>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        // A name that was never stored matches nothing.
        let unknown = -1;
        let domain = match &filter.domain {
            Some(domain) => Some(self.find_name(domain.as_str())?.unwrap_or(unknown)),
            None => None,
        };
        let event_type = match &filter.event_type {
            Some(event_type) => Some(self.find_name(event_type.as_str())?.unwrap_or(unknown)),
            None => None,
        };
        let (label, value) = filter.label.clone().unzip();
        // The name goes into a JSON path between quotes; a label that holds one has another
        // spelling there.
        let label = label.map(|label| format!("$.{}", serde_json::Value::from(label)));
        let batch = filter.batch_id.map(|id| id.0.into_bytes());
        let biz = filter.biz_key.as_ref().map(biz_hash);
        let query = match (biz, batch) {
            (Some(_), _) => Query::ListOfKey,
            (None, Some(_)) => Query::ListOfBatch,
            (None, None) => Query::List,
        };
        let rows = |limit: i64| {
            let params = params![
                below,
                domain,
                event_type,
                filter.biz_key.as_ref().map(|key| key.as_str()),
                filter.idem_key.as_ref().map(|key| key.as_str()),
                filter.provider_txn_id,
                filter.status.map(status_column),
                filter.phase.map(phase_code),
                label,
                value,
                batch,
                maybe_millis(filter.from),
                maybe_millis(filter.to),
                limit,
                biz,
            ];
            let params = if biz.is_some() { params } else { &params[..14] };
            let rows = self.all(query, params, read_both)?;
            let whole = |(row, request)| self.operation(row, request);
            rows.into_iter().map(whole).collect()
        };
        page(limit, rows, |operation| operation.seq.to_string())
    }
}

#[async_trait]
impl Inspect for Sqlite {
    async fn get(&self, ops: &[OpId]) -> Result<Vec<Option<Operation>>> {
        if ops.len() <= QUICK_MAX {
            let quick = &self.shared.quick;
            let read = quick.try_call(|db| ops.iter().map(|op| db.get(*op)).collect());
            if let Some(read) = read {
                return read.map_err(|error| self.lost_or(error));
            }
        }
        let ops = ops.to_vec();
        self.read(move |db| ops.iter().map(|op| db.get(*op)).collect())
            .await
    }

    async fn begun(&self, attempts: &[AttemptId]) -> Result<Vec<Option<Operation>>> {
        let attempts = attempts.to_vec();
        let read = move |db: &mut Db<'_>| {
            let mut live = Vec::new();
            db.each(Query::OperationsLive, [], |row| {
                let id = row.maybe_attempt_id(12)?;
                if id.is_some_and(|id| attempts.contains(&id)) {
                    live.push(read_both(row)?);
                }
                Ok(true)
            })?;
            let whole = |(row, request)| db.operation(row, request);
            let live: Vec<_> = live.into_iter().map(whole).collect::<Result<_>>()?;
            let find = |attempt: &AttemptId| {
                let ours = |row: &&Operation| row.state.attempt_id == Some(*attempt);
                live.iter().find(ours).cloned()
            };
            Ok(attempts.iter().map(find).collect())
        };
        self.read(read).await
    }

    async fn find(&self, keys: &[Keys]) -> Result<Vec<Option<Known>>> {
        let keys = keys.to_vec();
        let read = move |db: &mut Db<'_>| {
            let find = |keys: &Keys| {
                let known = db.known(keys, &keys.hash())?;
                Ok(known.map(|(known, _)| known))
            };
            keys.iter().map(find).collect()
        };
        self.read(read).await
    }

    async fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        let below = cursor.map(str::parse::<i64>).transpose();
        let message = "the cursor is not one of this list; start without one";
        let below = below.map_err(|_| Error::new(ErrorKind::Invalid, message))?;
        let filter = filter.clone();
        self.read(move |db| db.list(&filter, below, limit)).await
    }

    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>> {
        self.read(move |db| db.ledger(op)).await
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.clock().now())
    }
}

/// One page: reads one item more than it shows, to know whether there is another page.
pub(crate) fn page<T>(
    limit: usize,
    read: impl FnOnce(i64) -> Result<Vec<T>>,
    cursor: impl Fn(&T) -> String,
) -> Result<Page<T>> {
    let limit = limit.clamp(1, PAGE_MAX);
    let mut items = read(stored(limit as u64 + 1))?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = items.last().map(cursor).filter(|_| more);
    Ok(Page { items, next_cursor })
}
