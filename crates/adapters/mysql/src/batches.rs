//! Groups of operations.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Batch, Batches, NewBatch, NewOperation};
use clinch_core::{BatchId, Result, Status};
use clinch_stored::names;

use crate::Mysql;
use crate::accept::Entry;
use crate::column::Column;
use crate::error;
use crate::link::Script;
use crate::query::Query;
use crate::request::to_json;
use crate::row::Row;
use crate::text::{self, Tuple};
use crate::tx::Tx;

/// A batch under its lock; `None`: there is none.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchRow {
    batch: Option<Batch>,
    on_complete: Option<Vec<u8>>,
    changed: bool,
    completes: bool,
}

fn read_batch(row: &mysql_async::Row) -> Result<Batch> {
    let batch_id = row.maybe_batch_id(0)?;
    Ok(Batch {
        batch_id: batch_id.ok_or_else(|| error::corrupt("id"))?,
        sealed: row.int(1)? != 0,
        total: row.count(2)?,
        completed: row.count(3)?,
        failed: row.count(4)?,
        completed_at: row.maybe_moment(5)?,
        owner: names::restriction(&row.text(6)?, &row.text(7)?)?,
    })
}

impl Tx<'_> {
    /// Locks and reads batches that are not in hand yet.
    pub(crate) async fn load_batches(&mut self, ids: &BTreeSet<BatchId>) -> Result<()> {
        let is_unknown = |id: &&BatchId| !self.batches.contains_key(*id);
        let unknown: Vec<BatchId> = ids.iter().filter(is_unknown).copied().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let ids = text::list(unknown.iter().map(|id| id.0.as_bytes()));
        let rows = self
            .query(&Query::LockBatches.with(&[("ids", &ids)]))
            .await?;
        for id in unknown {
            self.batches.insert(id, BatchRow::default());
        }
        for row in &rows {
            let batch = read_batch(row)?;
            let id = batch.batch_id;
            let row = BatchRow {
                batch: Some(batch),
                on_complete: row.maybe_bytes(8)?.map(<[u8]>::to_vec),
                ..BatchRow::default()
            };
            self.batches.insert(id, row);
        }
        Ok(())
    }

    async fn batch(&mut self, id: BatchId) -> Result<Option<(&mut BatchRow, Batch)>> {
        self.load_batches(&BTreeSet::from([id])).await?;
        let row = self.batches.get_mut(&id);
        Ok(row.and_then(|row| {
            let batch = row.batch.clone()?;
            Some((row, batch))
        }))
    }

    /// False: the batch is sealed or unknown.
    pub(crate) async fn join_batch(&mut self, new: &NewOperation, entry: Entry) -> Result<bool> {
        let Some(batch_id) = new.batch_id else {
            return Ok(true);
        };
        let Some((row, mut batch)) = self.batch(batch_id).await? else {
            return Ok(false);
        };
        if batch.sealed && entry == Entry::Outside {
            return Ok(false);
        }
        batch.total += 1;
        (row.batch, row.changed) = (Some(batch), true);
        Ok(true)
    }

    pub(crate) async fn count_in_batch(
        &mut self,
        row: &Row,
        routes: &Routes,
    ) -> Result<Option<BatchId>> {
        let Some(batch_id) = row.batch_id else {
            return Ok(None);
        };
        let Some((held, mut batch)) = self.batch(batch_id).await? else {
            return Ok(None);
        };
        match row.state.status {
            Status::Completed => batch.completed += 1,
            _ => batch.failed += 1,
        }
        (held.batch, held.changed) = (Some(batch), true);
        let completed = self.complete_batch(batch_id, routes).await?;
        Ok(completed.then_some(batch_id))
    }

    /// True once for a batch: sealed, and its last member is terminal.
    async fn complete_batch(&mut self, id: BatchId, routes: &Routes) -> Result<bool> {
        let now = self.now;
        let Some((held, mut batch)) = self.batch(id).await? else {
            return Ok(false);
        };
        if batch.completed_at.is_some() || !batch.is_complete() {
            return Ok(false);
        }
        batch.completed_at = Some(now);
        held.batch = Some(batch);
        (held.changed, held.completes) = (true, true);
        if let Some(event) = held.on_complete.take() {
            let event = serde_json::from_slice::<NewOperation>(&event);
            let event = event.map_err(|error| error::corrupt("completion event").caused_by(error));
            self.accept_event(&event?, routes).await?;
        }
        Ok(true)
    }

    async fn accept_event(&mut self, event: &NewOperation, routes: &Routes) -> Result<()> {
        self.prepare(&[(event, routes)], true).await?;
        let key = self.keys.get(&event.keys.hash());
        let is_new = key.is_none_or(|key| key.is_unused());
        let is_taken = self.taken.contains(&event.op_id) || self.rows.contains_key(&event.op_id);
        if !(is_new && is_taken) {
            self.accept(event, Entry::Spawned, routes).await?;
        }
        Ok(())
    }

    async fn seal(&mut self, id: BatchId, routes: &Routes) -> Result<bool> {
        let Some((held, mut batch)) = self.batch(id).await? else {
            return Ok(false);
        };
        batch.sealed = true;
        (held.batch, held.changed) = (Some(batch), true);
        self.complete_batch(id, routes).await
    }

    pub(crate) fn write_batches(&mut self, script: &mut Script) {
        for (id, row) in &self.batches {
            let Some(batch) = row.batch.as_ref().filter(|_| row.changed) else {
                continue;
            };
            let id = text::literal(id.0.as_bytes());
            let number = |value: u64| value.to_string();
            script.add(&Query::PutBatch.with(&[
                ("id", &id),
                ("sealed", &number(u64::from(batch.sealed))),
                ("total", &number(batch.total)),
                ("completed", &number(batch.completed)),
                ("failed", &number(batch.failed)),
            ]));
            if let Some(at) = batch.completed_at.filter(|_| row.completes) {
                let at = at.as_millis().to_string();
                script.add(&Query::CompleteBatch.with(&[("id", &id), ("at", &at)]));
            }
        }
    }
}

