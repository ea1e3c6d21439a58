//! Locks.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{LockManager, Tenure};
use clinch_core::{Result, WorkerId};

use crate::Postgres;
use crate::link::Params;
use crate::query::Query;
use crate::row::count;

#[async_trait]
impl LockManager for Postgres {
    async fn take(&self, name: &str, owner: &WorkerId, ttl: Duration) -> Result<Option<Tenure>> {
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX >> 8);
        let params: Params<'_> = &[&name, &owner.as_str(), &ttl];
        let row = self.shared.first(Query::TakeLock, params).await?;
        let tenure = row.map(|row| count(row.get(0)).map(|fence| Tenure { fence }));
        tenure.transpose()
    }

    async fn release(&self, name: &str, owner: &WorkerId) -> Result<bool> {
        let params: Params<'_> = &[&name, &owner.as_str()];
        Ok(self.shared.run(Query::ReleaseLock, params).await? == 1)
    }
}
