//! The API of remote workers.

use std::time::Duration;

use clinch_core::protocol::State;
use clinch_core::{Result, WorkerId};

use super::Orchestrator;
use crate::execute::{LeaseRequest, Leased, LeasedAttempt, Report, Reported};

impl Orchestrator {
    /// Begins attempts for a worker outside of this process.
    ///
    /// - Only operations of routes that are declared for remote workers, as far as their
    ///   destinations have room.
    /// - An attempt without a report is a lost attempt when its lease ends. An attempt that was
    ///   begun for a worker which disconnected is given back at once.
    pub async fn lease(&self, request: &LeaseRequest) -> Result<Vec<Leased>> {
        self.accept.workers.lease(request).await
    }

    /// Extends the lease, by no more than the route allows. The state says whether cancel was
    /// requested.
    pub async fn heartbeat(&self, attempt: LeasedAttempt, lease: Duration) -> Result<State> {
        self.accept.heartbeat(attempt, lease).await
    }

    /// Keeps bytes for the next attempt.
    pub async fn checkpoint(&self, attempt: LeasedAttempt, bytes: &[u8]) -> Result<State> {
        self.accept.checkpoint(attempt, bytes).await
    }

    /// Gives back an attempt that made no call.
    pub async fn release(&self, attempt: LeasedAttempt, worker: WorkerId) -> Result<State> {
        self.accept.release(attempt, worker).await
    }

    /// Records how an attempt ended, and returns the row's state after that.
    ///
    /// - A pair of fence and token that no lease gave out changes nothing.
    /// - A pair of an earlier attempt is a `Conflict`, except that an Ok is always taken.
    /// - The same report again is answered like the first.
    /// - An Ok is kept whatever else is wrong with the report. The parts that are left out are
    ///   named in the answer, and an operator is alerted.
    pub async fn report(&self, report: Report) -> Result<Reported> {
        self.accept.report(report).await
    }
}
