//! Reads: operations, lists and ledgers.

use async_trait::async_trait;
use clinch_core::ports::{
    Filter, FoundId, Inspect, Known, LedgerLine, Operation, PAGE_MAX, Page, SEARCH_MAX,
};
use clinch_core::{AttemptId, Error, ErrorKind, Keys, OpId, OpIdPrefix, Result, Timestamp};
use clinch_stored::commit::Row;
use clinch_stored::{Filling, json, ledger};
use rusqlite::params;

use crate::Sqlite;
use crate::column::{Column, maybe_millis, millis, stored};
use crate::db::Db;
use crate::query::Query;
use crate::request::biz_hash;
use crate::row::{Width, phase_code, read_row, status_column};

/// Bytes that a checkpoint counts towards a page's size limit. Checkpoints are read after the page
/// is filled, so this is the default maximum.
const CHECKPOINT_BYTES: usize = 64 * 1024;

/// Rows that are read on the caller's own thread: a few pages, most likely in memory.
const QUICK_MAX: usize = 2;

impl Db<'_> {
    pub(crate) fn get(&mut self, op_id: OpId) -> Result<Option<Operation>> {
        let row = self.whole_row(op_id)?;
        row.map(|row| row.operation()).transpose()
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

    /// The numbers of names as a JSON array; `None`: the filter names none.
    pub(crate) fn find_names<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Option<String>> {
        // A name that was never stored matches nothing.
        let unknown = -1;
        let mut numbers = Vec::new();
        for name in names {
            let number = self.find_name(name)?.unwrap_or(unknown);
            numbers.push(number.to_string());
        }
        Ok((!numbers.is_empty()).then(|| format!("[{}]", numbers.join(","))))
    }

    /// The filter's routes with the numbers of their names, as JSON; `None`: the filter names none.
    fn routes_of(&mut self, filter: &Filter) -> Result<Option<String>> {
        // A name that was never stored matches nothing.
        let unknown = -1;
        let mut number = |name: &str| Ok(self.find_name(name)?.unwrap_or(unknown));
        let mut routes = Vec::with_capacity(filter.routes.len());
        for route in &filter.routes {
            let event_type = route.event_type.as_ref();
            let event_type = event_type.map(|one| number(one.as_str())).transpose()?;
            let except = route.except.iter().map(|one| number(one.as_str()));
            let except = except.collect::<Result<Vec<i64>>>()?;
            let domain = number(route.domain.as_str())?;
            routes.push(serde_json::json!({
                "domain": domain, "event_type": event_type, "except": except,
            }));
        }
        Ok((!routes.is_empty()).then(|| serde_json::Value::from(routes).to_string()))
    }

    fn by_prefix(&mut self, prefix: &OpIdPrefix, max: usize) -> Result<Vec<FoundId>> {
        let [first, last] = prefix.range();
        let max = stored(max.min(SEARCH_MAX + 1) as u64);
        let params = params![first.0.as_bytes(), last.0.as_bytes(), max];
        let rows = self.all(Query::IdsByPrefix, params, |row| {
            Ok((row.op_id(0)?, row.int(1)?, row.int(2)?))
        })?;
        let found = rows.into_iter().map(|(op_id, domain, event_type)| {
            Ok(FoundId {
                op_id,
                domain: self.domain(domain)?,
                event_type: self.event_type(event_type)?,
            })
        });
        found.collect()
    }

    fn list(
        &mut self,
        filter: &Filter,
        below: Option<i64>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        let domains = self.find_names(filter.domains.iter().map(|name| name.as_str()))?;
        let types = self.find_names(filter.event_types.iter().map(|name| name.as_str()))?;
        let (label, value) = filter.label.clone().unzip();
        // The label is quoted inside a JSON path; JSON escapes a quote in its name.
        let label = label.map(|label| format!("$.{}", serde_json::Value::from(label)));
        let batch = filter.batch_id.map(|id| id.0.into_bytes());
        let biz = filter.biz_key.as_ref().map(biz_hash);
        let new_keys = match biz {
            Some(hash) => Some(json::to_text(&self.new_keys(hash, hash | 0xffff_ffff)?)?),
            None => None,
        };
        let query = match (biz, batch) {
            (Some(_), _) => Query::ListOfKey,
            (None, Some(_)) => Query::ListOfBatch,
            (None, None) => Query::List,
        };
        let below = below.unwrap_or(i64::MAX);
        // A search looks at one range of seqs. Holes before it are skipped.
        let newest = self.last_seq(below)?;
        let from = match newest {
            Some(newest) if filter.searches() => newest - SEARCH_MAX as i64 + 1,
            _ => i64::MIN,
        };
        let mut filling = Filling::new(limit);
        let rows = stored(filling.rows() as u64);
        let params = params![
            below,
            domains,
            types,
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
            rows,
            from,
            filter.code_in_json(),
            self.routes_of(filter)?,
            biz,
            new_keys,
        ];
        let params = if biz.is_some() { params } else { &params[..17] };
        self.each_with(query, params, |row, db| {
            let row = read_row(row, Width::Whole, db)?;
            let bytes = bytes(&row);
            Ok(filling.push(row, bytes))
        })?;
        let whole = |row| self.with_checkpoint(row)?.operation();
        let items = filling.take().into_iter().map(whole);
        let items = items.collect::<Result<_>>()?;
        let rest = self.last_seq(from)?.map(|seq| (seq + 1).to_string());
        let page = filling.with(items);
        Ok(page.page_of_search(|operation| operation.seq.to_string(), rest))
    }

    /// The newest operation below a seq.
    fn last_seq(&mut self, below: i64) -> Result<Option<i64>> {
        let last = self.first(Query::LastSeq, [below], |row| row.maybe_int(0))?;
        Ok(last.flatten())
    }

    /// Those that run are few; the others have an index by their first begin.
    fn long_in_progress(&mut self, before: Timestamp, max: usize) -> Result<Vec<OpId>> {
        let max = stored(max.min(PAGE_MAX) as u64);
        let params = params![millis(before), max, PAGE_MAX as i64];
        self.all(Query::LongInProgress, params, |row| row.op_id(0))
    }
}

