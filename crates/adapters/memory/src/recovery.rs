//! Scans, dead letters and pruning.

use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::SeenTime;
use clinch_core::ports::{
    Claim, Claimed, DeadLetter, LetterFilter, LetterOrder, LetterView, Page, Prune, Pruned,
    Recovery, Scan,
};
use clinch_core::{AttemptId, OpId, ProcessId, Result, Status, Timestamp};
use clinch_stored::Filling;
use clinch_stored::commit::BatchRow;
use clinch_stored::letters::{Place, check, check_order, imported};

use crate::{Memory, Row, Slot, Tables, Tx};

/// A process that says nothing for this long, while others do, has died.
const SILENCE: Duration = Duration::from_secs(3);

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

impl Tables {
    /// Live rows without an answer whose attempt the process makes.
    fn live_rows_of(&self, process: ProcessId) -> impl Iterator<Item = (OpId, Timestamp)> {
        self.needing(Scan::LeaseEnded).filter(move |(op_id, _)| {
            let row = self.rows.get(op_id);
            let attempt = row.and_then(|row| row.operation.state.attempt_id);
            attempt.and_then(AttemptId::process) == Some(process)
        })
    }
}

impl Tx<'_> {
    /// Notes that the process is alive; the processes that were silent for too long.
    fn check_in(&mut self, process: ProcessId) -> Vec<ProcessId> {
        let processes = &mut self.tables.processes;
        let mut others: Vec<_> = processes.iter().map(|(one, at)| (*one, *at)).collect();
        others.retain(|(other, _)| *other != process);
        let latest = processes.iter().map(|(_, at)| *at).max();
        processes.insert(process, self.now);
        // Nobody could be heard for a while: everybody's silence counts from now on.
        if latest.is_some_and(|at| at + SILENCE / 2 < self.now) {
            for (other, at) in &mut others {
                *at = self.now;
                processes.insert(*other, self.now);
            }
        }
        others.retain(|(_, at)| *at + SILENCE < self.now);
        others.into_iter().map(|(other, _)| other).collect()
    }

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

    async fn check_in(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        self.write(|tx| Ok(tx.check_in(process)))
    }

    async fn abandoned(&self, process: ProcessId, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(|tx| {
            let rows: Vec<_> = tx.tables.live_rows_of(process).collect();
            Ok(tx.claim(rows, claim))
        })
    }

    async fn check_out(&self, process: ProcessId) -> Result<()> {
        self.write(|tx| {
            if tx.tables.live_rows_of(process).next().is_none() {
                tx.tables.processes.remove(&process);
            }
            Ok(())
        })
    }

    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<LetterView>> {
        check_order(filter, order)?;
        let after = cursor.map(|cursor| Place::parse(cursor, order));
        let after = after.transpose()?;
        Ok(self.read(|tables, _| {
            let letters = tables.dead_letters.iter().map(|(_, letter)| letter);
            let mut letters: Vec<_> = letters.filter(|letter| filter.matches(letter)).collect();
            letters.sort_by_key(|letter| Place::of(letter, order));
            if order == LetterOrder::NewestFirst {
                letters.reverse();
            }
            let is_shown = |letter: &&LetterView| {
                let place = Place::of(letter, order);
                after.is_some_and(|after| match order {
                    LetterOrder::NewestFirst => place >= after,
                    LetterOrder::OldestFirst | LetterOrder::Accepted => place <= after,
                })
            };
            let mut filling = Filling::new(limit);
            for letter in letters.into_iter().skip_while(is_shown) {
                if !filling.push(letter.clone(), 0) {
                    break;
                }
            }
            filling.page(|letter| Place::of(letter, order).cursor(order))
        }))
    }

    async fn letters(&self, ops: &[OpId]) -> Result<Vec<Option<LetterView>>> {
        let letter = |tables: &Tables, op| tables.dead_letters.get(op).cloned();
        Ok(self.read(|tables, _| ops.iter().map(|op| letter(tables, op)).collect()))
    }

    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        check(letters)?;
        self.write(|tx| {
            let mut new = Vec::with_capacity(letters.len());
            for letter in letters {
                let op_id = letter.op_id;
                let is_new = !tx.tables.dead_letters.contains(&op_id);
                if is_new {
                    let row = tx.tables.rows.get(&op_id);
                    let letter = imported(letter, row.map_or(0, |row| row.operation.seq));
                    tx.tables.put_letter(op_id, Some(letter));
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
