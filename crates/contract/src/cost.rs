//! What the calls of a store cost on a long history, in rows that its statements examine.
//!
//! A store must not become slower because it has been in use for a year. So every call of the hot
//! path, of recovery, of the outbox, of metrics and of the console examines as many rows as it
//! returns or changes, times a factor, plus a constant, however long the history and the backlog
//! are. Plans of a database say how rows would be found; here they are counted.
//!
//! The steps of an adapter's test:
//!
//! 1. [`Templates::make`] makes one operation of each kind through the ports.
//! 2. The test copies the templates [`History`] times, by the database's own SQL.
//! 3. [`add_backlog`] adds rows that wait for recovery and for a begin.
//! 4. [`measure`] makes every call and reads the adapter's [`Examined`] before and after it.
//! 5. [`check`] fails with a table if a call examined too much.

mod backlog;
mod calls;
mod copies;
mod documents;

use std::fmt::Write as _;

use async_trait::async_trait;
use clinch_core::ports::{Batches, NewBatch, NewPause, Restriction};
use clinch_core::{BatchId, Domain, OpId};

use crate::StorePorts;
use crate::calls::Calls;
use crate::case::{Failure, Verdict};
use crate::fixtures::{self, KEYED, NATURAL, Sequence};

pub use backlog::add_backlog;
pub use calls::measure;
pub use copies::{Copies, Span};
pub use documents::{fill_documents, measure_documents};

/// Rows that a call may examine beyond those that it returns or changes: settings, counters of
/// domains, streams, and the ends of index ranges.
pub const ROWS_EXTRA: u64 = 500;

/// Rows that a call may examine for each row that it returns or changes: the operation, its
/// request, its key, its batch, its lane, its ledger, and what is deleted together with it.
pub const ROWS_EACH: u64 = 40;

/// Counts the rows that the statements of a store have examined since it was opened.
#[async_trait]
pub trait Examined: Send + Sync {
    /// The count so far. Statements that ended before this call are in it.
    async fn examined(&self) -> u64;
}

/// How long the history is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Operations that have ended. A tenth of them FAILED.
    pub ended: u64,
    /// Operations that were announced and have not begun. Half of them are in a paused domain.
    pub announced: u64,
}

impl History {
    /// In a normal test run: long enough that a cost that grows shows.
    pub const SHORT: Self = Self {
        ended: 40_000,
        announced: 8_000,
    };

    /// As after a year in production.
    pub const LONG: Self = Self {
        ended: 5_000_000,
        announced: 1_000_000,
    };

    /// The long one if `CLINCH_PROOF` is set (`cargo xtask proof history`).
    pub fn of_this_run() -> Self {
        match std::env::var_os("CLINCH_PROOF") {
            Some(_) => Self::LONG,
            None => Self::SHORT,
        }
    }

    /// Rows that are copied by one statement, so that a long fill can show its progress.
    pub const SLICE: u64 = 500_000;

    /// Ranges of at most [`Self::SLICE`] numbers, from 1 to `count`. Prints each before it returns
    /// it.
    pub fn slices(what: &str, count: u64) -> impl Iterator<Item = (u64, u64)> {
        let starts = (1..=count).step_by(usize::try_from(Self::SLICE).unwrap_or(usize::MAX));
        starts.map(move |from| {
            let to = count.min(from + Self::SLICE - 1);
            println!("{what}: {from} to {to} of {count}");
            (from, to)
        })
    }
}

/// Operations to copy. They differ from real ones in nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Templates {
    /// COMPLETED, with a label and a transaction id, a member of `batch`.
    pub completed: OpId,
    /// FAILED, with a dead letter.
    pub failed: OpId,
    /// Announced, and not begun.
    pub announced: OpId,
    /// The same, in a domain that is paused.
    pub paused: OpId,
    /// Sealed and complete.
    pub batch: BatchId,
}

impl Templates {
    /// Makes one operation of each kind in an empty store.
    pub async fn make(ports: &StorePorts) -> Result<Self, Failure> {
        let (ids, routes) = (Sequence::default(), fixtures::routes()?);
        let batch = ids.batch_id();
        let new_batch = NewBatch {
            batch_id: batch,
            on_complete: None,
            owner: Restriction::default(),
        };
        Batches::open(ports.batches.as_ref(), &[new_batch]).await?;
        let names = [NATURAL, NATURAL, NATURAL, KEYED];
        let mut new = Vec::new();
        for (number, domain) in names.into_iter().enumerate() {
            let keys = fixtures::keys(domain, "template", &format!("template-{number}"))?;
            let payload = fixtures::payload(number as u64)?;
            new.push(fixtures::operation(ids.op_id(), keys, &payload));
        }
        new[0].batch_id = Some(batch);
        new[0].options = fixtures::label("tenant", "acme")?;
        let [completed, failed, announced, paused] = [0, 1, 2, 3].map(|at: usize| new[at].op_id);
        let store = &ports.store;
        store.accept(&new[..2], &routes).await?;
        let begins = [ids.begin(completed, 0)?, ids.begin(failed, 0)?];
        let begun = store.begin(&begins, &routes).await?;
        let fences = begun.into_iter().map(|row| Ok(row?.state.fence));
        let fences: Vec<u64> = fences.collect::<Verdict<_>>()?;
        let answers = [
            fixtures::ok_answer(completed, Some(fences[0]), "txn")?,
            fixtures::fail_answer(failed, fences[1])?,
        ];
        for changed in store.settle(&answers, &routes).await? {
            changed?;
        }
        store.seal(&[batch], &routes).await?;
        store.accept(&new[2..], &routes).await?;
        let claimed = ports.outbox.claim(&fixtures::claim(1, 10)?).await?;
        ensure_eq!(claimed.len(), 2, "the templates are claimed");
        ports.outbox.published(&claimed).await?;
        ports
            .domains
            .pause(&Domain::new(KEYED)?, &NewPause::default())
            .await?;
        Ok(Self {
            completed,
            failed,
            announced,
            paused,
            batch,
        })
    }
}

/// What one call examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The call.
    pub call: &'static str,
    /// Rows that it returned or changed.
    pub returned: u64,
    /// Rows that its statements examined.
    pub examined: u64,
    /// Rows that it may examine in addition to [`ROWS_EXTRA`]: the bound of a search that is
    /// continued by its cursor.
    pub search: u64,
}

impl Cost {
    /// The most rows that the call may examine.
    pub fn allowed(&self) -> u64 {
        self.returned * ROWS_EACH + ROWS_EXTRA + self.search
    }
}

/// Fails if a call examined more than it may. The message is a table of all calls.
pub fn check(costs: &[Cost]) -> Result<(), Failure> {
    let mut table = String::from("call, rows returned, rows examined, rows allowed\n");
    let mut red = 0;
    for cost in costs {
        let is_red = cost.examined > cost.allowed();
        red += usize::from(is_red);
        let mark = if is_red { "TOO MANY" } else { "" };
        let (call, returned, examined) = (cost.call, cost.returned, cost.examined);
        let allowed = cost.allowed();
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "{call:<40} {returned:>6} {examined:>9} {allowed:>7} {mark}"
        );
    }
    println!("{table}");
    ensure!(!costs.is_empty(), "no call was measured");
    ensure!(red == 0, "{red} calls examine too many rows\n{table}");
    Ok(())
}
