//! Locks.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{LockManager, Tenure};
use clinch_core::{Result, Timestamp, WorkerId};

use crate::Mysql;
use crate::column::Column;
use crate::link::Script;
use crate::query::Query;
use crate::text;
use crate::tx::Tx;

/// Owner, expiry and fence of a lock.
type Held = (String, Timestamp, u64);

impl Tx<'_> {
    /// Locks the row. A lock that was never taken counts as expired, with fence 0.
    async fn lock_row(&mut self, name: &str) -> Result<Option<Held>> {
        let name = text::literal(name);
        let mut script = Script::default();
        script.add(&Query::InsertLock.with(&[("name", &name)]));
        script.add(&Query::Lock.with(&[("name", &name)]));
        let answers = self.run(script).await?;
        let row = answers.last().and_then(|answer| answer.rows.first());
        let read = |row: &mysql_async::Row| Ok((row.text(0)?, row.moment(1)?, row.count(2)?));
        row.map(read).transpose()
    }

    fn put_lock(&mut self, name: &str, (owner, until, fence): &Held) {
        self.later.add(&Query::PutLock.with(&[
            ("name", &text::literal(name)),
            ("owner", &text::literal(owner)),
            ("until", &until.as_millis().to_string()),
            ("fence", &fence.to_string()),
        ]));
    }

    async fn take_lock(
        &mut self,
        name: &str,
        owner: &WorkerId,
        ttl: Duration,
    ) -> Result<Option<Tenure>> {
        let held = self.lock_row(name).await?;
        let fence = match held {
            Some((other, until, _)) if self.now < until && other != owner.as_str() => {
                return Ok(None);
            }
            Some((_, until, fence)) if self.now < until => fence,
            Some((_, _, fence)) => fence + 1,
            None => 1,
        };
        let held = (owner.as_str().to_owned(), self.now + ttl, fence);
        self.put_lock(name, &held);
        Ok(Some(Tenure { fence }))
    }

    async fn release_lock(&mut self, name: &str, owner: &WorkerId) -> Result<bool> {
        match self.lock_row(name).await? {
            Some((holder, until, fence)) if holder == owner.as_str() && self.now < until => {
                // The row stays, expired: the next owner's fence must be higher.
                self.put_lock(name, &(holder, self.now, fence));
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

#[async_trait]
impl LockManager for Mysql {
    async fn take(&self, name: &str, owner: &WorkerId, ttl: Duration) -> Result<Option<Tenure>> {
        let asked = (name.to_owned(), owner.clone());
        self.write(asked, move |tx, (name, owner)| {
            Box::pin(tx.take_lock(name, owner, ttl))
        })
        .await
    }

    async fn release(&self, name: &str, owner: &WorkerId) -> Result<bool> {
        let asked = (name.to_owned(), owner.clone());
        self.write(asked, |tx, (name, owner)| {
            Box::pin(tx.release_lock(name, owner))
        })
        .await
    }
}
