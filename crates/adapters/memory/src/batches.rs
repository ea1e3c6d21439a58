//! Groups of operations.

use async_trait::async_trait;
use clinch_core::ports::{Batch, Batches, NewBatch, Page, Restriction};
use clinch_core::{BatchId, Result};
use clinch_stored::BatchPage;
use clinch_stored::commit::BatchRow;

use crate::Memory;

#[async_trait]
impl Batches for Memory {
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        self.write(|tx| {
            let open = |new: &NewBatch| {
                let is_new = !tx.tables.batches.contains(&new.batch_id);
                if is_new {
                    let row = BatchRow::open(new)?;
                    tx.tables.batches.insert(new.batch_id, row);
                }
                Ok(is_new)
            };
            batches.iter().map(open).collect()
        })
    }

    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        Ok(Memory::read(self, |tables, _| {
            let read = |id| tables.batches.get(id).map(|row| row.batch.clone());
            batches.iter().map(read).collect()
        }))
    }

    async fn list(
        &self,
        of: &Restriction,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Batch>> {
        let page = BatchPage::new(of, cursor, limit)?;
        let mut rows = Memory::read(self, |tables, _| {
            let all = tables.batches.iter().map(|(_, row)| row.batch.clone());
            let is_below = |batch: &Batch| page.below.is_none_or(|below| batch.batch_id < below);
            all.filter(is_below).collect::<Vec<_>>()
        });
        rows.sort_by_key(|batch| std::cmp::Reverse(batch.batch_id));
        rows.truncate(page.rows());
        Ok(page.page(rows))
    }
}
