//! Groups of operations.

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{Batch, Batches, NewBatch};
use clinch_core::{BatchId, Result};

use crate::accept::Entry;
use crate::{BatchRow, Memory, Tx};

impl Tx<'_> {
    /// True once for a batch: sealed, and its last member is terminal.
    pub(crate) fn complete_batch(&mut self, batch_id: BatchId, routes: &Routes) -> bool {
        let Some(mut row) = self.tables.batches.get(&batch_id).cloned() else {
            return false;
        };
        if row.batch.completed_at.is_some() || !row.batch.is_complete() {
            return false;
        }
        row.batch.completed_at = Some(self.now);
        let on_complete = row.on_complete.take();
        self.tables.batches.insert(batch_id, row);
        if let Some(event) = on_complete {
            self.accept(&event, Entry::Spawned, routes);
        }
        true
    }
}

#[async_trait]
impl Batches for Memory {
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>> {
        self.write(|tx| {
            let open = |new: &NewBatch| {
                let is_new = !tx.tables.batches.contains(&new.batch_id);
                if is_new {
                    let row = BatchRow {
                        batch: empty(new),
                        on_complete: new.on_complete.clone(),
                    };
                    tx.tables.batches.insert(new.batch_id, row);
                }
                is_new
            };
            Ok(batches.iter().map(open).collect())
        })
    }

    async fn seal(&self, batches: &[BatchId], routes: &Routes) -> Result<Vec<BatchId>> {
        self.write(|tx| {
            let seal = |id: &&BatchId| {
                if let Some(mut row) = tx.tables.batches.get(id).cloned() {
                    row.batch.sealed = true;
                    tx.tables.batches.insert(**id, row);
                }
                tx.complete_batch(**id, routes)
            };
            Ok(batches.iter().filter(seal).copied().collect())
        })
    }

    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>> {
        Ok(Memory::read(self, |tables, _| {
            let read = |id| tables.batches.get(id).map(|row| row.batch.clone());
            batches.iter().map(read).collect()
        }))
    }
}

fn empty(new: &NewBatch) -> Batch {
    Batch {
        batch_id: new.batch_id,
        sealed: false,
        total: 0,
        completed: 0,
        failed: 0,
        completed_at: None,
        owner: new.owner.clone(),
    }
}
