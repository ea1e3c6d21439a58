//! Batches: groups of operations with one end.

use clinch_core::ports::{Batch, Known, NewBatch, Page, Restriction, Write};
use clinch_core::{BatchId, Command, Error, ErrorKind, Result};

use super::Orchestrator;

impl Orchestrator {
    /// Opens a batch. `on_complete` is accepted in the commit that completes the batch, so the end
    /// is reported exactly once.
    pub async fn open_batch(&self, on_complete: Option<Command>) -> Result<BatchId> {
        let batch_id = self.batch_id();
        self.open_batch_as(batch_id, on_complete).await?;
        Ok(batch_id)
    }

    /// Opens a batch under the caller's own id. Two calls with the same id open one batch.
    pub async fn open_batch_as(
        &self,
        batch_id: BatchId,
        on_complete: Option<Command>,
    ) -> Result<()> {
        let owner = Restriction::default();
        self.open_batch_for(batch_id, on_complete, owner).await
    }

    /// Opens a batch for a caller whose API key is restricted to some operations. A batch that
    /// already exists keeps its owner: read the owner with [`Orchestrator::batch`].
    pub async fn open_batch_for(
        &self,
        batch_id: BatchId,
        on_complete: Option<Command>,
        owner: Restriction,
    ) -> Result<()> {
        let on_complete = on_complete.map(|command| self.accept.prepare(command, self.trace()));
        let batch = NewBatch {
            batch_id,
            on_complete: on_complete.transpose()?,
            owner,
        };
        self.accept.ports.batches.open(&[batch]).await?;
        Ok(())
    }

    /// A fresh id for a batch.
    pub fn batch_id(&self) -> BatchId {
        self.accept.ports.ids.batch_id()
    }

    /// Accepts commands as members of the batch, all in one commit. A command whose keys are
    /// already known does not become a member.
    pub async fn submit_to_batch(
        &self,
        batch_id: BatchId,
        commands: Vec<Command>,
    ) -> Result<Vec<Result<Known>>> {
        let told = self.submit_all(commands, Some(batch_id)).await?;
        Ok(told.into_iter().map(super::without_replay).collect())
    }

    /// Seals the batch: it takes no more members from outside. Returns true if sealing completed
    /// it.
    pub async fn seal_batch(&self, batch_id: BatchId) -> Result<bool> {
        let sealed = self.accept.commits.call(Write::Seal(batch_id)).await?;
        sealed.sealed()
    }

    /// One page of the batches that a caller with this restriction may read, newest first.
    pub async fn batches(
        &self,
        of: &Restriction,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Batch>> {
        let batches = &self.accept.ports.batches;
        batches.list(of, cursor, limit).await
    }

    /// The batch as it is now.
    pub async fn batch(&self, batch_id: BatchId) -> Result<Batch> {
        let found = self.accept.ports.batches.read(&[batch_id]).await?;
        let missing = || Error::new(ErrorKind::NotFound, "there is no such batch");
        found.into_iter().next().flatten().ok_or_else(missing)
    }
}
