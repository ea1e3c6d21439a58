//! Reading.

use async_trait::async_trait;
use clinch_core::ports::{
    Filter, FoundId, Inspect, Known, LedgerLine, OfRoute, Operation, PAGE_MAX, Page, SEARCH_MAX,
};
use clinch_core::protocol::Phase;
use clinch_core::{AttemptId, Keys, OpId, OpIdPrefix, Result, Status, Timestamp};
use clinch_stored::Filling;

use crate::Memory;
use crate::store::known;

#[async_trait]
impl Inspect for Memory {
    async fn get(&self, ops: &[OpId]) -> Result<Vec<Option<Operation>>> {
        Ok(self.read(|tables, _| {
            let get = |op| tables.rows.get(op).map(|row| row.operation.clone());
            ops.iter().map(get).collect()
        }))
    }

    async fn begun(&self, attempts: &[AttemptId]) -> Result<Vec<Option<Operation>>> {
        Ok(self.read(|tables, _| {
            let live = |attempt: &AttemptId| {
                let operations = tables.rows.iter().map(|(_, row)| &row.operation);
                let mut live = operations.filter(|op| op.state.phase == Some(Phase::Live));
                live.find(|op| op.state.attempt_id == Some(*attempt))
                    .cloned()
            };
            attempts.iter().map(live).collect()
        }))
    }

    async fn find(&self, keys: &[Keys]) -> Result<Vec<Option<Known>>> {
        Ok(self.read(|tables, _| {
            let find = |keys: &Keys| tables.keys.get(&keys.hash()).map(|key| known(tables, key));
            keys.iter().map(find).collect()
        }))
    }

    async fn by_prefix(&self, prefix: &OpIdPrefix, max: usize) -> Result<Vec<FoundId>> {
        let [first, last] = prefix.range();
        Ok(self.read(|tables, _| {
            let rows = tables.rows.iter();
            let found = rows.filter(|(op, _)| (first..=last).contains(*op));
            let found = found.map(|(op, row)| FoundId {
                op_id: *op,
                domain: row.operation.keys.domain.clone(),
                event_type: row.operation.keys.event_type.clone(),
            });
            let mut found: Vec<FoundId> = found.collect();
            found.sort_by_key(|found| found.op_id);
            found.truncate(max.min(SEARCH_MAX + 1));
            found
        }))
    }

    async fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        Ok(self.read(|tables, _| {
            let rows = tables.rows.iter().map(|(_, row)| &row.operation);
            let mut found: Vec<_> = rows.filter(|op| matches(filter, op)).collect();
            found.sort_by_key(|operation| operation.seq);
            let rank = |operation: &Operation| format!("{:020}", operation.seq);
            let found = found.into_iter().rev();
            page(found, rank, Operation::bytes, cursor, limit)
        }))
    }

    async fn long_in_progress(&self, before: Timestamp, max: usize) -> Result<Vec<OpId>> {
        Ok(self.read(|tables, _| {
            let rows = tables.rows.iter().map(|(_, row)| &row.operation);
            let long = rows.filter(|operation| {
                let started = operation.started_at.is_some_and(|at| at < before);
                started && operation.state.status == Status::InProgress
            });
            let long = long.map(|operation| operation.op_id);
            long.take(max.min(PAGE_MAX)).collect()
        }))
    }

    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>> {
        Ok(self.read(|tables, _| tables.ledger.get(&op).cloned().unwrap_or_default()))
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.clock().now())
    }
}

/// One page of `items`, which come in falling order of their rank; the cursor is the rank of
/// the last item shown.
fn page<'a, T: Clone + 'a>(
    items: impl Iterator<Item = &'a T>,
    rank: impl Fn(&T) -> String,
    bytes: impl Fn(&T) -> usize,
    cursor: Option<&str>,
    limit: usize,
) -> Page<T> {
    let is_shown = |item: &&T| cursor.is_some_and(|cursor| rank(item).as_str() >= cursor);
    let mut filling = Filling::new(limit);
    for item in items.skip_while(is_shown) {
        if !filling.push(item.clone(), bytes(item)) {
            break;
        }
    }
    filling.page(rank)
}

fn matches(filter: &Filter, operation: &Operation) -> bool {
    fn is<T: PartialEq>(wanted: &Option<T>, value: &T) -> bool {
        wanted.as_ref().is_none_or(|wanted| wanted == value)
    }
    fn is_among<T: PartialEq>(wanted: &[T], value: &T) -> bool {
        wanted.is_empty() || wanted.contains(value)
    }
    let keys = &operation.keys;
    let txn_id = operation
        .result
        .as_ref()
        .and_then(|r| r.provider_txn_id.as_ref());
    let label = filter.label.as_ref();
    let includes = |route: &OfRoute| route.includes(&keys.domain, &keys.event_type);
    is_among(&filter.domains, &keys.domain)
        && is_among(&filter.event_types, &keys.event_type)
        && is(&filter.biz_key, &keys.biz_key)
        && is(&filter.idem_key, &keys.idem_key)
        && is(&filter.status, &operation.state.status)
        && filter
            .provider_txn_id
            .as_ref()
            .is_none_or(|id| txn_id == Some(id))
        && filter
            .phase
            .is_none_or(|phase| operation.state.phase == Some(phase))
        && filter
            .batch_id
            .is_none_or(|id| operation.batch_id == Some(id))
        && filter.has_code(&operation.state)
        && (filter.routes.is_empty() || filter.routes.iter().any(includes))
        && filter.from.is_none_or(|from| operation.accepted_at >= from)
        && filter.to.is_none_or(|to| operation.accepted_at < to)
        && label.is_none_or(|(name, value)| {
            let mut labels = operation.options.labels.iter();
            labels.any(|label| label == (name.as_str(), value.as_str()))
        })
}
