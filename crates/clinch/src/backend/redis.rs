//! `redis://HOST`

use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::RateLimiter;
use clinch_protect::RateConfig;
use clinch_redis::{Rate, Redis, RedisBus, RedisLimiter, RedisQuota, Settings};

use super::opened::at_address;
use super::{BusUrl, Limits, Opened, Options, ServerUrl};

/// Hints that were taken over by XAUTOCLAIM.
const RECOVERED: &str = "orchestrator.bus.recovered.count";
/// How often the scheduler of delayed hints slept, and for how many milliseconds in all.
const SLEEPS: &str = "orchestrator.scheduler.sleep.count";
const SLEPT: &str = "orchestrator.scheduler.slept.ms.count";

impl BusUrl {
    /// Connects to the server if the bus is Redis, for example to check how it is set up.
    ///
    /// ```no_run
    /// use clinch::backend::{BusUrl, Options};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> clinch::Result<()> {
    /// let bus: BusUrl = "redis://cache:6379".parse()?;
    /// if let Some(redis) = bus.redis(&Options::default()).await? {
    ///     println!("{} hints of lost workers were taken over", redis.recovered());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn redis(&self, options: &Options) -> Result<Option<Redis>> {
        match self {
            Self::Redis(url) => {
                let connected = server(url, options).await;
                connected.map(Some).map_err(|error| at_address(error, url))
            }
            Self::Store | Self::Nats(_) => Ok(None),
        }
    }
}

pub(super) async fn connect(url: &ServerUrl, opened: Opened, options: &Options) -> Result<Opened> {
    let redis = server(url, options).await?;
    redis.watch_leader(Box::new(|is_leading| match is_leading {
        true => tracing::info!(target: "clinch", "scheduler leader gained"),
        false => tracing::warn!(target: "clinch", "scheduler leader lost"),
    }));
    let backend = opened.backend.with_bus(Arc::new(RedisBus::on(&redis)?));
    let (of_bus, sleeps, slept) = (redis.clone(), redis.clone(), redis.clone());
    let backend = backend
        .counted(RECOVERED, move || of_bus.recovered())
        .counted(SLEEPS, move || sleeps.scheduler_sleeps())
        .counted(SLEPT, move || slept.scheduler_slept_ms());
    Ok(Opened {
        backend,
        limits: Some(Arc::new(SharedLimits(redis.clone()))),
        quota: Arc::new(move |rules, _| Arc::new(RedisQuota::on(&redis, rules))),
        ..opened
    })
}

async fn server(url: &ServerUrl, options: &Options) -> Result<Redis> {
    let settings = Settings {
        visibility: clinch_engine::HINT_VISIBILITY,
        ..Settings::with_prefix(&options.bus_prefix)
    };
    Redis::connect(url.secret(), settings).await
}

/// Limits of the nodes with the same prefix.
struct SharedLimits(Redis);

#[async_trait]
impl Limits for SharedLimits {
    async fn limiter(
        &self,
        destination: &str,
        rate: Option<&RateConfig>,
    ) -> Result<Arc<dyn RateLimiter>> {
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
