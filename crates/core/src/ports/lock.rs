//! Named locks. A lock is a convenience: every write made under it carries its fence.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Result, WorkerId};

/// Named locks with an owner and a time to live.
#[async_trait]
pub trait LockManager: Send + Sync {
    /// Takes the lock, or renews it if the owner holds it already. `None`: another owner holds it.
    ///
    /// - Of concurrent takers one gets it.
    /// - A lock whose time ran out can be taken; its new fence is higher.
    async fn take(&self, name: &str, owner: &WorkerId, ttl: Duration) -> Result<Option<Tenure>>;

    /// Releases the lock. False: the owner no longer held it.
    ///
    /// - Only its owner releases it.
    async fn release(&self, name: &str, owner: &WorkerId) -> Result<bool>;
}

/// A lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenure {
    /// Grows with every new owner; carried by every write made under the lock.
    pub fence: u64,
}
