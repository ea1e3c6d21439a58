//! Batches: groups of operations with one end.

use async_trait::async_trait;
use clinch_core::ports::{Batch, Batches, NewBatch, Page, Restriction};
use clinch_core::{BatchId, Result};
use clinch_stored::commit::BatchRow;
use clinch_stored::{BatchPage, json, names};

use crate::Mysql;
use crate::column::Column;
use crate::error;
use crate::query::Query;
use crate::text::{self, Tuple};

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

/// A row of `lock_batches.sql`.
pub(crate) fn read_batch_row(row: &mysql_async::Row) -> Result<BatchRow> {
    Ok(BatchRow {
        batch: read_batch(row)?,
        on_complete: row.maybe_bytes(8)?.map(<[u8]>::to_vec),
    })
}

#[async_trait]
impl Batches for Mysql {
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        let row = |new: &NewBatch| -> Result<String> {
            let event = new.on_complete.as_ref().map(json::to_bytes).transpose()?;
            let tuple = Tuple::new().bytes(new.batch_id.0.as_bytes());
            let tuple = tuple
                .maybe_bytes(event)
                .bytes(names::joined(&new.owner.domains))
                .bytes(names::joined(&new.owner.event_types));
            Ok(tuple.end())
        };
        let rows = batches.iter().map(row).collect::<Result<_>>()?;
        self.insert_each(Query::InsertBatches, rows).await
    }

    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        let ids = text::list(batches.iter().map(|id| id.0.as_bytes()));
        let rows = self.query(Query::Batches.with(&[("ids", &ids)])).await?;
        let found: Vec<Batch> = rows.iter().map(read_batch).collect::<Result<_>>()?;
        let find = |id: &BatchId| found.iter().find(|batch| batch.batch_id == *id).cloned();
        Ok(batches.iter().map(find).collect())
    }

    async fn list(
        &self,
        of: &Restriction,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Batch>> {
        let page = BatchPage::new(of, cursor, limit)?;
        // No id is as long as this, so none is left out.
        let below = page.below.map_or_else(
            || text::literal([0xff; 17]),
            |id| text::literal(id.0.as_bytes()),
        );
        let limit = page.rows().to_string();
        let values = [("below", below.as_str()), ("limit", &limit)];
        let rows = self.query(Query::ListBatches.with(&values)).await?;
        let read: Vec<Batch> = rows.iter().map(read_batch).collect::<Result<_>>()?;
        Ok(page.page(read))
    }
}
