//! Reads: operations, lists and ledgers.

use std::collections::HashMap;

use async_trait::async_trait;
use clinch_core::ports::{
    Filter, FoundId, Inspect, Known, LedgerLine, OfRoute, Operation, PAGE_MAX, Page, SEARCH_MAX,
};
use clinch_core::{
    AttemptId, Error, ErrorKind, KeyHash, Keys, OpId, OpIdPrefix, Result, Status, Timestamp,
};
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
    if !filter.routes.is_empty() {
        let routes: Vec<String> = filter.routes.iter().map(of_route).collect();
        all.push(format!("({})", routes.join(" OR ")));
    }
    all.push("TRUE".to_owned());
    Ok(all)
}

fn of_route(route: &OfRoute) -> String {
    let domain = format!("r.domain = {}", text::literal(route.domain.as_str()));
    let event_type = match &route.event_type {
        Some(one) => format!("r.event_type = {}", text::literal(one.as_str())),
        None if route.except.is_empty() => "TRUE".to_owned(),
        None => {
            let except = text::list(route.except.iter().map(|one| one.as_str()));
            format!("r.event_type NOT IN ({except})")
        }
    };
    format!("({domain} AND {event_type})")
}

/// The statement of one page, of operations from `lowest` up.
fn page_of(filter: &Filter, below: Option<u64>, lowest: u64, limit: usize) -> Result<String> {
    let shared = conditions(filter, below)?.join(" AND ");
    let txn = filter.provider_txn_id.as_ref().map(text::literal);
    let code = filter.code_in_json().map(text::literal);
    let of = |table: &str| {
        let mut all = shared.clone();
        if let Some(status) = filter.status {
            let is_open = matches!(status, Status::Pending | Status::InProgress);
            all += &match is_open == (table == "q") {
                true => format!(" AND {table}.status = {}", status_code(status)),
                false => " AND FALSE".to_owned(),
            };
        }
        if let Some(code) = &code {
            all += &format!(" AND LOCATE({code}, {table}.state) > 0");
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
    let limit = limit.to_string();
    let from = |table: &str, name: &str| {
        let has_index = filter.biz_key.is_some() || filter.batch_id.is_some();
        let by_state =
            filter.status.is_some() || filter.phase.is_some() || txn.is_some() || code.is_some();
        let row = format!("STRAIGHT_JOIN {table} AS {name} ON {name}.seq = r.seq");
        match (has_index, by_state) {
            // Every request has one row in one of the two tables.
            (true, false) => format!(
                "(SELECT r.seq FROM clinch_request AS r WHERE {shared} ORDER BY r.seq DESC \
                 LIMIT {limit}) AS w STRAIGHT_JOIN clinch_request AS r ON r.seq = w.seq {row}"
            ),
            (true, true) => format!("clinch_request AS r {row}"),
            (false, _) => {
                format!("{table} AS {name} STRAIGHT_JOIN clinch_request AS r ON r.seq = {name}.seq")
            }
        }
    };
    let (from_queue, from_history) = (from("clinch_queue", "q"), from("clinch_history", "h"));
    let range = |name: &str| {
        let below = below.map(|seq| format!(" AND {name}.seq < {seq}"));
        format!(" AND {name}.seq >= {lowest}{}", below.unwrap_or_default())
    };
    open += &range("q");
    ended += &range("h");
    let values = [
        ("from_queue", from_queue.as_str()),
        ("from_history", &from_history),
        ("where_queue", &open),
        ("where_history", &ended),
        ("limit", &limit),
    ];
    Ok(Query::List.of_rows(true, &values))
}

impl Mysql {
    /// The newest operation below a seq.
    async fn last_seq(&self, below: u64) -> Result<Option<u64>> {
        let below = below.to_string();
        let rows = self
            .query(Query::LastSeq.with(&[("below", &below)]))
            .await?;
        let last = rows.first().map(|row| row.maybe_int(0)).transpose()?;
        Ok(last.flatten().and_then(|seq| u64::try_from(seq).ok()))
    }
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

    async fn by_prefix(&self, prefix: &OpIdPrefix, max: usize) -> Result<Vec<FoundId>> {
        let [first, last] = prefix.range().map(|op| text::literal(op.0.as_bytes()));
        let limit = max.min(SEARCH_MAX + 1).to_string();
        let values = [
            ("first", first.as_str()),
            ("last", &last),
            ("limit", &limit),
        ];
        let rows = self.query(Query::IdsByPrefix.with(&values)).await?;
        let found = rows.iter().map(|row| {
            Ok(FoundId {
                op_id: row.op_id(0)?,
                domain: row.domain(1)?,
                event_type: row.event_type(2)?,
            })
        });
        found.collect()
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
        // A search looks at one range of seqs. Holes before it are skipped.
        let newest = match filter.searches() {
            true => self.last_seq(below.unwrap_or(u64::MAX)).await?,
            false => None,
        };
        let lowest = newest.map_or(0, |newest| (newest + 1).saturating_sub(SEARCH_MAX as u64));
        let sql = page_of(filter, below, lowest, rows)?;
        let filling = self.fill(sql, limit, bytes).await?;
        let items = operations(filling.items())?;
        let rest = match lowest {
            0 => None,
            lowest => self.last_seq(lowest).await?,
        };
        let rest = rest.map(|seq| (seq + 1).to_string());
        let page = filling.with(items);
        Ok(page.page_of_search(|operation| operation.seq.to_string(), rest))
    }

    async fn long_in_progress(&self, before: Timestamp, max: usize) -> Result<Vec<OpId>> {
        let sql = Query::LongInProgress.with(&[
            ("before", &before.as_millis().to_string()),
            ("limit", &max.min(PAGE_MAX).to_string()),
            ("live", &PAGE_MAX.to_string()),
        ]);
        let rows = self.query(sql).await?;
        rows.iter().map(|row| row.op_id(0)).collect()
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
