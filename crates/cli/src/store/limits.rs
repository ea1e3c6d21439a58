//! Limits that every node on one server shares.

use std::sync::Arc;

use async_trait::async_trait;
use clinch::core::ports::RateLimiter;
use clinch::protect::RateConfig;
use clinch_postgres::{Postgres, PostgresLimits};
use clinch_redis::{Redis, RedisLimiter};
use clinch_server::Limits;
use tokio::sync::OnceCell;

/// Nodes with the same `bus.prefix` share them.
pub(super) struct OnRedis(pub(super) Redis);

#[async_trait]
impl Limits for OnRedis {
    async fn limiter(
        &self,
        destination: &str,
        rate: Option<&RateConfig>,
    ) -> clinch::Result<Arc<dyn RateLimiter>> {
        let rate = rate.map(|rate| clinch_redis::Rate {
            permits: rate.permits,
            per: rate.per,
            burst: rate.burst.unwrap_or(rate.permits),
            wait_max: rate.wait_max,
        });
        let limiter = RedisLimiter::on(&self.0, destination, rate).await?;
        Ok(Arc::new(limiter))
    }
}

/// Nodes on the same database share them.
pub(super) struct OnPostgres {
    store: Postgres,
    /// Made when the first destination asks: commands that make no calls need no connection
    /// that listens.
    limits: OnceCell<PostgresLimits>,
}

impl OnPostgres {
    pub(super) fn new(store: Postgres) -> Self {
        Self {
            store,
            limits: OnceCell::new(),
        }
    }
}

#[async_trait]
impl Limits for OnPostgres {
    async fn limiter(
        &self,
        destination: &str,
        rate: Option<&RateConfig>,
    ) -> clinch::Result<Arc<dyn RateLimiter>> {
        let limits = self
            .limits
            .get_or_try_init(|| PostgresLimits::on(&self.store));
        let rate = rate.map(|rate| clinch_postgres::Rate {
            permits: rate.permits,
            per: rate.per,
            burst: rate.burst.unwrap_or(rate.permits),
            wait_max: rate.wait_max,
        });
        Ok(Arc::new(limits.await?.limiter(destination, rate).await?))
    }
}
