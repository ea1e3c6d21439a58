//! Budgets in memory pass the area `quota::` (COL-8).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{QuotaControl, QuotaSubject, port_factory, quota_trials};
use clinch_core::Timestamp;
use clinch_core::policy::QuotaRules;
use clinch_core::ports::Clock;
use clinch_memory::{ManualClock, MemoryQuota};
use libtest_mimic::Trial;

struct Hands(Arc<ManualClock>);

#[async_trait]
impl QuotaControl for Hands {
    async fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
}

async fn fresh() -> Result<QuotaSubject, String> {
    let clock = Arc::new(ManualClock::default());
    Ok(QuotaSubject {
        quota: Arc::new(MemoryQuota::new(clock.clone(), QuotaRules::default())),
        control: Arc::new(Hands(clock)),
    })
}

pub(crate) fn trials() -> Vec<Trial> {
    quota_trials("memory", &port_factory(fresh))
}
