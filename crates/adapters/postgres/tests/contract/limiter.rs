//! Rates and pauses on PostgreSQL, by the rules of the port (COL-8).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{LimiterControl, LimiterSubject, limiter_trials, port_factory};
use clinch_core::ports::RateLimiter;
use clinch_postgres::{PostgresLimits, Rate};
use clinch_protect::RateConfig;
use libtest_mimic::Trial;

use crate::database::{Database, advance};

struct Hands {
    admin: tokio_postgres::Client,
    database: Arc<Database>,
}

#[async_trait]
impl LimiterControl for Hands {
    async fn node(
        &self,
        destination: &str,
        rate: Option<&RateConfig>,
    ) -> clinch_core::Result<Arc<dyn RateLimiter>> {
        let rate = rate.map(|rate| Rate {
            permits: rate.permits,
            per: rate.per,
            burst: rate.burst.unwrap_or(rate.permits),
            wait_max: rate.wait_max,
        });
        let limits = PostgresLimits::on(&self.database.store().await).await?;
        Ok(Arc::new(limits.limiter(destination, rate).await?))
    }

    async fn advance(&self, by: Duration) {
        advance(&self.admin, by).await;
    }
}

async fn fresh() -> Result<LimiterSubject, String> {
    let database = Database::with_still_clock().await?;
    let admin = database.client().await;
    Ok(Arc::new(Hands { admin, database }))
}

pub(crate) fn trials() -> Vec<Trial> {
    limiter_trials("postgres", &port_factory(fresh))
}
