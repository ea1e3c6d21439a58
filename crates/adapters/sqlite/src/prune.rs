//! Deleting what is older than its retention.
//!
//! A reader finds the rows, so that the search keeps no writer waiting; the writer deletes
//! them, and looks again at each: terminal rows never change, but another process may have
//! been faster. Rows are looked at in order of acceptance, and not beyond those that were
//! accepted too late to be old.

use clinch_core::policy::SeenTime;
use clinch_core::ports::{Prune, Pruned};
use clinch_core::{Fingerprint, Keys, OpId, Result, Status, Timestamp};
use clinch_stored::ledger::status_of;
use rusqlite::params;

use crate::Sqlite;
use crate::column::{Column, millis, stored};
use crate::db::Db;
use crate::error;
use crate::query::Query;
use crate::request::short_hash;
use crate::row::status_column;
use crate::tx::Tx;

/// What must be known of a row to forget it.
struct Old {
    op_id: OpId,
    status: Status,
    finished_at: Timestamp,
    domain: i64,
    event_type: i64,
    biz_key: String,
    idem_key: String,
    fingerprint: Fingerprint,
}

impl Old {
    fn read(row: &rusqlite::Row<'_>) -> Result<Self> {
        let fingerprint = Fingerprint::from_bytes(row.bytes(7)?);
        Ok(Self {
            op_id: row.op_id(0)?,
            status: status_of(row.int(1)?)?,
            finished_at: row.moment(2)?,
            domain: row.int(3)?,
            event_type: row.int(4)?,
            biz_key: row.text(5)?,
            idem_key: row.text(6)?,
            fingerprint: fingerprint.map_err(error::unreadable)?,
        })
    }
}

impl Db<'_> {
    /// The latest time that was vouched for.
    fn seen_at(&mut self) -> Result<Option<Timestamp>> {
        let seen_at = self.first(Query::SeenAt, [], |row| row.maybe_moment(0))?;
        Ok(seen_at.flatten())
    }

    fn old_rows(&mut self, prune: &Prune, now: Timestamp) -> Result<Vec<i64>> {
        let horizon = now - prune.completed.min(prune.failed);
        let mut old = Vec::new();
        self.each(Query::SettledRows, [], |row| {
            if old.len() == prune.max || row.moment(2)? > horizon {
                return Ok(false);
            }
            let age = match status_of(row.int(1)?)? {
                Status::Completed => prune.completed,
                Status::Failed => prune.failed,
                Status::Pending | Status::InProgress => return Ok(true),
            };
            if row.maybe_moment(3)?.is_some_and(|end| end + age <= now) {
                old.push(row.int(0)?);
            }
            Ok(true)
        })?;
        Ok(old)
    }
}

impl Tx<'_, '_> {
    /// Deletes a settled row and what goes with it; its key stays.
    fn forget(&mut self, seq: i64) -> Result<bool> {
        let Some(old) = self.db.first(Query::Prunable, [seq], Old::read)? else {
            return Ok(false);
        };
        let keys = Keys {
            domain: self.db.domain(old.domain)?,
            event_type: self.db.event_type(old.event_type)?,
            biz_key: old.biz_key.parse().map_err(error::unreadable)?,
            idem_key: old.idem_key.parse().map_err(error::unreadable)?,
        };
        let hash = keys.hash();
        let fingerprint = old.fingerprint.to_bytes();
        let params = params![
            seq,
            short_hash(&keys, &hash),
            hash.as_bytes().as_slice(),
            old.op_id.0.as_bytes(),
            fingerprint.as_slice(),
            status_column(old.status),
            millis(old.finished_at),
        ];
        self.db.run(Query::InsertKeptKey, params)?;
        for query in [
            Query::DeleteOperation,
            Query::DeleteRequest,
            Query::DeleteLedgerPages,
            Query::DeleteCheckpoint,
        ] {
            self.db.run(query, [seq])?;
        }
        self.db
            .run(Query::DeleteDeadLetter, [old.op_id.0.as_bytes()])?;
        let counts = &mut self.domain_row(old.domain)?.counts;
        match old.status {
            Status::Completed => counts.completed = counts.completed.saturating_sub(1),
            _ => counts.failed = counts.failed.saturating_sub(1),
        }
        self.touch(old.domain)?;
        Ok(true)
    }

    /// Moves the seen time on.
    fn look_at_clock(&mut self, prune: &Prune) -> Result<SeenTime> {
        let stored = self.db.seen_at()?;
        let time = SeenTime::advanced(stored, self.now, prune.reckoned, prune.jump_max);
        self.db.run(Query::PutSeenAt, [millis(time.seen_at)])?;
        Ok(time)
    }

    fn forget_keys(&mut self, prune: &Prune, at: Timestamp) -> Result<usize> {
        let max = stored(prune.max as u64);
        let params = params![millis(at - prune.keys), max];
        let old = self.db.all(Query::OldKeptKeys, params, |row| {
            Ok((row.int(0)?, row.int(1)?))
        })?;
        for (seq, short) in &old {
            self.delete_key(*short, *seq)?;
            self.db.run(Query::DeleteKeptKey, [seq])?;
        }
        Ok(old.len())
    }
}

impl Sqlite {
    pub(crate) async fn prune_old(&self, prune: Prune) -> Result<Pruned> {
        let ages = prune.clone();
        let look = move |tx: &mut Tx<'_, '_>| tx.look_at_clock(&ages);
        let time = self.write(look).await?;
        let (ages, at) = (prune.clone(), time.trusted());
        let old = self.read(move |db| db.old_rows(&ages, at)).await?;
        let work = move |tx: &mut Tx<'_, '_>| {
            let mut operations = 0;
            for seq in &old {
                operations += usize::from(tx.forget(*seq)?);
            }
            let keys = tx.forget_keys(&prune, at)?;
            Ok(Pruned {
                operations,
                keys,
                time,
            })
        };
        self.write(work).await
    }

    pub(crate) async fn look_at_seen_time(&self) -> Result<Option<SeenTime>> {
        let now = self.clock().now();
        let seen_at = self.read(|db| db.seen_at()).await?;
        Ok(seen_at.map(|seen_at| SeenTime { now, seen_at }))
    }

    pub(crate) async fn confirm_clock(&self) -> Result<SeenTime> {
        let confirm = |tx: &mut Tx<'_, '_>| {
            let now = tx.now;
            tx.db.run(Query::PutSeenAt, [millis(now)])?;
            Ok(SeenTime { now, seen_at: now })
        };
        self.write(confirm).await
    }
}
