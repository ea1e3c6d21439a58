//! The Finalizer makes recorded answers final that their own process did not finalize.

use clinch_core::Result;
use clinch_core::ports::{Claimed, Level, Scan, Write};

use super::Recoverer;
use crate::Scanned;
use crate::telemetry::tags_of_hint;

impl Recoverer {
    /// One pass. A row that fails is left for the next pass. Several nodes may do this at once.
    pub(crate) async fn finalize_recorded(&self) -> Result<Scanned> {
        let recovery = &self.ports.recovery;
        let claimed = recovery
            .scan(Scan::Unfinalized, &self.brief_claim())
            .await?;
        self.count("orchestrator.finalizer.scan.count", None, 1);
        let mut recovered = 0;
        let began = self.ports.clock.monotonic();
        let writes = claimed.iter().map(|row| Write::Finalize(row.op_id()));
        let results = self.commits.change_all(writes.collect()).await;
        let took = self.ports.clock.monotonic().saturating_sub(began);
        for (row, result) in claimed.iter().zip(results) {
            match result {
                Ok(Ok(changed)) => {
                    recovered += 1;
                    let name = changed.state.status.as_str();
                    self.within_recovery("finalize", row, took, name, &changed)
                        .await;
                }
                // Another process was first.
                Ok(Err(_)) => {}
                Err(_) => self.log(Level::Error, "finalize failed", &tags_of_hint(&row.hint)),
            }
        }
        let late = |row: &&Claimed| row.now.since(row.since) > self.config.pending_age_max;
        let late = claimed.iter().filter(late).count();
        self.count("orchestrator.finalizer.late.count", None, late);
        if late > 0 {
            let message = format!("{late} answers waited too long to be final");
            self.alert("finalizer_lag", &message, None).await;
        }
        self.count("orchestrator.finalizer.recovered.count", None, recovered);
        self.log_pass("finalizer pass", claimed.len());
        let next = recovery.next_due(Scan::Unfinalized).await?;
        Ok(Scanned {
            found: claimed.len(),
            next,
        })
    }
}
