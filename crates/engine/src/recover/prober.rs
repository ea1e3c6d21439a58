//! Asks providers what became of calls whose effect is unknown.

use std::sync::Arc;

use clinch_core::ports::{Amendment, Claim, Claimed, Operation, ProbeVerdict, Scan, StoredOk};
use clinch_core::protocol::{Event, ProbeAnswer};
use clinch_core::{OpId, Result};

use super::Scanned;
use crate::handlers::Handler;
use crate::node::Node;
use crate::panics::caught;
use crate::telemetry::tags_of_row;

impl Node {
    /// Claims held rows whose probe is due.
    pub(crate) async fn due_probes(&self, max: usize) -> Result<Vec<(Claimed, Option<Operation>)>> {
        if planted!(ProberSleeps) {
            return Ok(Vec::new());
        }
        let recovery = &self.ports.recovery;
        let claim = Claim {
            max,
            ..self.brief_claim()
        };
        let claimed = recovery.scan(Scan::ProbeDue, &claim).await?;
        let ops: Vec<OpId> = claimed.iter().map(Claimed::op_id).collect();
        let rows = self.ports.inspect.get(&ops).await?;
        Ok(claimed.into_iter().zip(rows).collect())
    }

    /// One pass over them. Providers are asked side by side, each by a task of its own: a slow
    /// one holds up nobody.
    pub(crate) async fn probe_held(self: &Arc<Self>) -> Result<Scanned> {
        // Permits first: what is claimed is asked about at once, well within the claim.
        let mut permits = Vec::new();
        while let Ok(permit) = self.probe_permits.clone().try_acquire_owned() {
            permits.push(permit);
        }
        let due = self.due_probes(permits.len()).await?;
        let found = due.len();
        for (claim, row) in due {
            let permit = permits.pop();
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
    pub(crate) async fn probe_one(self: &Arc<Self>, claim: &Claimed, row: Option<Operation>) {
        let Some((answer, ok)) = self.ask(claim, row).await else {
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
        // A doubt is told once: repeating one whose commit is unclear could count it twice.
        let doubt = matches!(
            &amendment.event,
            Event::Probed {
                answer: ProbeAnswer::NotFound | ProbeAnswer::Unknown,
                ..
            }
        );
        let call = || self.groups.amend.call(amendment.clone());
        let answered = if doubt {
            call().await
        } else {
            self.persist(self.config.settle_patience, call).await
        };
        if let Ok(Ok(changed)) = answered {
            self.follow(claim.op_id(), &changed).await;
        }
    }

    /// `None`: not ours to ask. The claim's clock was read before the question is asked, so
    /// a "not found" is never taken for a later one than it is.
    async fn ask(
        self: &Arc<Self>,
        claim: &Claimed,
        row: Option<Operation>,
    ) -> Option<(ProbeAnswer, Option<StoredOk>)> {
        let row = row.filter(|row| row.state.version == claim.version)?;
        let keys = &row.keys;
        let rules = self.routes.find(&keys.domain, &keys.event_type)?;
        let handler = self.handlers.find(&keys.domain, &keys.event_type);
        let Some(probe) = handler.and_then(|handler| handler.probe.as_ref()) else {
            // A route that promises a probe is another process's to ask about.
            let nobody = rules.probe.is_none();
            return nobody.then_some((ProbeAnswer::Unknown, None));
        };
        if handler.is_some_and(Handler::is_closed_by_its_provider) {
            // The provider is left alone; asking again later is not a doubt.
            return None;
        }
        let Ok(envelope) = self.envelope(&row) else {
            return Some((ProbeAnswer::Unknown, None));
        };
        let mut verdict = ProbeVerdict::Unknown;
        let asked = async {
            verdict = tokio::select! {
                biased;
                said = caught(probe.probe(&envelope)) => said.unwrap_or(ProbeVerdict::Unknown),
                // Before the claim runs out and somebody else asks.
                () = self.sleep(self.config.recovery_claim / 2) => ProbeVerdict::Unknown,
            };
        };
        self.within("probe", &tags_of_row(&row), Box::pin(asked))
            .await;
        Some(match verdict {
            ProbeVerdict::Succeeded(success) => {
                let ok = self.record(row.op_id, &success, row.trace.as_deref()).await;
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
        })
    }
}
