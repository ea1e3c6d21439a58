//! Which edges of the protocol table a history covered.

use std::collections::BTreeMap;

use clinch_core::Status;
use clinch_core::ports::LedgerLine;
use clinch_core::protocol::Phase;
use clinch_memory::Memory;

/// From, event, to.
pub type Edge = (&'static str, &'static str, &'static str);

/// Every edge of the protocol table that changes the status or phase of an operation, except
/// `Restored`, which needs a backup.
pub const EDGES: &[Edge] = &[
    ("-", "Accept", "PENDING"),
    ("PENDING", "Begin", "live"),
    ("PENDING", "DeadlinePassed", "FAILED"),
    ("PENDING", "Cancel", "FAILED"),
    ("PENDING", "RetryNow", "PENDING"),
    ("waiting", "RetryNow", "waiting"),
    ("waiting", "Begin", "live"),
    ("waiting", "Begin", "held"),
    ("waiting", "DeadlinePassed", "FAILED"),
    ("waiting", "DeadlinePassed", "held"),
    ("waiting", "Cancel", "FAILED"),
    ("waiting", "Cancel", "held"),
    ("live", "Extend", "live"),
    ("live", "Checkpoint", "live"),
    ("live", "NotCalled", "waiting"),
    ("live", "NotCalled", "FAILED"),
    ("live", "NotCalled", "held"),
    ("live", "Ok", "live"),
    ("live", "Ok", "COMPLETED"),
    ("waiting", "Ok", "COMPLETED"),
    ("held", "Ok", "COMPLETED"),
    ("FAILED", "Ok", "FAILED"),
    ("live", "Fail", "live"),
    ("live", "Fail", "held"),
    ("live", "Retry", "waiting"),
    ("live", "Retry", "held"),
    ("live", "Retry", "FAILED"),
    ("live", "AttemptLost", "waiting"),
    ("live", "AttemptLost", "held"),
    ("live", "AttemptLost", "FAILED"),
    ("live", "ProcessDied", "waiting"),
    ("live", "ProcessDied", "held"),
    ("live", "ProcessDied", "FAILED"),
    ("live", "Cancel", "live"),
    ("live", "Finalize", "COMPLETED"),
    ("live", "Finalize", "FAILED"),
    ("held", "Probed", "COMPLETED"),
    ("held", "Probed", "FAILED"),
    ("held", "Probed", "waiting"),
    ("held", "Probed", "held"),
    ("held", "Resolve", "COMPLETED"),
    ("held", "Resolve", "FAILED"),
    ("held", "Resolve", "waiting"),
    ("held", "Cancel", "held"),
];

fn stands(line: &LedgerLine) -> &'static str {
    match (line.status, line.phase) {
        (Status::Pending, _) => "PENDING",
        (Status::Completed, _) => "COMPLETED",
        (Status::Failed, _) => "FAILED",
        (Status::InProgress, Some(Phase::Live)) => "live",
        (Status::InProgress, Some(Phase::Held)) => "held",
        (Status::InProgress, _) => "waiting",
    }
}

/// How often each edge was taken.
pub(crate) fn taken(memory: &Memory) -> BTreeMap<Edge, usize> {
    let mut taken = BTreeMap::new();
    memory.edit(|tables| {
        for (_, lines) in tables.ledger.iter() {
            let mut from = "-";
            for line in lines.iter().filter(|line| line.refused.is_none()) {
                let to = stands(line);
                let event = line.event.as_str();
                let known = EDGES.iter().find(|edge| **edge == (from, event, to));
                if let Some(edge) = known {
                    *taken.entry(*edge).or_default() += 1;
                }
                from = to;
            }
        }
    });
    taken
}
