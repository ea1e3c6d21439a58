//! The Finalizer makes recorded answers final that their own process did not finalize.

use clinch_core::ports::{Claimed, Level, Scan, Write};
use clinch_core::{OpId, Result};

use super::Recoverer;
use crate::Scanned;

impl Recoverer {
    /// One pass. A row that fails is left for the next pass. Several nodes may do this at once.
    pub(crate) async fn finalize_recorded(&self) -> Result<Scanned> {
        let recovery = &self.ports.recovery;
        let claimed = recovery
            .scan(Scan::Unfinalized, &self.brief_claim())
            .await?;
        self.count("orchestrator.finalizer.scan.count", None, 1);
        let ops: Vec<OpId> = claimed.iter().map(|row| row.op_id()).collect();
        let mut recovered = 0;
        let writes = ops.iter().map(|op_id| Write::Finalize(*op_id)).collect();
        let results = self.commits.change_all(writes).await;
        for (op_id, result) in ops.iter().zip(results) {
            match result {
                Ok(Ok(changed)) => {
                    recovered += 1;
                    self.follow(*op_id, &changed).await;
                }
                // Another process was first.
                Ok(Err(_)) => {}
                Err(_) => self.log_op(Level::Error, "finalize failed", *op_id),
            }
        }
        let late = |row: &&Claimed| row.now.since(row.since) > self.config.pending_age_max;
        let late = claimed.iter().filter(late).count();
        if late > 0 {
            let message = format!("{late} answers waited too long to be final");
            self.alert("finalizer_lag", &message, None).await;
        }
        self.count("orchestrator.finalizer.recovered.count", None, recovered);
        self.log_pass("finalizer pass", ops.len());
        let next = recovery.next_due(Scan::Unfinalized).await?;
        Ok(Scanned {
            found: ops.len(),
            next,
        })
    }
}
