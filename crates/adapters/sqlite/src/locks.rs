//! Locks.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{LockManager, Tenure};
use clinch_core::{Result, Timestamp, WorkerId};
use rusqlite::params;

use crate::Sqlite;
use crate::column::{Column, millis, stored};
use crate::query::Query;
use crate::tx::Tx;

/// Owner, expiry and fence of a lock.
type Held = (String, Timestamp, u64);

impl Tx<'_, '_> {
    fn lock(&mut self, name: &str) -> Result<Option<Held>> {
        self.db.first(Query::Lock, [name], |row| {
            Ok((row.text(0)?, row.moment(1)?, row.count(2)?))
        })
    }

    fn put_lock(&mut self, name: &str, (owner, until, fence): &Held) -> Result<()> {
        let params = params![name, owner, millis(*until), stored(*fence)];
        self.db.run(Query::PutLock, params).map(|_| ())
    }

    fn take_lock(&mut self, name: &str, owner: &WorkerId, ttl: Duration) -> Result<Option<Tenure>> {
        let held = self.lock(name)?;
        let fence = match held {
            Some((other, until, _)) if self.now < until && other != owner.as_str() => {
                return Ok(None);
            }
            Some((_, until, fence)) if self.now < until => fence,
            Some((_, _, fence)) => fence + 1,
            None => 1,
        };
        let held = (owner.as_str().to_owned(), self.now + ttl, fence);
        self.put_lock(name, &held)?;
        Ok(Some(Tenure { fence }))
    }

    fn release_lock(&mut self, name: &str, owner: &WorkerId) -> Result<bool> {
        match self.lock(name)? {
            Some((holder, until, fence)) if holder == owner.as_str() && self.now < until => {
                // The row stays, expired: the next owner's fence must be higher.
                self.put_lock(name, &(holder, self.now, fence))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

#[async_trait]
impl LockManager for Sqlite {
    async fn take(&self, name: &str, owner: &WorkerId, ttl: Duration) -> Result<Option<Tenure>> {
        let (name, owner) = (name.to_owned(), owner.clone());
        self.write(move |tx| tx.take_lock(&name, &owner, ttl)).await
    }

    async fn release(&self, name: &str, owner: &WorkerId) -> Result<bool> {
        let (name, owner) = (name.to_owned(), owner.clone());
        self.write(move |tx| tx.release_lock(&name, &owner)).await
    }
}
