//! Rows of attempts that this process began. It settles most of them itself, and nobody changes
//! them meanwhile: the change is planned from the row as it was written, without reading it again.
//! A row that did change is noticed by its version and its history when the plan is written.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use clinch_core::OpId;
use clinch_core::protocol::Phase;
use clinch_stored::commit::{Row, Seen};

/// Rows at most. Beyond, all are forgotten: the next change of each reads its row.
const ROWS_MAX: usize = 16 * 1024;

#[derive(Default)]
pub(crate) struct LiveRows(Mutex<HashMap<OpId, Row>>);

/// What a commit leaves of a row: as it is now, or `None` if it is not worth keeping.
pub(crate) type Left = (OpId, Option<Row>);

/// What is kept of a row that a plan writes. Lanes and batches have to be read anyway; a row with a
/// result may be large.
pub(crate) fn left(row: &Row, seq: u64, ledger: &[u8]) -> Left {
    let is_plain = row.lane.is_none() && row.batch_id.is_none() && !row.has_spawn;
    let is_live = row.state.phase == Some(Phase::Live) && row.result.is_none();
    let kept = (is_plain && is_live).then(|| Row {
        seq,
        ledger: ledger.to_vec(),
        request: None,
        checkpoint: None,
        ..row.clone()
    });
    (row.op_id, kept)
}

impl LiveRows {
    fn rows(&self) -> MutexGuard<'_, HashMap<OpId, Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a commit has left.
    pub(crate) fn keep(&self, left: Vec<Left>) {
        let mut rows = self.rows();
        if rows.len() + left.len() > ROWS_MAX {
            rows.clear();
        }
        for (op, row) in left {
            match row {
                Some(row) => rows.insert(op, row),
                None => rows.remove(&op),
            };
        }
    }

    /// All of these rows; `None`: one of them has to be read.
    pub(crate) fn seen(&self, ops: impl Iterator<Item = OpId>) -> Option<Seen> {
        let rows = self.rows();
        let mut seen = Seen::default();
        for op in ops {
            if !seen.has_row(op) {
                seen.row(rows.get(&op)?.clone());
            }
        }
        Some(seen)
    }
}
