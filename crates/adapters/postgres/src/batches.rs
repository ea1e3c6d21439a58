//! Groups of operations.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use clinch_core::ports::{Batch, Batches, NewBatch, Page, Restriction};
use clinch_core::{BatchId, Result};
use clinch_stored::json::to_text;
use clinch_stored::{BatchPage, names};
use uuid::Uuid;

use crate::Postgres;
use crate::link::Params;
use crate::query::Query;
use crate::row::{count, moment, stored};
use crate::tx::Tx;

impl Tx<'_> {
    async fn open_batches(&mut self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        let ids: Vec<Uuid> = batches.iter().map(|batch| batch.batch_id.0).collect();
        let event = |new: &NewBatch| new.on_complete.as_ref().map(to_text).transpose();
        let events: Vec<_> = batches.iter().map(event).collect::<Result<_>>()?;
        let owners = batches.iter().map(|new| &new.owner);
        let domains = owners.clone().map(|owner| names::joined(&owner.domains));
        let domains: Vec<String> = domains.collect();
        let types = owners.map(|owner| names::joined(&owner.event_types));
        let types: Vec<String> = types.collect();
        let rows = self
            .query(Query::InsertBatches, &[&ids, &events, &domains, &types])
            .await?;
        let mut new: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        Ok(ids.iter().map(|id| new.remove(id)).collect())
    }
}

#[async_trait]
impl Batches for Postgres {
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        self.write(batches.to_vec(), |tx, batches| {
            Box::pin(tx.open_batches(batches))
        })
        .await
    }

    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        let ids: Vec<Uuid> = batches.iter().map(|id| id.0).collect();
        let rows = self.shared.query(Query::Batches, &[&ids]).await?;
        let read = rows.iter().map(read_batch);
        let read: Vec<Batch> = read.collect::<Result<_>>()?;
        let by_id: HashMap<_, _> = read.into_iter().map(|one| (one.batch_id, one)).collect();
        Ok(batches.iter().map(|id| by_id.get(id).cloned()).collect())
    }

    async fn list(
        &self,
        of: &Restriction,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Batch>> {
        let page = BatchPage::new(of, cursor, limit)?;
        let below = page.below.map(|id| id.0);
        let params: Params<'_> = &[&below, &stored(page.rows() as u64)];
        let rows = self.shared.query(Query::ListBatches, params).await?;
        let read: Vec<Batch> = rows.iter().map(read_batch).collect::<Result<_>>()?;
        Ok(page.page(read))
    }
}

pub(crate) fn read_batch(row: &tokio_postgres::Row) -> Result<Batch> {
    Ok(Batch {
        batch_id: BatchId(row.get(0)),
        sealed: row.get(1),
        total: count(row.get(2))?,
        completed: count(row.get(3))?,
        failed: count(row.get(4))?,
        completed_at: moment(row.get(5)),
        owner: names::restriction(row.get(6), row.get(7))?,
    })
}
