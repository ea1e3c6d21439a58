//! The Reaper, the only owner of lost attempts. Also ends operations that are overdue.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Amendment, Changed, Claimed, Level, Scan, StageEnd, Tags, Write};
use clinch_core::protocol::Event;
use clinch_core::{ProcessId, Result};

use super::Recoverer;
use crate::Scanned;
use crate::telemetry::tags_of_hint;

impl Recoverer {
    /// One pass over live rows whose process has died or whose lease has ended: the protocol
    /// decides what a lost attempt means.
    pub(crate) async fn reap(&self) -> Result<Scanned> {
        self.count("orchestrator.reaper.scan.count", None, 1);
        let mut found = 0;
        for process in self.processes.dead() {
            found += self.reap_process(process).await?;
        }
        let recovery = &self.ports.recovery;
        let claimed = recovery.scan(Scan::LeaseEnded, &self.brief_claim()).await?;
        found += self.reap_rows(claimed, &Event::AttemptLost).await;
        let next = recovery.next_due(Scan::LeaseEnded).await?;
        self.note_leases(next.is_some());
        self.log_pass("reaper pass", found);
        Ok(Scanned { found, next })
    }

    /// One pass over rows whose deadline passed while no attempt was running.
    pub(crate) async fn end_overdue(&self) -> Result<Scanned> {
        let recovery = &self.ports.recovery;
        let claimed = recovery.scan(Scan::Overdue, &self.brief_claim()).await?;
        let found = claimed.len();
        self.tell(&claimed, &Event::DeadlinePassed).await;
        let next = recovery.next_due(Scan::Overdue).await?;
        Ok(Scanned { found, next })
    }

    /// Continues the live rows of a process that died, without waiting for the end of their leases.
    /// Rows whose route is not declared here are left to a process that declares it.
    async fn reap_process(&self, process: ProcessId) -> Result<usize> {
        let recovery = &self.ports.recovery;
        let claimed = recovery.abandoned(process, &self.brief_claim()).await?;
        let is_last = claimed.len() < self.config.batch;
        let found = self
            .reap_rows(claimed, &Event::ProcessDied { process })
            .await;
        if is_last {
            recovery.check_out(process).await?;
            self.processes.forget(process);
        }
        Ok(found)
    }

    /// Returns the number of rows that do not run here.
    async fn reap_rows(&self, mut claimed: Vec<Claimed>, event: &Event) -> usize {
        // An attempt that runs in this process is not lost, even if the store could not extend its
        // lease: its answer will follow.
        claimed.retain(|row| !self.attempts.has(row.op_id(), row.fence));
        let lost = self.tell(&claimed, event).await;
        for row in lost {
            let tags = tags_of_hint(&row.hint);
            self.log(Level::Warn, "an attempt was lost", &tags);
            let domain = Some(&row.hint.domain);
            self.count("orchestrator.reaper.reconciled.count", domain, 1);
        }
        claimed.len()
    }

    /// Applies `event` to the rows, and returns those that it changed.
    async fn tell<'a>(&self, rows: &'a [Claimed], event: &Event) -> Vec<&'a Claimed> {
        let amendment = |row: &Claimed| Amendment {
            op_id: row.op_id(),
            event: event.clone(),
            ok: None,
            checkpoint: None,
            by: self.config.worker.clone(),
            reason: String::new(),
            attempt_id: None,
        };
        let writes = rows.iter().map(|row| Write::Amend(amendment(row)));
        let began = self.ports.clock.monotonic();
        let results = self.commits.change_all(writes.collect()).await;
        let took = self.ports.clock.monotonic().saturating_sub(began);
        let mut changed = Vec::new();
        for (row, result) in rows.iter().zip(results) {
            if let Ok(Ok(result)) = result {
                changed.push(row);
                let status = result.state.status.as_str();
                self.within_recovery("reap", row, took, status, &result)
                    .await;
            }
        }
        changed
    }

    /// What follows a change by a recovery runner, within a span of the operation's trace. The span
    /// began `took` ago: one commit changed several operations.
    pub(super) async fn within_recovery(
        &self,
        stage: &'static str,
        row: &Claimed,
        took: Duration,
        outcome: &'static str,
        changed: &Changed,
    ) {
        let end = Arc::<StageEnd>::default();
        end.set(outcome, None);
        let tags = tags_of_hint(&row.hint);
        let spanned = Tags {
            latency: Some(took),
            end: Some(&end),
            ..tags
        };
        let follow = self.follow(&tags, changed);
        self.within(stage, &spanned, Box::pin(follow)).await;
    }
}
