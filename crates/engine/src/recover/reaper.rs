//! The Reaper, the only owner of lost attempts. Also ends operations that are overdue.

use clinch_core::Result;
use clinch_core::ports::{Amendment, Claimed, Level, Scan, Write};
use clinch_core::protocol::Event;

use super::Recoverer;
use crate::Scanned;

impl Recoverer {
    /// One pass over live rows whose lease has ended: the protocol decides what a lost attempt
    /// means.
    pub(crate) async fn reap(&self) -> Result<Scanned> {
        self.count("orchestrator.reaper.scan.count", None, 1);
        let (scanned, changed) = self.tell(Scan::LeaseEnded, &Event::AttemptLost).await?;
        self.count("orchestrator.reaper.reconciled.count", None, changed);
        self.log_pass("reaper pass", scanned.found);
        Ok(scanned)
    }

    /// One pass over rows whose deadline passed while no attempt was running.
    pub(crate) async fn end_overdue(&self) -> Result<Scanned> {
        let (scanned, _) = self.tell(Scan::Overdue, &Event::DeadlinePassed).await?;
        Ok(scanned)
    }

    /// Applies `event` to every row that `scan` finds.
    async fn tell(&self, scan: Scan, event: &Event) -> Result<(Scanned, usize)> {
        let recovery = &self.ports.recovery;
        let mut claimed = recovery.scan(scan, &self.brief_claim()).await?;
        // An attempt that runs in this process is not lost, even if the store could not extend its
        // lease: its answer will follow.
        let runs_here = |row: &Claimed| self.attempts.has(row.op_id(), row.fence);
        claimed.retain(|row| scan != Scan::LeaseEnded || !runs_here(row));
        let amendment = |row: &Claimed| Amendment {
            op_id: row.op_id(),
            event: event.clone(),
            ok: None,
            checkpoint: None,
            by: self.config.worker.clone(),
            reason: String::new(),
            attempt_id: None,
        };
        let writes = claimed.iter().map(|row| Write::Amend(amendment(row)));
        let mut changed = 0;
        let results = self.commits.change_all(writes.collect()).await;
        for (row, result) in claimed.iter().zip(results) {
            if let Ok(Ok(result)) = result {
                changed += 1;
                if scan == Scan::LeaseEnded {
                    self.log_op(Level::Warn, "an attempt was lost", row.op_id());
                }
                self.follow(row.op_id(), &result).await;
            }
        }
        let next = recovery.next_due(scan).await?;
        let found = claimed.len();
        Ok((Scanned { found, next }, changed))
    }
}
