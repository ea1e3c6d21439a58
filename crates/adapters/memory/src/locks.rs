//! Locks.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{LockManager, Tenure};
use clinch_core::{Result, WorkerId};

use crate::{LockRow, Memory};

#[async_trait]
impl LockManager for Memory {
    async fn take(&self, name: &str, owner: &WorkerId, ttl: Duration) -> Result<Option<Tenure>> {
        self.write(|tx| {
            let name = name.to_owned();
            let held = tx.tables.locks.get(&name);
            let running = held.filter(|lock| tx.now < lock.until);
            let fence = match (running, held) {
                (Some(lock), _) if lock.owner != *owner => return Ok(None),
                (Some(lock), _) => lock.fence,
                (None, Some(lock)) => lock.fence + 1,
                (None, None) => 1,
            };
            let lock = LockRow {
                owner: owner.clone(),
                until: tx.now + ttl,
                fence,
            };
            tx.tables.locks.insert(name, lock);
            Ok(Some(Tenure { fence }))
        })
    }

    async fn release(&self, name: &str, owner: &WorkerId) -> Result<bool> {
        self.write(|tx| {
            let name = name.to_owned();
            let ours = tx.tables.locks.get(&name).cloned();
            let ours = ours.filter(|lock| lock.owner == *owner && tx.now < lock.until);
            let Some(lock) = ours else {
                return Ok(false);
            };
            // The row stays, ended: the next owner's fence must be higher.
            let until = tx.now;
            tx.tables.locks.insert(name, LockRow { until, ..lock });
            Ok(true)
        })
    }
}
