//! Reading.

use std::collections::HashMap;

use async_trait::async_trait;
use clinch_core::ports::{
    Filter, FoundId, Inspect, Known, LedgerLine, OfRoute, Operation, PAGE_MAX, Page, SEARCH_MAX,
};
use clinch_core::{
    AttemptId, BizKey, Error, ErrorKind, Keys, OpId, OpIdPrefix, Result, Sealed, Timestamp,
};
use clinch_stored::commit::KnownKey;
use clinch_stored::{Filling, ledger};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::keys::{Key, biz_bytes, key_of, read_known};
use crate::link::{Link, Params};
use crate::query::Query;
use crate::row::{self, STREAM, bytes, millis, phase_column, status_column, stored};
use crate::{Postgres, Shared};

impl Shared {
    /// Whole operations of a statement that reads rows.
    async fn operations(
        &self,
        link: &Link<'_>,
        rows: &[tokio_postgres::Row],
    ) -> Result<Vec<Operation>> {
        let streams = rows.iter().map(|row| row.get(STREAM));
        self.names.learn(link, streams).await?;
        let rows = rows.iter().map(|row| row::read(row, &self.names));
        let mut rows: Vec<_> = rows.collect::<Result<_>>()?;
        let kept = rows.iter().filter(|row| row.has_checkpoint);
        let kept: Vec<Uuid> = kept.map(|row| row.op_id.0).collect();
        let mut checkpoints = HashMap::new();
        if !kept.is_empty() {
            for row in link.query(Query::Checkpoints, &[&kept]).await? {
                checkpoints.insert(OpId(row.get(0)), Sealed::new(row.get(1)));
            }
        }
        for row in &mut rows {
            row.checkpoint = checkpoints.remove(&row.op_id);
        }
        rows.iter().map(|row| row.operation()).collect()
    }
}

impl Shared {
    /// One page of a statement that reads rows in order.
    async fn page(
        &self,
        link: &Link<'_>,
        query: Query,
        params: Params<'_>,
        mut filling: Filling<tokio_postgres::Row>,
    ) -> Result<Page<Operation>> {
        let push = |row| {
            let bytes = bytes(&row);
            filling.push(row, bytes)
        };
        link.each(query, params, push).await?;
        let items = self.operations(link, filling.items()).await?;
        let page = filling.with(items);
        Ok(page.page(|operation| operation.seq.to_string()))
    }
}

/// The newest operation below a seq.
async fn last_seq(link: &Link<'_>, below: i64) -> Result<Option<i64>> {
    let rows = link.query(Query::LastSeq, &[&below]).await?;
    Ok(rows.first().and_then(|row| row.get(0)))
}

impl Postgres {
    /// The streams of the filter's domains and event types.
    fn streams_of(&self, filter: &Filter) -> Vec<i32> {
        let (domains, types) = (&filter.domains, &filter.event_types);
        self.shared.names.streams(|stream| {
            let includes = |route: &OfRoute| route.includes(&stream.domain, &stream.event_type);
            (domains.is_empty() || domains.contains(&stream.domain))
                && (filter.routes.is_empty() || filter.routes.iter().any(includes))
                && (types.is_empty() || types.contains(&stream.event_type))
        })
    }
}

/// The keys that a business key can be part of: from the first to the last.
fn range_of(biz_key: &BizKey) -> (Key, Key) {
    let (mut from, mut to) = ([0; 24], [0xff; 24]);
    from[..4].copy_from_slice(&biz_bytes(biz_key));
    to[..4].copy_from_slice(&biz_bytes(biz_key));
    (from, to)
}

#[async_trait]
impl Inspect for Postgres {
    async fn get(&self, ops: &[OpId]) -> Result<Vec<Option<Operation>>> {
        let ids: Vec<Uuid> = ops.iter().map(|op| op.0).collect();
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let rows = link.query(Query::Operations, &[&ids]).await?;
        let found = self.shared.operations(&link, &rows).await?;
        let found: HashMap<OpId, Operation> = found.into_iter().map(|o| (o.op_id, o)).collect();
        Ok(ops.iter().map(|op| found.get(op).cloned()).collect())
    }

    async fn begun(&self, attempts: &[AttemptId]) -> Result<Vec<Option<Operation>>> {
        let ids: Vec<Uuid> = attempts.iter().map(|attempt| attempt.0).collect();
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let rows = link.query(Query::Begun, &[&ids]).await?;
        let found = self.shared.operations(&link, &rows).await?;
        let find = |attempt: &AttemptId| {
            let ours = |row: &&Operation| row.state.attempt_id == Some(*attempt);
            found.iter().find(ours).cloned()
        };
        Ok(attempts.iter().map(find).collect())
    }

