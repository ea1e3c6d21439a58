//! Announces due rows, and announces silent rows again. A failing bus delays operations and raises
//! an alert; it never ends an operation.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::{EventTypes, Routes, Rules};
use clinch_core::ports::{Among, Bus, Claim, Claimed, Hint, Publication, Silence, Topic};
use clinch_core::{Domain, Result};

use super::Relay;
use crate::Scanned;
use crate::ports::Dispatch;

/// The resolution of the stores' clocks.
const MILLISECOND: Duration = Duration::from_millis(1);

impl Relay {
    /// Announces due rows.
    pub(crate) async fn relay(&self) -> Result<Scanned> {
        let Dispatch::Hints(bus) = &self.ports.dispatch else {
            return Ok(Scanned::nothing_to_do());
        };
        let claimed = self.ports.outbox.claim(&self.claim()).await?;
        let topic = |hint: &Hint| self.handlers.topic(&hint.domain, &hint.event_type);
        let found = self.announce(bus.as_ref(), claimed, topic).await?;
        let next = self.ports.outbox.next_due(None).await?;
        Ok(Scanned { found, next })
    }

    /// Announces silent rows again: announced, due, and not begun since.
    pub(crate) async fn sweep(&self) -> Result<Scanned> {
        let Dispatch::Hints(bus) = &self.ports.dispatch else {
            return Ok(Scanned::nothing_to_do());
        };
        let silence = Silence {
            grace: self.config.sweep_grace,
            pause_max: self.config.sweep_pause_max,
        };
        let outbox = &self.ports.outbox;
        let claimed = outbox.claim_silent(&self.claim(), &silence).await?;
        // On the domain-wide topic: the topic of the first announcement may have no reader.
        let topic = |hint: &Hint| Topic::of(&hint.domain);
        let found = self.announce(bus.as_ref(), claimed, topic).await?;
        let next = Some(self.config.sweep_grace);
        Ok(Scanned { found, next })
    }

    /// Announces again every row of the domain that was announced before this call.
    pub(crate) async fn announce_resumed(&self, domain: &Domain) -> Result<()> {
        let Dispatch::Hints(bus) = &self.ports.dispatch else {
            return Ok(());
        };
        let resumed_at = self.ports.clock.monotonic();
        // Every event type of the domain, also those that this process does not declare.
        let any = Routes::new().with(domain.clone(), EventTypes::Any, Rules::default());
        let claim = Claim {
            among: Among::Routes(Arc::new(any)),
            ..self.claim()
        };
        while !self.is_stopping() {
            // The grace grows with this loop, so that rows which the loop itself announced do not
            // count as silent.
            let passed = self.ports.clock.monotonic().saturating_sub(resumed_at);
            let silence = Silence {
                grace: passed + MILLISECOND,
                pause_max: passed + MILLISECOND,
            };
            let outbox = &self.ports.outbox;
            let claimed = outbox.claim_silent(&claim, &silence).await?;
            let topic = |hint: &Hint| self.handlers.topic(&hint.domain, &hint.event_type);
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
            // If this fails too, the claims expire.
            let _ = self.ports.outbox.release(&claimed).await;
            return Err(error);
        }
        self.set_bus_down(false);
        self.ports.outbox.published(&claimed).await?;
        self.count("orchestrator.relay.published.count", None, claimed.len());
        Ok(claimed.len())
    }
}
