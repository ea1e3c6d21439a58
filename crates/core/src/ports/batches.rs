//! Groups of operations.

use async_trait::async_trait;

use super::{NewOperation, Restriction};
use crate::policy::Routes;
use crate::{BatchId, Result, Timestamp};

/// Groups of operations whose end is one event.
#[async_trait]
pub trait Batches: Send + Sync {
    /// Opens batches; one that exists is left as it is, its owner included. True where one was
    /// new.
    async fn open(&self, batches: &[NewBatch]) -> Result<Vec<bool>>;

    /// Closes batches to new members, but for those that members spawn. Returns those that
    /// were complete by this.
    ///
    /// - Sealing twice is sealing once; sealing an unknown batch does nothing.
    /// - A batch completes once: when it is sealed and its last member is terminal,
    ///   whichever comes last, however many settle at the same time.
    /// - The completing commit accepts the batch's `on_complete` operation, unless its keys
    ///   are known already.
    async fn seal(&self, batches: &[BatchId], routes: &Routes) -> Result<Vec<BatchId>>;

    /// Reads batches; `None` where there is none.
    ///
    /// - Counts change in the commit that accepts or settles a member.
    async fn read(&self, batches: &[BatchId]) -> Result<Vec<Option<Batch>>>;
}

/// A batch to open.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBatch {
    /// Drawn by the caller.
    pub batch_id: BatchId,
    /// Accepted in the commit that completes the batch, so that the completion event is
    /// neither lost nor doubled. Not a member.
    pub on_complete: Option<NewOperation>,
    /// What its opener was restricted to. It stays: only a key that covers all of it may read
    /// the batch, add to it or seal it.
    pub owner: Restriction,
}

/// A batch as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The batch.
    pub batch_id: BatchId,
    /// No new members but spawned ones.
    pub sealed: bool,
    /// Members.
    pub total: u64,
    /// Members COMPLETED.
    pub completed: u64,
    /// Members FAILED.
    pub failed: u64,
    /// When it was sealed with its last member terminal.
    pub completed_at: Option<Timestamp>,
    /// What its opener was restricted to.
    pub owner: Restriction,
}

impl Batch {
    /// Sealed, and every member terminal.
    pub fn is_complete(&self) -> bool {
        self.sealed && self.completed + self.failed == self.total
    }
}
