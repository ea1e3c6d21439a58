//! Deletes data that is older than its retention.
//!
//! A reader finds the rows, so that the search does not block the writer. The writer checks each
//! row again and deletes it: terminal rows never change, but another process may have deleted them
//! already. Rows are read in order of acceptance; the search stops at the first row that was
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

/// The columns needed to delete a row.
struct OldRow {
    op_id: OpId,
    status: Status,
    finished_at: Timestamp,
    domain: i64,
    event_type: i64,
    biz_key: String,
    idem_key: String,
    fingerprint: Fingerprint,
}

impl OldRow {
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
    /// The seen time.
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
    /// Deletes a terminal operation with its dependent rows; its key stays.
    fn delete_operation(&mut self, seq: i64) -> Result<bool> {
        let Some(old) = self.db.first(Query::Prunable, [seq], OldRow::read)? else {
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

    /// Advances the seen time.
    fn advance_seen_time(&mut self, prune: &Prune) -> Result<SeenTime> {
        let stored = self.db.seen_at()?;
        let time = SeenTime::advanced(stored, self.now, prune.reckoned, prune.jump_max);
        self.db.run(Query::PutSeenAt, [millis(time.seen_at)])?;
        Ok(time)
    }

    fn delete_keys(&mut self, prune: &Prune, at: Timestamp) -> Result<usize> {
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
        let advance = move |tx: &mut Tx<'_, '_>| tx.advance_seen_time(&ages);
        let time = self.write(advance).await?;
        let (ages, at) = (prune.clone(), time.trusted());
        let old = self.read(move |db| db.old_rows(&ages, at)).await?;
        let work = move |tx: &mut Tx<'_, '_>| {
            let mut operations = 0;
            for seq in &old {
                operations += usize::from(tx.delete_operation(*seq)?);
            }
            let keys = tx.delete_keys(&prune, at)?;
            Ok(Pruned {
                operations,
                keys,
                time,
            })
        };
        self.write(work).await
    }

    pub(crate) async fn read_seen_time(&self) -> Result<Option<SeenTime>> {
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
