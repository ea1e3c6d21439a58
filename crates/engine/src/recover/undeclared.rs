//! Open operations whose route was removed from the configuration.
//!
//! Their provider is not called again: a begin needs a route. But recorded answers become final,
//! lost attempts are recorded, and deadlines pass. The row's own data and the most careful rules
//! ([`Routes::rules`](clinch_core::policy::Routes::rules)) decide. A process that declares the
//! route knows its rules and comes first: this pass leaves rows to it for a grace period, and its
//! claims last no time, so that they exclude no other process.

use std::collections::BTreeMap;
use std::time::Duration;

use clinch_core::ports::{Amendment, Among, Claim, Claimed, Level, Scan, Tags, Write};
use clinch_core::protocol::{Event, ProbeAnswer};
use clinch_core::{Domain, OpId, Result};

use super::Recoverer;
use crate::Scanned;

/// Open operations of routes that are not declared here, by domain.
const UNDECLARED: &str = "orchestrator.undeclared";

impl Recoverer {
    /// One pass: counts these operations, and recovers those that no other process has recovered.
    pub(crate) async fn recover_undeclared(&self) -> Result<Scanned> {
        let open = self.count_undeclared().await?;
        if open == 0 {
            return Ok(Scanned::nothing_to_do());
        }
        let mut found = 0;
        for scan in [
            Scan::Unfinalized,
            Scan::LeaseEnded,
            Scan::ProbeDue,
            Scan::Overdue,
        ] {
            found += self.recover_without_route(scan).await?;
        }
        self.count("orchestrator.undeclared.recovered.count", None, found);
        self.log_pass("recovered operations without a route", found);
        Ok(Scanned { found, next: None })
    }

    /// Returns how many are open. Sets the gauge, and logs if there are more than before.
    async fn count_undeclared(&self) -> Result<u64> {
        let mut open: BTreeMap<Domain, u64> = BTreeMap::new();
        for route in self.ports.domains.open_routes().await? {
            if self.routes.find(&route.domain, &route.event_type).is_none() {
                *open.entry(route.domain).or_default() += route.open;
            }
        }
        let before = {
            let mut undeclared = self.concerns.undeclared();
            std::mem::replace(&mut *undeclared, open.clone())
        };
        let gone = before.keys().filter(|domain| !open.contains_key(*domain));
        for (domain, count) in open.iter().chain(gone.map(|domain| (domain, &0))) {
            let labels = [("domain", domain.as_str())];
            self.ports.meter.set(UNDECLARED, &labels, *count as f64);
        }
        let sum = |open: &BTreeMap<Domain, u64>| open.values().sum::<u64>();
        if sum(&open) > sum(&before) {
            let tags = Tags {
                code: Some("undeclared_routes"),
                count: usize::try_from(sum(&open)).ok(),
                ..Tags::default()
            };
            let message = "open operations have no route in this configuration";
            self.log(Level::Warn, message, &tags);
        }
        Ok(sum(&open))
    }

    /// Applies the recovery event of `scan` to rows past the grace period.
    async fn recover_without_route(&self, scan: Scan) -> Result<usize> {
        let claim = Claim {
            lasting: Duration::ZERO,
            among: Among::Others(self.routes.clone()),
            ..self.claim()
        };
        let grace = self.config.undeclared_grace;
        let mut claimed = self.ports.recovery.scan(scan, &claim).await?;
        claimed.retain(|row| row.now.since(row.since) >= grace);
        let ops: Vec<OpId> = claimed.iter().map(Claimed::op_id).collect();
        let writes = claimed.iter().map(|row| match scan {
            Scan::Unfinalized => Write::Finalize(row.op_id()),
            _ => Write::Amend(self.without_route(scan, row)),
        });
        let results = self.commits.change_all(writes.collect()).await;
        let mut changed = 0;
        for (op_id, result) in ops.into_iter().zip(results) {
            if let Ok(Ok(result)) = result {
                changed += 1;
                self.follow(&Tags::of(op_id), &result).await;
            }
        }
        Ok(changed)
    }

    /// The recovery event of a row. A held row's provider cannot be asked, so its probe is
    /// `Unknown`.
    fn without_route(&self, scan: Scan, row: &Claimed) -> Amendment {
        let event = match scan {
            Scan::Unfinalized => Event::Finalize,
            Scan::LeaseEnded => Event::AttemptLost,
            Scan::Overdue => Event::DeadlinePassed,
            Scan::ProbeDue => Event::Probed {
                fence: row.fence,
                asked_at: row.now,
                answer: ProbeAnswer::Unknown,
            },
        };
        Amendment {
            op_id: row.op_id(),
            event,
            ok: None,
            checkpoint: None,
            by: self.config.worker.clone(),
            attempt_id: None,
            reason: "its route is not declared".to_owned(),
        }
    }
}
