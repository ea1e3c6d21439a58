//! Groups of operations.

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Batch, Batches, NewBatch, NewOperation};
use clinch_core::{BatchId, Result, Status};
use clinch_stored::names;
use rusqlite::params;

use crate::Sqlite;
use crate::accept::Entry;
use crate::column::{Column, millis, stored};
use crate::db::Db;
use crate::error;
use crate::query::Query;
use crate::row::{Row, to_json};
use crate::tx::Tx;

impl Db<'_> {
    fn batch(&mut self, batch_id: BatchId) -> Result<Option<Batch>> {
        self.first(Query::Batch, [batch_id.0.as_bytes()], |row| {
            Ok(Batch {
                batch_id,
                sealed: row.int(0)? != 0,
                total: row.count(1)?,
                completed: row.count(2)?,
                failed: row.count(3)?,
                completed_at: row.maybe_moment(4)?,
                owner: names::restriction(&row.text(5)?, &row.text(6)?)?,
            })
        })
    }

    fn put_batch(&mut self, batch: &Batch) -> Result<()> {
        let params = params![
            batch.batch_id.0.as_bytes(),
            batch.sealed,
            stored(batch.total),
            stored(batch.completed),
            stored(batch.failed)
        ];
        self.run(Query::PutBatch, params).map(|_| ())
    }
}

impl Tx<'_, '_> {
    /// False: the batch is sealed or unknown.
    pub(crate) fn join_batch(&mut self, new: &NewOperation, entry: Entry) -> Result<bool> {
        let Some(batch_id) = new.batch_id else {
            return Ok(true);
        };
        let Some(mut batch) = self.db.batch(batch_id)? else {
            return Ok(false);
        };
        if batch.sealed && entry == Entry::Outside {
            return Ok(false);
        }
        batch.total += 1;
        self.db.put_batch(&batch)?;
        Ok(true)
    }

    pub(crate) fn count_in_batch(&mut self, row: &Row, routes: &Routes) -> Result<Option<BatchId>> {
        let Some(batch_id) = row.batch_id else {
            return Ok(None);
        };
        let Some(mut batch) = self.db.batch(batch_id)? else {
            return Ok(None);
        };
        match row.state.status {
            Status::Completed => batch.completed += 1,
            _ => batch.failed += 1,
        }
        self.db.put_batch(&batch)?;
        let completed = self.complete_batch(&batch, routes)?;
        Ok(completed.then_some(batch_id))
    }

    /// True once for a batch: sealed, and its last member is terminal.
    fn complete_batch(&mut self, batch: &Batch, routes: &Routes) -> Result<bool> {
        if batch.completed_at.is_some() || !batch.is_complete() {
            return Ok(false);
        }
        let id = batch.batch_id.0.as_bytes();
        let event = self
            .db
            .first(Query::BatchEvent, [id], |row| row.maybe_text(0))?;
        let params = params![id, millis(self.now)];
        self.db.run(Query::CompleteBatch, params)?;
        if let Some(event) = event.flatten() {
            let event = serde_json::from_str(&event);
            let event = event.map_err(|error| error::corrupt("completion event").caused_by(error));
            self.accept(&event?, Entry::Spawned, routes)?;
        }
        Ok(true)
    }

    fn seal(&mut self, batch_id: BatchId, routes: &Routes) -> Result<bool> {
        let Some(mut batch) = self.db.batch(batch_id)? else {
            return Ok(false);
        };
        batch.sealed = true;
        self.db.put_batch(&batch)?;
        self.complete_batch(&batch, routes)
    }
}

#[async_trait]
impl Batches for Sqlite {
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        let batches = batches.to_vec();
        let open = move |tx: &mut Tx<'_, '_>| {
            let open = |new: &NewBatch| {
                let event = new.on_complete.as_ref().map(to_json).transpose()?;
                let params = params![
                    new.batch_id.0.as_bytes(),
                    event,
                    names::joined(&new.owner.domains),
                    names::joined(&new.owner.event_types),
                ];
                Ok(tx.db.run(Query::InsertBatch, params)? == 1)
            };
            batches.iter().map(open).collect()
        };
        self.write(open).await
    }

    async fn seal(&self, batches: &[BatchId], routes: &Routes) -> Result<Vec<BatchId>> {
        let (batches, routes) = (batches.to_vec(), routes.clone());
        let seal = move |tx: &mut Tx<'_, '_>| {
            let mut completed = Vec::new();
            for batch_id in &batches {
                if tx.seal(*batch_id, &routes)? {
                    completed.push(*batch_id);
                }
            }
            Ok(completed)
        };
        self.write(seal).await
    }

    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        let batches = batches.to_vec();
        let read = move |db: &mut Db<'_>| batches.iter().map(|id| db.batch(*id)).collect();
        Sqlite::read(self, read).await
    }
}