#[async_trait]
impl Inspect for Sqlite {
    async fn get(&self, ops: &[OpId]) -> Result<Vec<Option<Operation>>> {
        if ops.len() <= QUICK_MAX {
            let reader = &self.shared.inline_reader;
            let read = reader.try_call(|db| ops.iter().map(|op| db.get(*op)).collect());
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
            db.each_with(Query::OperationsLive, [], |row, db| {
                let id = row.maybe_attempt_id(12)?;
                if id.is_some_and(|id| attempts.contains(&id)) {
                    let row = read_row(row, Width::Whole, db)?;
                    live.push(db.with_checkpoint(row)?.operation()?);
                }
                Ok(true)
            })?;
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

    async fn by_prefix(&self, prefix: &OpIdPrefix, max: usize) -> Result<Vec<FoundId>> {
        let prefix = *prefix;
        self.read(move |db| db.by_prefix(&prefix, max)).await
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

    async fn long_in_progress(&self, before: Timestamp, max: usize) -> Result<Vec<OpId>> {
        self.read(move |db| db.long_in_progress(before, max)).await
    }

    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>> {
        self.read(move |db| db.ledger(op)).await
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.clock().now())
    }
}

/// Bytes that a row counts towards its page's size limit.
fn bytes(row: &Row) -> usize {
    let result = row.result.as_ref().and_then(|one| one.payload.as_ref());
    let checkpoint = usize::from(row.has_checkpoint) * CHECKPOINT_BYTES;
    let payload = row
        .request
        .as_ref()
        .map_or(0, |one| one.payload.as_bytes().len());
    payload + result.map_or(0, |one| one.as_bytes().len()) + checkpoint
}
