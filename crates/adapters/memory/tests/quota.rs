//! Budgets in memory pass the area `quota::` (COL-8).
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{QuotaControl, QuotaSubject, run_quota};
use clinch_core::Timestamp;
use clinch_core::policy::QuotaRules;
use clinch_core::ports::Clock;
use clinch_memory::{ManualClock, MemoryQuota};

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

fn main() -> ExitCode {
    let fresh = || {
        let clock = Arc::new(ManualClock::default());
        QuotaSubject {
            quota: Arc::new(MemoryQuota::new(clock.clone(), QuotaRules::default())),
            control: Arc::new(Hands(clock)),
        }
    };
    run_quota(
        "memory",
        Arc::new(move || {
            let subject = fresh();
            Box::pin(async move { Ok(subject) })
        }),
    )
}
