//! SQL that copies a row many times: the fastest way to a long history.

use super::History;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Rows of the history of one kind, and when they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// How many.
    pub count: u64,
    /// The first number: the numbers of different spans do not overlap.
    pub from: u64,
    /// When the first of them ended. Each later one ended a millisecond later, or at the same time.
    pub at: i64,
}

impl History {
    /// Operations that ended FAILED: older than COMPLETED ones may get, too young to be pruned.
    pub fn failed(&self, now: i64) -> Span {
        let (count, from) = (self.ended / 10, 1_000);
        let at = now - 20 * DAY_MS;
        Span { count, from, at }
    }

    /// COMPLETED operations that are old enough to be pruned.
    pub fn prunable(&self, now: i64) -> Span {
        let (count, at) = (100, now - 15 * DAY_MS);
        let from = self.failed(now).end();
        Span { count, from, at }
    }

    /// COMPLETED operations that stay.
    pub fn completed(&self, now: i64) -> Span {
        let count = self.ended - self.ended / 10;
        let (from, at) = (self.prunable(now).end(), now - 5 * DAY_MS);
        Span { count, from, at }
    }

    /// Announced operations of a domain that is not paused.
    pub fn awake(&self, now: i64) -> Span {
        let count = self.announced / 2;
        let from = self.completed(now).end();
        Span {
            count,
            from,
            at: now - 60_000,
        }
    }

    /// Announced operations of a paused domain.
    pub fn paused(&self, now: i64) -> Span {
        let awake = self.awake(now);
        let from = awake.end();
        Span { from, ..awake }
    }

    /// Keys of pruned operations that are old enough to be deleted.
    pub fn old_keys(&self, now: i64) -> Span {
        let (count, at) = (100, now - 50 * DAY_MS);
        let from = self.paused(now).end();
        Span { count, from, at }
    }

    /// Keys of pruned operations that stay.
    pub fn keys(&self, now: i64) -> Span {
        let (count, at) = (self.ended / 10, now - 30 * DAY_MS);
        let from = self.old_keys(now).end();
        Span { count, from, at }
    }

    /// Complete batches that stay.
    pub fn batches(&self, now: i64) -> Span {
        let (count, at) = (self.ended / 10, now - 5 * DAY_MS);
        let from = self.keys(now).end();
        Span { count, from, at }
    }

    /// Complete batches that are old enough to be pruned.
    pub fn old_batches(&self, now: i64) -> Span {
        let (count, at) = (100, now - 50 * DAY_MS);
        let from = self.batches(now).end();
        Span { count, from, at }
    }

    /// The first number after all spans.
    pub fn end(&self, now: i64) -> u64 {
        self.old_batches(now).end()
    }
}

impl Span {
    fn end(&self) -> u64 {
        self.from + self.count
    }

    /// SQL for the moment of the row number `n`.
    pub fn moment(&self) -> String {
        // A day for all of them, however many they are.
        format!("{} + (n - {}) % 86400000", self.at, self.from)
    }

    /// Ranges of the numbers, one for each statement; prints its progress.
    pub fn slices(&self, what: &str) -> impl Iterator<Item = (u64, u64)> {
        let from = self.from;
        let slices = History::slices(what, self.count);
        slices.map(move |(first, last)| (from + first - 1, from + last - 1))
    }
}

/// Copies of one row of a table.
#[derive(Debug, Clone)]
pub struct Copies<'c> {
    /// The table.
    pub table: &'c str,
    /// Its columns.
    pub columns: &'c [String],
    /// The condition for the row, named `t`.
    pub of: &'c str,
    /// Columns that differ, as SQL of the row's number `n`.
    pub set: &'c [(&'c str, String)],
}

impl Copies<'_> {
    /// The statement. `numbers` is SQL of a table with the column `n`.
    pub fn sql(&self, numbers: &str) -> String {
        let value = |column: &String| {
            let set = self.set.iter().find(|(name, _)| name == column);
            set.map_or_else(|| format!("t.{column}"), |(_, value)| value.clone())
        };
        let values: Vec<String> = self.columns.iter().map(value).collect();
        format!(
            "INSERT INTO {table} ({columns}) SELECT {values} FROM {table} AS t, {numbers} WHERE {of}",
            table = self.table,
            columns = self.columns.join(", "),
            values = values.join(", "),
            of = self.of,
        )
    }
}
