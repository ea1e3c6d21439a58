//! Waiting for the end of an operation.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Known, Operation};
use clinch_core::{OpId, OperationHandle, Payload, Result, Status};

use super::{Orchestrator, Snapshot};
use crate::waiters::Waiter;

/// A command that was accepted, by this call or by an earlier one.
/// [`Orchestrator::end_of`] waits for its end.
#[must_use]
pub struct Acceptance {
    /// The operation, and its status at the accept.
    pub known: Known,
    /// The same keys had been accepted before.
    pub replayed: bool,
    /// Of a new operation.
    pub(super) new: Option<NewRow>,
}

/// A new operation whose caller may wait for its end.
pub(super) struct NewRow {
    /// As the accept left it.
    pub(super) row: Arc<Operation>,
    /// Registered before the accept.
    pub(super) waiter: Waiter,
}

impl Orchestrator {
    /// Waits until the operation is terminal, at most `wait`, and returns the operation as it is
    /// then.
    pub async fn await_settled(&self, op_id: OpId, wait: Duration) -> Result<Snapshot> {
        let waiter = self.accept.waiters.register(op_id);
        self.wait(waiter, None, wait).await
    }

    /// Waits until an accepted operation is terminal, at most `wait`, and returns the operation as
    /// it is then. The row of a new operation that this process settles is not read.
    pub async fn end_of(&self, accepted: Acceptance, wait: Duration) -> Result<Snapshot> {
        match accepted.new {
            Some(NewRow { row, waiter }) => self.wait(waiter, Some(row), wait).await,
            None => self.await_settled(accepted.known.op_id, wait).await,
        }
    }

    /// `known` is the row as it was after the waiter was registered, if it is known.
    async fn wait(
        &self,
        mut waiter: Waiter,
        mut known: Option<Arc<Operation>>,
        wait: Duration,
    ) -> Result<Snapshot> {
        let accept = &self.accept;
        let until = accept.ports.clock.monotonic().saturating_add(wait);
        let mut pause = accept.config.settle_pause;
        loop {
            if let Some(end) = waiter.look() {
                return self.snapshot(end);
            }
            let row = match known.take() {
                Some(row) => Ok(Arc::unwrap_or_clone(row)),
                None => accept.row(waiter.op_id()).await,
            };
            let left = until.saturating_sub(accept.ports.clock.monotonic());
            let nap = match row {
                Ok(row) => {
                    if row.state.is_terminal() || left.is_zero() {
                        return self.snapshot(row);
                    }
                    left
                }
                Err(error) if !error.is_retryable() || left.is_zero() => return Err(error),
                Err(_) => {
                    pause = pause.saturating_mul(2);
                    pause.min(left)
                }
            };
            // If a notice was lost, the listener wakes the waiters: it reads the rows of all of
            // them at once.
            tokio::select! {
                biased;
                () = waiter.woken() => {}
                () = accept.sleep(nap) => {}
            }
        }
    }
}

pub(super) fn handle(snapshot: &Snapshot, replayed: bool) -> OperationHandle {
    let operation = &snapshot.operation;
    let txn_id = operation
        .result
        .as_ref()
        .and_then(|r| r.provider_txn_id.clone());
    let completed = operation.state.status == Status::Completed;
    let result = snapshot.result.clone().unwrap_or_else(Payload::null);
    OperationHandle {
        op_id: operation.op_id,
        replayed,
        status: operation.state.status,
        result: completed.then_some((txn_id, result)),
        failure: operation
            .state
            .failure
            .clone()
            .filter(|_| operation.state.is_terminal()),
        pruned: false,
    }
}

/// The handle of an operation whose row was not read.
pub(super) fn unread(known: &Known, replayed: bool) -> OperationHandle {
    OperationHandle {
        op_id: known.op_id,
        replayed,
        status: known.status,
        result: None,
        failure: None,
        pruned: known.pruned,
    }
}
