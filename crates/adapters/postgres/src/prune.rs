//! Deleting what is older than its retention.
//!
//! Rows are deleted at most so many at a time; a day that has none left goes as a whole, so
//! that nobody has to clean up after it.

use std::sync::Arc;

use clinch_core::Result;
use clinch_core::ports::{Prune, Pruned};

use crate::query::Query;
use crate::row::stored;
use crate::tx::Tx;
use crate::{Postgres, partitions};

impl Tx<'_> {
    async fn prune(&mut self, prune: &Prune) -> Result<Pruned> {
        self.start().await?;
        let before = |age| (self.now - age).as_millis();
        let max = stored(prune.max as u64);
        let (completed, failed) = (before(prune.completed), before(prune.failed));
        let keys = before(prune.keys);
        let rows = self
            .query(Query::ForgetRows, &[&completed, &failed, &max])
            .await?;
        let keys = self.query(Query::ForgetKeys, &[&keys, &max]).await?;
        let count = |rows: &[tokio_postgres::Row]| {
            let count = rows.first().map_or(0, |row| row.get::<_, i64>(0));
            usize::try_from(count).unwrap_or(0)
        };
        Ok(Pruned {
            operations: count(&rows),
            keys: count(&keys),
        })
    }
}

impl Postgres {
    pub(crate) async fn prune_old(&self, prune: Prune) -> Result<Pruned> {
        let prune = Arc::new(prune);
        let pruned = self
            .write(move |tx| {
                let prune = prune.clone();
                Box::pin(async move { tx.prune(&prune).await })
            })
            .await?;
        let client = self.client().await?;
        partitions::make(&client).await?;
        partitions::drop_empty(&client).await?;
        Ok(pruned)
    }
}
