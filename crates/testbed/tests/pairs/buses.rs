//! A bus of a test's own, under a prefix that nobody else uses.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Bus, Ids};
use clinch_memory::ManualClock;
use clinch_nats::NatsBus;
use clinch_redis::RedisBus;
use clinch_system::SystemIds;
use clinch_testbed::{Kind, shared};

#[derive(Clone)]
pub(crate) enum Line {
    Redis(RedisBus),
    /// Goes by the clock of the test.
    Nats(Arc<NatsBus>),
}

impl Line {
    pub(crate) async fn fresh(kind: Kind, clock: Arc<ManualClock>) -> Result<Self, String> {
        let url = shared(kind).map_err(|trouble| trouble.to_string())?;
        let said = |error: clinch_core::Error| error.to_string();
        let prefix = format!("pairs-{}", SystemIds.attempt_id().0.simple());
        match kind {
            Kind::Redis => {
                let settings = clinch_redis::Settings::with_prefix(prefix);
                let bus = RedisBus::connect(&url, settings).await.map_err(said)?;
                Ok(Self::Redis(bus))
            }
            Kind::Nats => {
                let settings = clinch_nats::Settings::new(prefix);
                let bus = NatsBus::connect(&url, settings, clock).await;
                Ok(Self::Nats(Arc::new(bus.map_err(said)?)))
            }
            other => Err(format!("{other} is no bus")),
        }
    }

    pub(crate) fn bus(&self) -> Arc<dyn Bus> {
        match self {
            Self::Redis(bus) => Arc::new(bus.clone()),
            Self::Nats(bus) => bus.clone(),
        }
    }

    pub(crate) async fn advance(&self, by: Duration) {
        if let Self::Redis(bus) = self {
            bus.advance(by).await.expect("the server is there");
        }
    }
}