#[async_trait]
impl Batches for Mysql {
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        let row = |new: &NewBatch| -> Result<String> {
            let event = new.on_complete.as_ref().map(to_json).transpose()?;
            let tuple = Tuple::new().bytes(new.batch_id.0.as_bytes());
            let tuple = tuple
                .maybe_bytes(event)
                .bytes(names::joined(&new.owner.domains))
                .bytes(names::joined(&new.owner.event_types));
            Ok(tuple.end())
        };
        let rows: Arc<Vec<String>> = Arc::new(batches.iter().map(row).collect::<Result<_>>()?);
        self.write(move |tx| {
            let rows = rows.clone();
            Box::pin(async move {
                let mut script = Script::default();
                for row in rows.iter() {
                    script.add(&Query::InsertBatches.with(&[("row", row)]));
                }
                let answers = tx.run(script).await?;
                Ok(answers.iter().map(|answer| answer.affected == 1).collect())
            })
        })
        .await
    }

    async fn seal(&self, batches: &[BatchId], routes: &Routes) -> Result<Vec<BatchId>> {
        let (batches, routes) = (Arc::new(batches.to_vec()), Arc::new(routes.clone()));
        self.write(move |tx| {
            let (batches, routes) = (batches.clone(), routes.clone());
            Box::pin(async move {
                tx.load_batches(&batches.iter().copied().collect()).await?;
                let mut completed = Vec::new();
                for batch_id in batches.iter() {
                    if tx.seal(*batch_id, &routes).await? {
                        completed.push(*batch_id);
                    }
                }
                Ok(completed)
            })
        })
        .await
    }

    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        let ids = text::list(batches.iter().map(|id| id.0.as_bytes()));
        let rows = self.query(Query::Batches.with(&[("ids", &ids)])).await?;
        let found: Vec<Batch> = rows.iter().map(read_batch).collect::<Result<_>>()?;
        let find = |id: &BatchId| found.iter().find(|batch| batch.batch_id == *id).cloned();
        Ok(batches.iter().map(find).collect())
    }
}
