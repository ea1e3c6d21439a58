//! Deleting what is older than its retention.
//!
//! Rows are deleted at most so many at a time; a day that has none left goes as a whole, so
//! that nobody has to clean up after it.

use clinch_core::policy::SeenTime;
use clinch_core::ports::{Prune, Pruned};
use clinch_core::{Result, Timestamp};

use crate::query::Query;
use crate::row::{moment, stored};
use crate::tx::Tx;
use crate::{Postgres, partitions};

impl Tx<'_> {
    async fn prune(&mut self, prune: &Prune) -> Result<Pruned> {
        let time = self.look_at_clock(prune).await?;
        let at = time.trusted();
        let before = |age| (at - age).as_millis();
        let max = stored(prune.max as u64);
        let (completed, failed) = (before(prune.completed), before(prune.failed));
        let keys = before(prune.keys);
        let rows = self
            .query(Query::ForgetRows, &[&completed, &failed, &max])
            .await?;
        let keys = self.query(Query::ForgetKeys, &[&keys, &max]).await?;
        let batches = before(prune.batches());
        let batches = self.query(Query::ForgetBatches, &[&batches, &max]).await?;
        let count = |rows: &[tokio_postgres::Row]| {
            let count = rows.first().map_or(0, |row| row.get::<_, i64>(0));
            usize::try_from(count).unwrap_or(0)
        };
        Ok(Pruned {
            operations: count(&rows),
            keys: count(&keys),
            batches: count(&batches),
            time,
        })
    }

    /// Moves the seen time on.
    async fn look_at_clock(&mut self, prune: &Prune) -> Result<SeenTime> {
        let rows = self.query(Query::SeenAtForUpdate, &[]).await?;
        self.start().await?;
        let stored = rows.first().and_then(|row| moment(row.get(0)));
        let time = SeenTime::advanced(stored, self.now, prune.reckoned, prune.jump_max);
        self.query(Query::PutSeenAt, &[&time.seen_at.as_millis()])
            .await?;
        Ok(time)
    }

    async fn confirm_clock(&mut self) -> Result<SeenTime> {
        self.start().await?;
        let now = self.now;
        self.query(Query::PutSeenAt, &[&now.as_millis()]).await?;
        Ok(SeenTime { now, seen_at: now })
    }
}

impl Postgres {
    pub(crate) async fn prune_old(&self, prune: Prune) -> Result<Pruned> {
        self.complete_letters().await?;
        let pruned = self.write(prune, |tx, prune| Box::pin(tx.prune(prune)));
        let pruned = pruned.await?;
        let client = self.client().await?;
        partitions::make(&client).await?;
        partitions::drop_empty(&client).await?;
        Ok(pruned)
    }

    pub(crate) async fn look_at_seen_time(&self) -> Result<Option<SeenTime>> {
        let row = self.shared.first(Query::SeenAt, &[]).await?;
        Ok(row.and_then(|row| {
            let now = Timestamp::from_millis(row.get(1));
            moment(row.get(0)).map(|seen_at| SeenTime { now, seen_at })
        }))
    }

    pub(crate) async fn confirm_seen_time(&self) -> Result<SeenTime> {
        self.write((), |tx, ()| Box::pin(tx.confirm_clock())).await
    }
}
