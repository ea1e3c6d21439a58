//! Batches: members are counted in the commit that accepts or settles them.

use std::collections::BTreeMap;

use clinch_core::ports::{Batch, NewOperation, Written};
use clinch_core::{BatchId, Status};

use super::accept::Origin;
use super::plan::BatchWrite;
use super::work::{Step, Stop, Work};
use crate::json;

/// A batch that this commit changes.
pub(super) struct BatchWork {
    batch: Batch,
    completes: bool,
}

pub(super) fn writes(batches: BTreeMap<BatchId, BatchWork>) -> Vec<BatchWrite> {
    let write = |work: BatchWork| BatchWrite {
        batch: work.batch,
        completes: work.completes,
    };
    batches.into_values().map(write).collect()
}

impl Work<'_> {
    /// The batch as this commit leaves it so far; `None`: there is none.
    pub(super) fn batch(&mut self, batch_id: BatchId) -> Step<Option<&Batch>> {
        if let Some(work) = self.batches.get(&batch_id) {
            return Ok(Some(&work.batch));
        }
        match self.seen.batches.get(&batch_id) {
            Some(row) => Ok(row.as_ref().map(|row| &row.batch)),
            None => {
                self.wanted.batches.insert(batch_id);
                Err(Stop::Load)
            }
        }
    }

    fn put_batch(&mut self, batch: Batch) -> &mut BatchWork {
        let work = self.batches.entry(batch.batch_id);
        let work = work.or_insert_with(|| BatchWork {
            batch: batch.clone(),
            completes: false,
        });
        work.batch = batch;
        work
    }

    /// False: the batch is sealed or unknown.
    pub(super) fn join_batch(&mut self, new: &NewOperation, origin: Origin) -> Step<bool> {
        let Some(batch_id) = new.batch_id else {
            return Ok(true);
        };
        let Some(mut batch) = self.batch(batch_id)?.cloned() else {
            return Ok(false);
        };
        if batch.sealed && origin == Origin::Outside {
            return Ok(false);
        }
        batch.total += 1;
        self.put_batch(batch);
        Ok(true)
    }

    /// Counts a member that ended; the batch, if that completed it.
    pub(super) fn count_in_batch(
        &mut self,
        batch_id: Option<BatchId>,
        status: Status,
    ) -> Step<Option<BatchId>> {
        let Some(batch_id) = batch_id else {
            return Ok(None);
        };
        let Some(mut batch) = self.batch(batch_id)?.cloned() else {
            return Ok(None);
        };
        match status {
            Status::Completed => batch.completed += 1,
            _ => batch.failed += 1,
        }
        let completed = self.complete(batch)?;
        Ok(completed.then_some(batch_id))
    }

    pub(super) fn seal(&mut self, batch_id: BatchId) -> Step<Written> {
        let Some(mut batch) = self.batch(batch_id)?.cloned() else {
            return Ok(Written::Sealed { completed: false });
        };
        batch.sealed = true;
        let completed = self.complete(batch)?;
        Ok(Written::Sealed { completed })
    }

    /// Keeps the batch. True once for a batch: it is sealed, and its last member is terminal.
    fn complete(&mut self, mut batch: Batch) -> Step<bool> {
        let batch_id = batch.batch_id;
        let completes = batch.completed_at.is_none() && batch.is_complete();
        if completes {
            batch.completed_at = Some(self.now);
        }
        let work = self.put_batch(batch);
        work.completes |= completes;
        let row = self.seen.batches.get(&batch_id).and_then(Option::as_ref);
        let event = row.and_then(|row| row.on_complete.as_deref());
        if let Some(event) = event.filter(|_| completes) {
            let event: NewOperation = json::read(event)?;
            // Keys that are known already, or an id that is taken: there is nothing to accept.
            let _ = self.accept_from_inside(&event)?;
        }
        Ok(completes)
    }
}
