//! Deletes data that is older than its retention.
//!
//! A reader finds the rows, so that the search does not block the writer. The writer checks each
//! row again and deletes it: terminal rows never change, but another process may have deleted them
//! already.
//!
//! FAILED operations have an index by age. COMPLETED ones are read in order of seq, each row once:
//! the file remembers how far pruning has come. A row that was open or too young at that moment is
//! remembered too (`clinch_passed`), and looked at again later, some at a time.

use clinch_core::policy::SeenTime;
use clinch_core::ports::{LetterState, Prune, Pruned};
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

/// Rows to look at in one step of a prune.
const LOOK_MAX: i64 = 10_000;

/// What one step of a prune deletes and remembers.
#[derive(Debug, Clone, Default)]
struct OldRows {
    /// Operations to delete.
    seqs: Vec<i64>,
    /// Operations that are passed by.
    passed: Vec<i64>,
    /// Operations that were passed by and need no more looks.
    no_longer_passed: Vec<i64>,
    /// How far this step has come.
    up_to: i64,
    /// Where the next look at passed operations begins.
    passed_from: i64,
    /// The step ended because it had looked at enough rows.
    more: bool,
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

    /// The next rows to delete, at most `prune.max`.
    fn old_rows(&mut self, prune: &Prune, now: Timestamp) -> Result<OldRows> {
        let place = self.first(Query::Pruned, [], |row| Ok((row.int(0)?, row.int(1)?)))?;
        let (up_to, passed_from) = place.ok_or_else(|| error::corrupt("clinch_pruned"))?;
        let mut old = OldRows {
            up_to,
            passed_from,
            ..OldRows::default()
        };
        self.passed_rows(prune, now, &mut old)?;
        let left = stored((prune.max - old.seqs.len()) as u64);
        let failed = params![millis(now - prune.failed), left];
        let failed = self.all(Query::OldFailed, failed, |row| row.int(0))?;
        old.seqs.extend(failed);
        self.completed_rows(prune, now, &mut old)?;
        Ok(old)
    }

    /// Rows that an earlier prune has passed by.
    fn passed_rows(&mut self, prune: &Prune, now: Timestamp, old: &mut OldRows) -> Result<()> {
        let max = stored(prune.max as u64);
        let from = std::mem::take(&mut old.passed_from);
        let mut looked_at = 0;
        self.each(Query::PassedRows, params![from, max], |row| {
            let seq = row.int(0)?;
            looked_at += 1;
            old.passed_from = seq;
            let status = row.maybe_int(1)?.map(status_of).transpose()?;
            match status {
                Some(Status::Pending | Status::InProgress) => return Ok(true),
                Some(Status::Completed) => {
                    let finished_at = row.maybe_moment(2)?;
                    if finished_at.is_none_or(|end| end + prune.completed > now) {
                        return Ok(true);
                    }
                    old.seqs.push(seq);
                }
                Some(Status::Failed) | None => {}
            }
            old.no_longer_passed.push(seq);
            Ok(true)
        })?;
        if looked_at < max {
            old.passed_from = 0;
        }
        Ok(())
    }

    /// COMPLETED rows from where the last prune ended.
    fn completed_rows(&mut self, prune: &Prune, now: Timestamp, old: &mut OldRows) -> Result<()> {
        let horizon = now - prune.completed;
        let (mut looked_at, mut ended) = (0, true);
        let from = old.up_to;
        self.each(Query::SettledRows, params![from, LOOK_MAX], |row| {
            if row.moment(2)? > horizon {
                ended = true;
                return Ok(false);
            }
            let seq = row.int(0)?;
            match status_of(row.int(1)?)? {
                Status::Failed => {}
                Status::Completed if row.maybe_moment(3)?.is_some_and(|end| end <= horizon) => {
                    if old.seqs.len() >= prune.max {
                        ended = true;
                        return Ok(false);
                    }
                    old.seqs.push(seq);
                }
                _ => old.passed.push(seq),
            }
            old.up_to = seq;
            looked_at += 1;
            ended = looked_at < LOOK_MAX;
            Ok(true)
        })?;
        old.more = !ended;
        Ok(())
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
        let id = [old.op_id.0.as_bytes()];
        let letter = self
            .db
            .write_first(Query::DeleteDeadLetter, id, |row| row.maybe_int(0))?;
        let open = i64::from(LetterState::Open.code());
        let counts = &mut self.domain_row(old.domain)?.counts;
        if letter.flatten() == Some(open) {
            counts.dead_letters_open = counts.dead_letters_open.saturating_sub(1);
        }
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

    /// Deletes what a reader has found, and remembers how far it came.
    fn delete_old(&mut self, old: &OldRows) -> Result<usize> {
        let mut operations = 0;
        for seq in &old.seqs {
            operations += usize::from(self.delete_operation(*seq)?);
        }
        for seq in &old.passed {
            self.db.run(Query::InsertPassed, [seq])?;
        }
        for seq in &old.no_longer_passed {
            self.db.run(Query::DeletePassed, [seq])?;
        }
        let place = [old.up_to, old.passed_from];
        self.db.run(Query::PutPruned, place)?;
        Ok(operations)
    }

    fn delete_batches(&mut self, prune: &Prune, at: Timestamp) -> Result<usize> {
        let max = stored(prune.max as u64);
        let params = params![millis(at - prune.batches()), max];
        self.db.run(Query::DeleteOldBatches, params)
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
        let at = time.trusted();
        let mut operations = 0;
        loop {
            let ages = Prune {
                max: prune.max.saturating_sub(operations),
                ..prune.clone()
            };
            let old = self.read(move |db| db.old_rows(&ages, at)).await?;
            let more = old.more;
            let delete = move |tx: &mut Tx<'_, '_>| tx.delete_old(&old);
            operations += self.write(delete).await?;
            if !more || operations >= prune.max {
                break;
            }
        }
        let work = move |tx: &mut Tx<'_, '_>| {
            Ok(Pruned {
                operations,
                keys: tx.delete_keys(&prune, at)?,
                batches: tx.delete_batches(&prune, at)?,
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
