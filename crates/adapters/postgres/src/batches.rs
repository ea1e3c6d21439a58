//! Groups of operations.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Batch, Batches, NewBatch, NewOperation};
use clinch_core::{BatchId, Result, Status};
use clinch_stored::names;
use uuid::Uuid;

use crate::Postgres;
use crate::accept::Entrance;
use crate::error;
use crate::link::Link;
use crate::query::Query;
use crate::row::to_json;
use crate::tx::{BatchEntry, Tx, read_batch};

impl Tx<'_> {
    async fn batch(&mut self, batch_id: BatchId) -> Result<Option<&mut BatchEntry>> {
        self.load_batches(&BTreeSet::from([batch_id])).await?;
        Ok(self.batches.get_mut(&batch_id).and_then(Option::as_mut))
    }

    /// False: the batch is sealed or unknown.
    pub(crate) async fn join_batch(
        &mut self,
        new: &NewOperation,
        entrance: Entrance,
    ) -> Result<bool> {
        let Some(batch_id) = new.batch_id else {
            return Ok(true);
        };
        let Some(entry) = self.batch(batch_id).await? else {
            return Ok(false);
        };
        if entry.batch.sealed && entrance == Entrance::Outside {
            return Ok(false);
        }
        entry.batch.total += 1;
        entry.dirty = true;
        Ok(true)
    }

    /// Counts a member that ended; the batch, if that completed it.
    pub(crate) async fn count_in_batch(
        &mut self,
        batch_id: Option<BatchId>,
        status: Status,
        routes: &Routes,
    ) -> Result<Option<BatchId>> {
        let Some(batch_id) = batch_id else {
            return Ok(None);
        };
        let Some(entry) = self.batch(batch_id).await? else {
            return Ok(None);
        };
        match status {
            Status::Completed => entry.batch.completed += 1,
            _ => entry.batch.failed += 1,
        }
        entry.dirty = true;
        let completed = self.complete_batch(batch_id, routes).await?;
        Ok(completed.then_some(batch_id))
    }

    /// True once for a batch: sealed, and its last member is terminal.
    async fn complete_batch(&mut self, batch_id: BatchId, routes: &Routes) -> Result<bool> {
        let now = self.now;
        let Some(entry) = self.batch(batch_id).await? else {
            return Ok(false);
        };
        if entry.batch.completed_at.is_some() || !entry.batch.is_complete() {
            return Ok(false);
        }
        entry.batch.completed_at = Some(now);
        entry.dirty = true;
        if let Some(event) = entry.on_complete.clone() {
            let event = serde_json::from_str(&event);
            let event: NewOperation =
                event.map_err(|error| error::corrupt("completion event").caused_by(error))?;
            self.accept(&event, Entrance::Spawned, routes).await?;
        }
        Ok(true)
    }

    async fn seal(&mut self, batches: &[BatchId], routes: &Routes) -> Result<Vec<BatchId>> {
        self.start().await?;
        self.load_batches(&batches.iter().copied().collect())
            .await?;
        let mut completed = Vec::new();
        for batch_id in batches {
            let Some(entry) = self.batch(*batch_id).await? else {
                continue;
            };
            entry.dirty |= !entry.batch.sealed;
            entry.batch.sealed = true;
            if self.complete_batch(*batch_id, routes).await? {
                completed.push(*batch_id);
            }
        }
        Ok(completed)
    }

    async fn open(&mut self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        let ids: Vec<Uuid> = batches.iter().map(|batch| batch.batch_id.0).collect();
        let event = |new: &NewBatch| new.on_complete.as_ref().map(to_json).transpose();
        let events: Vec<_> = batches.iter().map(event).collect::<Result<_>>()?;
        let domains = batches.iter().map(|new| names::joined(&new.owner.domains));
        let domains: Vec<String> = domains.collect();
        let types = batches
            .iter()
            .map(|new| names::joined(&new.owner.event_types));
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
        let batches = Arc::new(batches.to_vec());
        self.write(move |tx| {
            let batches = batches.clone();
            Box::pin(async move { tx.open(&batches).await })
        })
        .await
    }

    async fn seal(&self, batches: &[BatchId], routes: &Routes) -> Result<Vec<BatchId>> {
        let call = Arc::new((batches.to_vec(), routes.clone()));
        self.write(move |tx| {
            let call = call.clone();
            Box::pin(async move { tx.seal(&call.0, &call.1).await })
        })
        .await
    }

    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        let ids: Vec<Uuid> = batches.iter().map(|id| id.0).collect();
        let client = self.client().await?;
        let rows = Link::Pooled(&client).query(Query::Batches, &[&ids]).await?;
        let read = rows.iter().map(read_batch);
        let read: Vec<Batch> = read.collect::<Result<_>>()?;
        let by_id: HashMap<_, _> = read.into_iter().map(|one| (one.batch_id, one)).collect();
        Ok(batches.iter().map(|id| by_id.get(id).cloned()).collect())
    }
}