    async fn find(&self, keys: &[Keys]) -> Result<Vec<Option<Known>>> {
        let keys: Vec<_> = keys.iter().map(key_of).collect();
        let columns: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let params: Params<'_> = &[&columns, &Vec::<Uuid>::new()];
        let rows = self.shared.query(Query::Known, params).await?;
        let found = rows.iter().map(read_known);
        let found: HashMap<Key, KnownKey> = found.collect::<Result<_>>()?;
        let known = |key| found.get(key).map(|found| found.known.clone());
        Ok(keys.iter().map(known).collect())
    }

    async fn by_prefix(&self, prefix: &OpIdPrefix, max: usize) -> Result<Vec<FoundId>> {
        let [first, last] = prefix.range().map(|op| op.0);
        let max = stored(max.min(SEARCH_MAX + 1) as u64);
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let params: Params<'_> = &[&first, &last, &max];
        let rows = link.query(Query::IdsByPrefix, params).await?;
        let names = &self.shared.names;
        names
            .learn(&link, rows.iter().map(|row| row.get(1)))
            .await?;
        let found = rows.iter().map(|row| {
            let stream = names.stream(row.get(1))?;
            Ok(FoundId {
                op_id: OpId(row.get(0)),
                domain: stream.domain,
                event_type: stream.event_type,
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
        let below = cursor.map(str::parse::<i64>).transpose();
        let message = "the cursor is not one of this list; start without one";
        let below = below.map_err(|_| Error::new(ErrorKind::Invalid, message))?;
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let by_stream = !filter.domains.is_empty()
            || !filter.event_types.is_empty()
            || !filter.routes.is_empty();
        let code = filter.code_in_json().map(String::into_bytes);
        if by_stream {
            self.shared.names.load(&link).await?;
        }
        let streams = by_stream.then(|| self.streams_of(filter));
        let biz_key = filter.biz_key.as_ref();
        let range = biz_key.map(range_of);
        let (label, value) = filter.label.clone().unzip();
        let biz_key = biz_key.map(|key| key.as_str());
        let idem_key = filter.idem_key.as_ref().map(|key| key.as_str());
        let status = filter.status.map(status_column);
        let phase = filter.phase.map(phase_column);
        let batch = filter.batch_id.map(|id| id.0);
        let (from, to) = (millis(filter.from), millis(filter.to));
        let below = below.unwrap_or(i64::MAX);
        // A search looks at one range of seqs. Holes before it are skipped.
        let lowest = match filter.searches() {
            true => last_seq(&link, below).await?.unwrap_or(below) - SEARCH_MAX as i64 + 1,
            false => i64::MIN,
        };
        let filling = Filling::new(limit);
        let limit = stored(filling.rows() as u64);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            &below,
            &streams,
            &biz_key,
            &idem_key,
            &filter.provider_txn_id,
            &status,
            &phase,
            &label,
            &value,
            &batch,
            &from,
            &to,
            &limit,
            &lowest,
            &code,
        ];
        let (first, last);
        let query = match &range {
            Some((low, high)) => {
                (first, last) = (&low[..], &high[..]);
                params.extend([&first as &(dyn ToSql + Sync), &last]);
                Query::ListOfKey
            }
            None if batch.is_some() => Query::ListOfBatch,
            None => Query::List,
        };
        let mut page = self.shared.page(&link, query, &params, filling).await?;
        if page.next_cursor.is_none() && lowest > i64::MIN {
            let rest = last_seq(&link, lowest).await?;
            page.next_cursor = rest.map(|seq| (seq + 1).to_string());
        }
        Ok(page)
    }

    async fn long_in_progress(&self, before: Timestamp, max: usize) -> Result<Vec<OpId>> {
        let max = stored(max.min(PAGE_MAX) as u64);
        let params: Params<'_> = &[&before.as_millis(), &max, &stored(PAGE_MAX as u64)];
        let rows = self.shared.query(Query::LongInProgress, params).await?;
        Ok(rows.iter().map(|row| OpId(row.get(0))).collect())
    }

    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>> {
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let names = &self.shared.names;
        let rows = link.query(Query::Operations, &[&vec![op.0]]).await?;
        let Some(row) = rows.first() else {
            return Ok(Vec::new());
        };
        names.learn(&link, [row.get(STREAM)]).await?;
        let row = row::read(row, names)?;
        let pages = link.query(Query::LedgerPages, &[&op.0]).await?;
        let mut blob: Vec<u8> = Vec::new();
        for page in &pages {
            blob.extend_from_slice(page.get(0));
        }
        blob.extend_from_slice(&row.ledger);
        let workers = ledger::workers(&blob)?;
        let workers: Vec<i32> = workers
            .into_iter()
            .filter_map(|id| id.try_into().ok())
            .collect();
        names.learn_workers(&link, &workers).await?;
        let mut lines = Vec::new();
        ledger::read(&blob, row.accepted_at, &mut lines, |left| {
            names.worker_named(left.signed()?)
        })?;
        Ok(lines)
    }

    async fn now(&self) -> Result<Timestamp> {
        let row = self.shared.first(Query::Now, &[]).await?;
        Ok(Timestamp::from_millis(row.map_or(0, |row| row.get(0))))
    }
}
