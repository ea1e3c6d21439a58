//! Announces due rows, and silent ones again. Trouble with the bus delays and alerts; it
//! never ends an operation.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::{EventTypes, Routes, Rules};
use clinch_core::ports::{Among, Bus, Claim, Claimed, Hint, Publication, Silence, Topic};
use clinch_core::{Domain, Result};

use crate::Orchestrator;
use crate::node::{Dispatch, Node};
use crate::recover::Scanned;

/// Clocks of stores count in these.
const MILLISECOND: Duration = Duration::from_millis(1);

impl Orchestrator {
    /// Pauses or resumes a domain.
    ///
    /// - While it is paused no attempt begins; running ones settle.
    /// - What was announced on a bus before or while it was paused is announced again at once
    ///   when it is resumed: workers dropped those hints.
    pub async fn set_paused(&self, domain: &Domain, paused: bool) -> Result<()> {
        self.node.ports.domains.set_paused(domain, paused).await?;
        if !paused {
            let (node, domain) = (self.node.clone(), domain.clone());
            let announce = async move {
                // If it fails, the sweeper announces them after its grace.
                let _ = node.announce_resumed(&domain).await;
            };
            self.node.ports.spawner.spawn(Box::pin(announce));
        }
        Ok(())
    }
}

impl Node {
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            by: self.config.worker.clone(),
            lasting: self.config.claim,
            max: self.config.batch,
            among: Among::All,
        }
    }

    /// For recovery scans: of what this process knows the rules of.
    pub(crate) fn brief_claim(&self) -> Claim {
        Claim {
            lasting: self.config.recovery_claim,
            among: Among::Routes(self.routes.clone()),
            ..self.claim()
        }
    }

    /// Announces what is due.
    pub(crate) async fn relay(&self) -> Result<Scanned> {
        let Dispatch::Hints(bus) = &self.ports.dispatch else {
            return Ok(Scanned::nothing_to_do());
        };
        let claimed = self.ports.outbox.claim(&self.claim()).await?;
        let topic = |hint: &Hint| self.topic_of(hint);
        let found = self.announce(bus.as_ref(), claimed, topic).await?;
        let next = self.ports.outbox.next_due(None).await?;
        Ok(Scanned { found, next })
    }

    /// Announces again what was announced and stayed silent.
    pub(crate) async fn sweep(&self) -> Result<Scanned> {
        let Dispatch::Hints(bus) = &self.ports.dispatch else {
            return Ok(Scanned::nothing_to_do());
        };
        if planted!(SweeperSleeps) {
            return Ok(Scanned::nothing_to_do());
        }
        let silence = Silence {
            grace: self.config.sweep_grace,
            pause_max: self.config.sweep_pause_max,
        };
        let outbox = &self.ports.outbox;
        let claimed = outbox.claim_silent(&self.claim(), &silence).await?;
        // To everybody: perhaps nobody reads where it was announced at first.
        let topic = |hint: &Hint| Topic::of(&hint.domain);
        let found = self.announce(bus.as_ref(), claimed, topic).await?;
        let next = Some(self.config.sweep_grace);
        Ok(Scanned { found, next })
    }

    /// Announces again whatever of a domain was announced before now.
    async fn announce_resumed(&self, domain: &Domain) -> Result<()> {
        let Dispatch::Hints(bus) = &self.ports.dispatch else {
            return Ok(());
        };
        let resumed_at = self.ports.clock.monotonic();
        // Every event type of the domain, whatever this process declares.
        let any = Routes::new().with(domain.clone(), EventTypes::Any, Rules::default());
        let claim = Claim {
            among: Among::Routes(Arc::new(any)),
            ..self.claim()
        };
        while !self.is_stopping() {
            // Silent since before that moment: what this loop announces itself is not.
            let passed = self.ports.clock.monotonic().saturating_sub(resumed_at);
            let silence = Silence {
                grace: passed + MILLISECOND,
                pause_max: passed + MILLISECOND,
            };
            let outbox = &self.ports.outbox;
            let claimed = outbox.claim_silent(&claim, &silence).await?;
            let topic = |hint: &Hint| self.topic_of(hint);
            if self.announce(bus.as_ref(), claimed, topic).await? < claim.max {
                break;
            }
        }
        Ok(())
    }

    async fn announce(
        &self,
        bus: &dyn Bus,
        claimed: Vec<Claimed>,
        topic: impl Fn(&Hint) -> Topic,
    ) -> Result<usize> {
        if claimed.is_empty() {
            return Ok(0);
        }
        let publication = |claimed: &Claimed| Publication {
            topic: topic(&claimed.hint),
            hint: claimed.hint.clone(),
            delay: Duration::ZERO,
        };
        let publications: Vec<_> = claimed.iter().map(publication).collect();
        if let Err(error) = bus.publish(&publications).await {
            if self.set_bus_down(true) {
                self.alert("bus_down", "the bus takes no hints; operations wait", None)
                    .await;
            }
            // If this fails too, the claims run out.
            let _ = self.ports.outbox.release(&claimed).await;
            return Err(error);
        }
        self.set_bus_down(false);
        self.ports.outbox.published(&claimed).await?;
        self.count("orchestrator.relay.published.count", None, claimed.len());
        Ok(claimed.len())
    }
}
