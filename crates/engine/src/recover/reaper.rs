//! The Reaper: the one owner of lost attempts. And the end of what is overdue.

use clinch_core::Result;
use clinch_core::ports::{Amendment, Claimed, Level, Scan};
use clinch_core::protocol::Event;

use super::Scanned;
use crate::node::Node;

impl Node {
    /// One pass over ended leases: exactly what the protocol says of a lost attempt.
    pub(crate) async fn reap(&self) -> Result<Scanned> {
        if planted!(ReaperSleeps) {
            return Ok(Scanned::nothing_to_do());
        }
        self.count("orchestrator.reaper.scan.count", None, 1);
        let (scanned, changed) = self.tell(Scan::LeaseEnded, &Event::AttemptLost).await?;
        self.count("orchestrator.reaper.reconciled.count", None, changed);
        self.log_pass("reaper pass", scanned.found);
        Ok(scanned)
    }

    /// One pass over rows whose deadline passed while no attempt was running.
    pub(crate) async fn end_overdue(&self) -> Result<Scanned> {
        if planted!(DeadlinesForgotten) {
            return Ok(Scanned::nothing_to_do());
        }
        let (scanned, _) = self.tell(Scan::Overdue, &Event::DeadlinePassed).await?;
        Ok(scanned)
    }

    /// Tells every row that `scan` finds that `event` happened.
    async fn tell(&self, scan: Scan, event: &Event) -> Result<(Scanned, usize)> {
        let recovery = &self.ports.recovery;
        let mut claimed = recovery.scan(scan, &self.brief_claim()).await?;
        // What runs here is not lost, however long the store kept its lease from being extended:
        // its answer is on its way.
        let runs_here = |row: &Claimed| self.is_running(row.op_id(), row.fence);
        claimed.retain(|row| scan != Scan::LeaseEnded || !runs_here(row));
        let amendment = |row: &Claimed| Amendment {
            op_id: row.op_id(),
            event: if planted!(LostMeansNotApplied) && scan == Scan::LeaseEnded {
                not_applied(row.fence)
            } else {
                event.clone()
            },
            ok: None,
            checkpoint: None,
            by: self.config.worker.clone(),
            reason: String::new(),
            attempt_id: None,
        };
        let amendments: Vec<_> = claimed.iter().map(amendment).collect();
        let mut changed = 0;
        let results = self.groups.amend.call_all(amendments.clone()).await;
        for (amendment, result) in amendments.iter().zip(results) {
            if let Ok(Ok(result)) = result {
                changed += 1;
                if scan == Scan::LeaseEnded {
                    self.log_op(Level::Warn, "an attempt was lost", amendment.op_id);
                }
                self.follow(amendment.op_id, &result).await;
            }
        }
        let next = recovery.next_due(scan).await?;
        let found = amendments.len();
        Ok((Scanned { found, next }, changed))
    }
}

/// What a planted bug says instead.
fn not_applied(fence: u64) -> Event {
    Event::Retry {
        fence,
        after: None,
        effect: clinch_core::Effect::None,
        reason: String::new(),
    }
}
