//! Groups of operations with one end.

use clinch_core::ports::{Batch, Known, NewBatch, Restriction};
use clinch_core::{BatchId, Command, Error, ErrorKind, Result};

use crate::Orchestrator;

impl Orchestrator {
    /// Opens a batch. `on_complete` is accepted in the commit that completes it, so that the
    /// end is told exactly once.
    pub async fn open_batch(&self, on_complete: Option<Command>) -> Result<BatchId> {
        let batch_id = self.batch_id();
        self.open_batch_as(batch_id, on_complete).await?;
        Ok(batch_id)
    }

    /// Opens a batch under the caller's own id: opening it twice is opening it once.
    pub async fn open_batch_as(
        &self,
        batch_id: BatchId,
        on_complete: Option<Command>,
    ) -> Result<()> {
        let owner = Restriction::default();
        self.open_batch_for(batch_id, on_complete, owner).await
    }

    /// Opens a batch for a caller that is restricted to some operations. A batch that exists
    /// keeps its owner: ask [`Orchestrator::batch`] whose it is.
    pub async fn open_batch_for(
        &self,
        batch_id: BatchId,
        on_complete: Option<Command>,
        owner: Restriction,
    ) -> Result<()> {
        let on_complete = on_complete.map(|command| self.prepare(command, self.trace()));
        let batch = NewBatch {
            batch_id,
            on_complete: on_complete.transpose()?,
            owner,
        };
        self.node.ports.batches.open(&[batch]).await?;
        Ok(())
    }

    /// A fresh id for a batch.
    pub fn batch_id(&self) -> BatchId {
        self.node.ports.ids.batch_id()
    }

    /// Accepts commands as members; one commit for all. A known key is not a member.
    pub async fn submit_to_batch(
        &self,
        batch_id: BatchId,
        commands: Vec<Command>,
    ) -> Result<Vec<Result<Known>>> {
        let told = self.submit_all(commands, Some(batch_id)).await?;
        Ok(told
            .into_iter()
            .map(crate::accept::without_replay)
            .collect())
    }

    /// No more members from outside. True: that completed it.
    pub async fn seal_batch(&self, batch_id: BatchId) -> Result<bool> {
        let batches = &self.node.ports.batches;
        let completed = batches.seal(&[batch_id], &self.node.routes).await?;
        Ok(completed.contains(&batch_id))
    }

    /// The batch as it stands.
    pub async fn batch(&self, batch_id: BatchId) -> Result<Batch> {
        let found = self.node.ports.batches.read(&[batch_id]).await?;
        let missing = || Error::new(ErrorKind::NotFound, "there is no such batch");
        found.into_iter().next().flatten().ok_or_else(missing)
    }
}
