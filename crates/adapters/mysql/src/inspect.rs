//! Reads: operations, lists and ledgers.

use std::collections::HashMap;

use async_trait::async_trait;
use clinch_core::ports::{Filter, Inspect, Known, LedgerLine, Operation, Page};
use clinch_core::{AttemptId, Error, ErrorKind, KeyHash, Keys, OpId, Result, Timestamp};
use clinch_stored::Filling;
use clinch_stored::ledger::{self, status_code};

use crate::Mysql;
use crate::column::Column;
use crate::keys::read_known;
use crate::query::Query;
use crate::row::{self, LONG_COLUMNS, phase_code};
use crate::text;

fn operations(rows: &[mysql_async::Row]) -> Result<Vec<Operation>> {
    let read = |row| row::read_whole(row)?.operation();
    rows.iter().map(read).collect()
}

/// The conditions of a filter as SQL text.
fn conditions(filter: &Filter, below: Option<u64>) -> Result<Vec<String>> {
    let is = |column: &str, value: Option<&str>| {
        value.map(|value| format!("r.{column} = {}", text::literal(value)))
    };
    let among = |column: &str, names: Vec<&str>| {
        (!names.is_empty()).then(|| format!("r.{column} IN ({})", text::list(names)))
    };
    let domains = filter.domains.iter().map(|name| name.as_str());
    let event_types = filter.event_types.iter().map(|name| name.as_str());
    let mut all: Vec<String> = [
        among("domain", domains.collect()),
        among("event_type", event_types.collect()),
        is("biz_key", filter.biz_key.as_ref().map(|key| key.as_str())),
        is("idem_key", filter.idem_key.as_ref().map(|key| key.as_str())),
        below.map(|seq| format!("r.seq < {seq}")),
        filter
            .batch_id
            .map(|id| format!("r.batch_id = {}", text::literal(id.0.as_bytes()))),
        filter
            .from
            .map(|at| format!("r.accepted_at >= {}", at.as_millis())),
        filter
            .to
            .map(|at| format!("r.accepted_at < {}", at.as_millis())),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some((name, value)) = &filter.label {
        let json = |text: &String| serde_json::Value::from(text.as_str()).to_string();
        // Labels are stored as compact JSON, in which a quote inside a text is always escaped. So a
        // pair is found by its bytes after a brace or a comma.
        let pair = format!("{}:{}", json(name), json(value));
        let (first, next) = (format!("{{{pair}"), format!(",{pair}"));
        all.push(format!(
            "(LOCATE({}, r.labels) > 0 OR LOCATE({}, r.labels) > 0)",
            text::literal(first),
            text::literal(next)
        ));
    }
    all.push("TRUE".to_owned());
    Ok(all)
}

/// The statement of one page.
fn page_of(filter: &Filter, below: Option<u64>, limit: usize) -> Result<String> {
    let shared = conditions(filter, below)?.join(" AND ");
    let txn = filter.provider_txn_id.as_ref().map(text::literal);
    let of = |table: &str| {
        let mut all = shared.clone();
        if let Some(status) = filter.status {
            all += &format!(" AND {table}.status = {}", status_code(status));
        }
        if let Some(txn) = &txn {
            all += &format!(" AND {table}.txn_id = {txn}");
        }
        all
    };
    let (mut open, mut ended) = (of("q"), of("h"));
    if let Some(phase) = filter.phase {
        open += &format!(" AND q.phase = {}", phase_code(phase));
        ended += " AND FALSE";
    }
    let values = [
        ("where_queue", open.as_str()),
        ("where_history", &ended),
        ("limit", &limit.to_string()),
    ];
    Ok(Query::List.of_rows(true, &values))
}

#[async_trait]
impl Inspect for Mysql {
    async fn get(&self, ops: &[OpId]) -> Result<Vec<Option<Operation>>> {
        let ids = text::list(ops.iter().map(|op| op.0.as_bytes()));
        let rows = self
            .query(Query::Operations.of_rows(true, &[("ids", &ids)]))
            .await?;
        let found = operations(&rows)?.into_iter();
        let found: HashMap<OpId, Operation> = found.map(|one| (one.op_id, one)).collect();
        Ok(ops.iter().map(|op| found.get(op).cloned()).collect())
    }

    async fn begun(&self, attempts: &[AttemptId]) -> Result<Vec<Option<Operation>>> {
        let ids = text::list(attempts.iter().map(|attempt| attempt.0.as_bytes()));
        let rows = self
            .query(Query::Begun.of_rows(true, &[("ids", &ids)]))
            .await?;
        let live = operations(&rows)?;
        let find = |attempt: &AttemptId| {
            let ours = |row: &&Operation| row.state.attempt_id == Some(*attempt);
            live.iter().find(ours).cloned()
        };
        Ok(attempts.iter().map(find).collect())
    }

    async fn find(&self, keys: &[Keys]) -> Result<Vec<Option<Known>>> {
        let hashes: Vec<KeyHash> = keys.iter().map(Keys::hash).collect();
        let list = text::list(hashes.iter().map(|hash| hash.as_bytes()));
        let rows = self
            .query(Query::KnownKeys.with(&[("hashes", &list)]))
            .await?;
        let mut found = HashMap::new();
        for row in &rows {
            let (hash, known) = read_known(row)?;
            found.insert(hash, known);
        }
        Ok(hashes.iter().map(|hash| found.get(hash).cloned()).collect())
    }

    async fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        let below = cursor.map(str::parse::<u64>).transpose();
        let message = "the cursor is not one of this list; start without one";
        let below = below.map_err(|_| Error::new(ErrorKind::Invalid, message))?;
        let rows = Filling::<()>::new(limit).rows();
        let sql = page_of(filter, below, rows)?;
        let filling = self.fill(sql, limit, bytes).await?;
        let items = operations(filling.items())?;
        let page = filling.with(items);
        Ok(page.page(|operation| operation.seq.to_string()))
    }

    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>> {
        let ids = text::literal(op.0.as_bytes());
        let rows = self
            .query(Query::Operations.of_rows(false, &[("ids", &ids)]))
            .await?;
        let Some(row) = rows.first().map(row::read).transpose()? else {
            return Ok(Vec::new());
        };
        let seq = row.seq.to_string();
        let pages = self
            .query(Query::LedgerPages.with(&[("seq", &seq)]))
            .await?;
        let mut lines = Vec::new();
        let pages = pages.iter().map(|page| page.bytes(0));
        for page in pages.chain([Ok(row.ledger.as_slice())]) {
            ledger::read(page?, row.accepted_at, &mut lines, |left| left.worker())?;
        }
        Ok(lines)
    }

    async fn now(&self) -> Result<Timestamp> {
        self.read((), |tx, ()| Box::pin(tx.read_time())).await
    }
}

/// Bytes that a row counts towards its page's size limit.
fn bytes(row: &mysql_async::Row) -> usize {
    let bytes = LONG_COLUMNS.map(|at| row.maybe_bytes(at).ok().flatten());
    bytes.into_iter().flatten().map(<[u8]>::len).sum()
}
