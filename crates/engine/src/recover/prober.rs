//! Asks providers what became of calls whose effect is unknown.

use std::sync::Arc;

use clinch_core::ports::{Amendment, Claimed, Operation, ProbeVerdict, Scan, StoredOk};
use clinch_core::protocol::{Event, ProbeAnswer};
use clinch_core::{OpId, Result};

use super::Scanned;
use crate::node::Node;
use crate::panics::caught;
use crate::settle::store_ok;

impl Node {
    /// Claims held rows whose probe is due.
    pub(crate) async fn due_probes(&self) -> Result<Vec<(Claimed, Option<Operation>)>> {
        if planted!(ProberSleeps) {
            return Ok(Vec::new());
        }
        let recovery = &self.ports.recovery;
        let claimed = recovery.scan(Scan::ProbeDue, &self.brief_claim()).await?;
        let ops: Vec<OpId> = claimed.iter().map(Claimed::op_id).collect();
        let rows = self.ports.inspect.get(&ops).await?;
        Ok(claimed.into_iter().zip(rows).collect())
    }

    /// One pass over them. Providers are asked side by side, each by a task of its own: a slow
    /// one holds up nobody.
    pub(crate) async fn probe_held(self: &Arc<Self>) -> Result<Scanned> {
        let due = self.due_probes().await?;
        let found = due.len();
        for (claim, row) in due {
            let permit = self.probe_permits.clone().acquire_owned().await;
            let node = self.clone();
            let task = async move {
                node.probe_one(&claim, row).await;
                drop(permit);
            };
            self.ports.spawner.spawn(Box::pin(task));
        }
        let next = self.ports.recovery.next_due(Scan::ProbeDue).await?;
        Ok(Scanned { found, next })
    }

    /// Asks about one row and tells it the answer. What fails is probed again when the claim
    /// has run out.
    pub(crate) async fn probe_one(&self, claim: &Claimed, row: Option<Operation>) {
        let Ok(Some((answer, ok))) = self.ask(claim, row).await else {
            return;
        };
        let amendment = Amendment {
            op_id: claim.op_id(),
            event: Event::Probed {
                fence: claim.fence,
                asked_at: if planted!(ProbeAskedLater) {
                    claim.now + std::time::Duration::from_secs(3_600)
                } else {
                    claim.now
                },
                answer,
            },
            ok,
            checkpoint: None,
            by: self.config.worker.clone(),
            reason: String::new(),
        };
        let answered = self.persist(|| self.groups.amend.call(amendment.clone()));
        if let Ok(Ok(changed)) = answered.await {
            self.follow(claim.op_id(), &changed).await;
        }
    }

    /// `None`: not ours to ask. The claim's clock was read before the question is asked, so
    /// a "not found" is never taken for a later one than it is.
    async fn ask(
        &self,
        claim: &Claimed,
        row: Option<Operation>,
    ) -> Result<Option<(ProbeAnswer, Option<StoredOk>)>> {
        let Some(row) = row.filter(|row| row.state.version == claim.version) else {
            return Ok(None);
        };
        let handler = self.handlers.find(&row.keys.domain, &row.keys.event_type);
        let rules = self.routes.rules(&row.keys.domain, &row.keys.event_type);
        let Some(probe) = handler.and_then(|handler| handler.probe.as_ref()) else {
            // The route promises a probe that this process does not have.
            let elsewhere = rules.probe.is_some();
            return Ok((!elsewhere).then_some((ProbeAnswer::Unknown, None)));
        };
        let Ok(envelope) = self.envelope(&row) else {
            return Ok(Some((ProbeAnswer::Unknown, None)));
        };
        let verdict = caught(probe.probe(&envelope)).await;
        Ok(Some(match verdict.unwrap_or(ProbeVerdict::Unknown) {
            ProbeVerdict::Succeeded(success) => {
                let ok = store_ok(self, row.op_id, &success)?;
                (ProbeAnswer::Succeeded, Some(ok))
            }
            ProbeVerdict::Failed(fail) => (ProbeAnswer::Failed(fail), None),
            ProbeVerdict::NotFound if planted!(NotFoundMeansFailed) => {
                let fail = clinch_core::Fail::new("not_found", "");
                (ProbeAnswer::Failed(fail), None)
            }
            ProbeVerdict::NotFound => (ProbeAnswer::NotFound, None),
            ProbeVerdict::Unknown if planted!(DoubtMeansSucceeded) => {
                (ProbeAnswer::Succeeded, Some(StoredOk::default()))
            }
            ProbeVerdict::Unknown => (ProbeAnswer::Unknown, None),
        }))
    }
}
