//! Batches: groups of operations with one end.

use async_trait::async_trait;
use clinch_core::ports::{Batch, Batches, NewBatch, Page, Restriction};
use clinch_core::{BatchId, Result};
use clinch_stored::commit::BatchRow;
use clinch_stored::{BatchPage, json, names};
use rusqlite::params;

use crate::column::{Column, millis, stored};
use crate::db::Db;
use crate::query::Query;
use crate::tx::Tx;
use crate::{Sqlite, error};

/// Reads from column `at` on.
fn read_batch(row: &rusqlite::Row<'_>, at: usize, batch_id: BatchId) -> Result<Batch> {
    Ok(Batch {
        batch_id,
        sealed: row.int(at)? != 0,
        total: row.count(at + 1)?,
        completed: row.count(at + 2)?,
        failed: row.count(at + 3)?,
        completed_at: row.maybe_moment(at + 4)?,
        owner: names::restriction(&row.text(at + 5)?, &row.text(at + 6)?)?,
    })
}

impl Db<'_> {
    pub(crate) fn batch(&mut self, batch_id: BatchId) -> Result<Option<BatchRow>> {
        self.first(Query::Batch, [batch_id.0.as_bytes()], |row| {
            let batch = read_batch(row, 0, batch_id)?;
            let on_complete = row.maybe_text(7)?.map(String::into_bytes);
            Ok(BatchRow { batch, on_complete })
        })
    }
}

impl Tx<'_, '_> {
    pub(crate) fn put_batch(&mut self, batch: &Batch, completes: bool) -> Result<()> {
        let id = batch.batch_id.0.as_bytes();
        let params = params![
            id,
            batch.sealed,
            stored(batch.total),
            stored(batch.completed),
            stored(batch.failed)
        ];
        self.db.run(Query::PutBatch, params)?;
        if let Some(at) = batch.completed_at.filter(|_| completes) {
            self.db.run(Query::CompleteBatch, params![id, millis(at)])?;
        }
        Ok(())
    }
}

#[async_trait]
impl Batches for Sqlite {
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        let batches = batches.to_vec();
        let open = move |tx: &mut Tx<'_, '_>| {
            let open = |new: &NewBatch| {
                let event = new.on_complete.as_ref().map(json::to_text).transpose()?;
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

    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        let batches = batches.to_vec();
        let read = move |db: &mut Db<'_>| {
            let one = |id: &BatchId| Ok(db.batch(*id)?.map(|row| row.batch));
            batches.iter().map(one).collect()
        };
        Sqlite::read(self, read).await
    }

    async fn list(
        &self,
        of: &Restriction,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Batch>> {
        let page = BatchPage::new(of, cursor, limit)?;
        let (below, rows) = (page.below, stored(page.rows() as u64));
        let read = move |db: &mut Db<'_>| {
            // No id is as long as this, so none is left out.
            let first = || vec![0xff_u8; 17];
            let below = below.map_or_else(first, |id| id.0.as_bytes().to_vec());
            let params = params![below, rows];
            db.all(Query::ListBatches, params, |row| {
                let batch_id = row.maybe_batch_id(0)?;
                let batch_id = batch_id.ok_or_else(|| error::corrupt("id"))?;
                read_batch(row, 1, batch_id)
            })
        };
        Ok(page.page(Sqlite::read(self, read).await?))
    }
}
