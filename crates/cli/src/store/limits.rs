//! Limits that every node on one Redis server shares.

use std::sync::Arc;

use async_trait::async_trait;
use clinch::core::ports::RateLimiter;
use clinch::protect::RateConfig;
use clinch_redis::{Rate, Redis, RedisLimiter};
use clinch_server::Limits;

/// Nodes with the same `bus.prefix` share them.
pub(super) struct OnRedis(pub(super) Redis);

#[async_trait]
impl Limits for OnRedis {
    async fn limiter(
        &self,
        destination: &str,
        rate: Option<&RateConfig>,
    ) -> clinch::Result<Arc<dyn RateLimiter>> {
        let rate = rate.map(|rate| Rate {
            permits: rate.permits,
            per: rate.per,
            burst: rate.burst.unwrap_or(rate.permits),
            wait_max: rate.wait_max,
        });
        let limiter = RedisLimiter::on(&self.0, destination, rate).await?;
        Ok(Arc::new(limiter))
    }
}
