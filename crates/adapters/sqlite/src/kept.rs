//! What the writer keeps between its transactions, so that a commit reads less.
//!
//! Only the writer of this process and other connections change the file. SQLite counts the commits
//! of other connections (`data_version`): if the count has changed when a transaction begins,
//! everything kept is dropped. A rollback drops it too. Rows are still written by compare-and-set.

use std::collections::{BTreeMap, HashMap};

use clinch_core::protocol::Phase;
use clinch_core::{OpId, Result};
use clinch_stored::commit::Row;

use crate::column::Column;
use crate::db::Db;
use crate::keys::{NewKeys, StoreRow};
use crate::query::Query;
use crate::tx::DomainRow;

/// Rows of running attempts that are kept. Bounds memory: such a row is at most about 2 KiB.
const ROWS_MAX: usize = 8_192;
/// Domains whose counters are kept.
const DOMAINS_MAX: usize = 1_024;

/// Rows as the last transaction left them.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    data_version: Option<i64>,
    pub domains: BTreeMap<i64, DomainRow>,
    pub store: Option<StoreRow>,
    pub new_keys: NewKeys,
    /// The largest operation id in the file; the outer `None`: not read yet.
    pub newest: Option<Option<OpId>>,
    /// Operations with a running attempt: the next commit that names one most likely ends it.
    rows: HashMap<OpId, Row>,
}

impl Kept {
    /// Takes the row of an operation out, if it is kept.
    pub(crate) fn take_row(&mut self, op_id: OpId) -> Option<Row> {
        self.rows.remove(&op_id)
    }

    /// The row of an operation was written: keeps it while its attempt runs.
    pub(crate) fn row_written(&mut self, row: &Row, seq: u64, ledger: Vec<u8>) {
        let runs = row.state.phase == Some(Phase::Live) && row.result.is_none();
        if !runs || self.rows.len() >= ROWS_MAX {
            self.rows.remove(&row.op_id);
            return;
        }
        let kept = Row {
            seq,
            ledger,
            // Payloads are not kept: a change of a running attempt does not need them.
            request: None,
            checkpoint: None,
            ..row.clone()
        };
        self.rows.insert(row.op_id, kept);
    }
}

impl Db<'_> {
    /// Call this in a new transaction that writes: drops what other connections may have changed.
    pub(crate) fn check_kept(&mut self) -> Result<()> {
        let version = self.first(Query::DataVersion, [], |row| row.int(0))?;
        if version.is_none() || self.kept.data_version != version {
            // What was added to the new keys is read when they are needed.
            let mut new_keys = std::mem::take(&mut self.kept.new_keys);
            new_keys.is_current = false;
            self.kept = Kept {
                data_version: version,
                new_keys,
                ..Kept::default()
            };
        }
        Ok(())
    }

    /// The transaction is committed.
    pub(crate) fn keep(&mut self) {
        if self.kept.domains.len() > DOMAINS_MAX {
            self.kept.domains.clear();
        }
    }
}
