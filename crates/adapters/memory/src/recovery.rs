//! Scans, dead letters and pruning.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::SeenTime;
use clinch_core::ports::{Claim, Claimed, DeadLetter, Page, Prune, Pruned, Recovery, Scan};
use clinch_core::{OpId, Result, Status, Timestamp};
use clinch_stored::commit::BatchRow;
use clinch_stored::letters::{bytes, check};

use crate::inspect::page;
use crate::{Memory, Row, Slot, Tables, Tx};

impl Tables {
    /// Rows that need `scan`, the oldest need first.
    fn needing(&self, scan: Scan) -> impl Iterator<Item = (OpId, Timestamp)> {
        let at = |since, seq| Slot::Need { scan, since, seq };
        let first = at(Timestamp::from_millis(i64::MIN), 0);
        let last = at(Timestamp::from_millis(i64::MAX), u64::MAX);
        self.slots
            .range(first..=last)
            .filter_map(|(slot, op_id)| match slot {
                Slot::Need { since, .. } => Some((*op_id, *since)),
                Slot::Fresh { .. } | Slot::Announced { .. } => None,
            })
    }
}

impl Tx<'_> {
    fn old_rows(&self, prune: &Prune, at: Timestamp) -> Vec<OpId> {
        let is_old = |row: &&Row| {
            let operation = &row.operation;
            let age = match operation.state.status {
                Status::Completed => prune.completed,
                Status::Failed => prune.failed,
                Status::Pending | Status::InProgress => return false,
            };
            operation.finished_at.is_some_and(|end| end + age <= at)
        };
        let rows = self.tables.rows.iter().map(|(_, row)| row);
        let old = rows.filter(is_old).map(|row| row.operation.op_id);
        old.take(prune.max).collect()
    }
}

#[async_trait]
impl Recovery for Memory {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(|tx| {
            let due = tx
                .tables
                .needing(scan)
                .take_while(|(_, since)| *since <= tx.now);
            let due: Vec<_> = due.collect();
            Ok(tx.claim(due, claim))
        })
    }

    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        Ok(self.read(|tables, now| {
            let first = tables.first_free(tables.needing(scan));
            first.map(|from| from.since(now))
        }))
    }

    async fn dead_letters(&self, cursor: Option<&str>, limit: usize) -> Result<Page<DeadLetter>> {
        self.read(|tables, _| {
            let mut letters: Vec<_> = tables.dead_letters.iter().map(|(_, l)| l).collect();
            letters.sort_by_key(|letter| (letter.failed_at, letter.op_id));
            let rank = |letter: &DeadLetter| {
                format!("{:020}-{}", letter.failed_at.as_millis(), letter.op_id)
            };
            let letters = letters.into_iter().rev();
            Ok(page(letters, rank, bytes, cursor, limit))
        })
    }

    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        check(letters)?;
        self.write(|tx| {
            let mut new = Vec::with_capacity(letters.len());
            for letter in letters {
                let is_new = !tx.tables.dead_letters.contains(&letter.op_id);
                if is_new {
                    tx.tables.dead_letters.insert(letter.op_id, letter.clone());
                }
                new.push(is_new);
            }
            Ok(new)
        })
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        self.write(|tx| {
            let (stored, now) = (tx.tables.seen_at, tx.now);
            let time = SeenTime::advanced(stored, now, prune.reckoned, prune.jump_max);
            tx.tables.seen_at = Some(time.seen_at);
            let at = time.trusted();
            let old = tx.old_rows(prune, at);
            for op_id in &old {
                tx.tables.forget(*op_id);
            }
            let is_old = |key: &crate::Key| {
                let settled = key.settled.is_some_and(|(_, end)| end + prune.keys <= at);
                settled && !tx.tables.rows.contains(&key.op_id)
            };
            let keys = tx.tables.keys.iter().filter(|(_, key)| is_old(key));
            let keys: Vec<_> = keys.map(|(hash, _)| *hash).take(prune.max).collect();
            for hash in &keys {
                tx.tables.keys.remove(hash);
            }
            let is_old = |row: &BatchRow| {
                let end = row.batch.completed_at;
                end.is_some_and(|end| end + prune.batches() <= at)
            };
            let batches = tx.tables.batches.iter().filter(|(_, row)| is_old(row));
            let batches: Vec<_> = batches.map(|(id, _)| *id).take(prune.max).collect();
            for batch in &batches {
                tx.tables.batches.remove(batch);
            }
            Ok(Pruned {
                operations: old.len(),
                keys: keys.len(),
                batches: batches.len(),
                time,
            })
        })
    }

    async fn seen_time(&self) -> Result<Option<SeenTime>> {
        Ok(self.read(|tables, now| {
            let seen_at = tables.seen_at?;
            Some(SeenTime { now, seen_at })
        }))
    }

    async fn confirm_time(&self) -> Result<SeenTime> {
        self.write(|tx| {
            let seen_at = tx.now;
            tx.tables.seen_at = Some(seen_at);
            Ok(SeenTime {
                now: tx.now,
                seen_at,
            })
        })
    }
}
