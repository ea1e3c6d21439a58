//! What carries hints.

use std::sync::Arc;

use clinch::core::ports::Bus;
use clinch_nats::NatsBus;
use clinch_redis::{Redis, RedisBus};
use clinch_server::{Config, Limits};
use clinch_system::SystemClock;

use super::limits::OnRedis;
use super::server::shown;
use crate::error::CliError;

/// How workers learn of work.
#[derive(Clone)]
pub(crate) enum Line {
    /// From the store itself.
    Store,
    /// From a Redis server.
    Redis(String, clinch_redis::Settings),
    /// From a NATS server.
    Nats(String, clinch_nats::Settings),
}

/// A server that carries hints.
pub(crate) struct Connected {
    pub(crate) bus: Arc<dyn Bus>,
    /// Limits that its nodes share, where it can keep them.
    pub(crate) limits: Option<Arc<dyn Limits>>,
    /// The connection, where it is Redis.
    pub(crate) redis: Option<Redis>,
}

impl Line {
    /// Reads `[bus]`.
    pub(crate) fn configured(config: &Config) -> Result<Self, CliError> {
        let url = config.bus.url.as_str();
        let visibility = config.worker.lease.0;
        match url.split_once("://").map_or(url, |(scheme, _)| scheme) {
            "store" => Ok(Self::Store),
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" => {
                let settings = clinch_redis::Settings {
                    visibility,
                    ..clinch_redis::Settings::with_prefix(&config.bus.prefix)
                };
                Ok(Self::Redis(url.to_owned(), settings))
            }
            "nats" | "tls" => {
                let settings = clinch_nats::Settings {
                    visibility,
                    ..clinch_nats::Settings::new(&config.bus.prefix)
                };
                Ok(Self::Nats(url.to_owned(), settings))
            }
            scheme => {
                // The address may hold a password.
                let scheme = scheme.split(':').next().unwrap_or_default();
                let message = format!(
                    "bus.url names a {scheme:?} bus; there are \"store\", redis://HOST and \
                     nats://HOST"
                );
                Err(CliError::usage(message))
            }
        }
    }

    /// What it is called in answers; never with a password.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Store => "store".to_owned(),
            Self::Redis(url, _) | Self::Nats(url, _) => shown(url),
        }
    }

    /// Connects; `None`: the store is its own bus.
    pub(crate) async fn connect(&self) -> Result<Option<Connected>, CliError> {
        if let Some(redis) = self.redis().await? {
            return Ok(Some(Connected {
                bus: Arc::new(RedisBus::on(&redis)?),
                limits: Some(Arc::new(OnRedis(redis.clone()))),
                redis: Some(redis),
            }));
        }
        let nats = self.nats().await?;
        Ok(nats.map(|bus| Connected {
            bus: Arc::new(bus),
            limits: None,
            redis: None,
        }))
    }

    /// The connection, where it is Redis.
    pub(crate) async fn redis(&self) -> Result<Option<Redis>, CliError> {
        match self {
            Self::Redis(url, settings) => Ok(Some(Redis::connect(url, settings.clone()).await?)),
            Self::Store | Self::Nats(..) => Ok(None),
        }
    }

    /// The connection, where it is NATS.
    pub(crate) async fn nats(&self) -> Result<Option<NatsBus>, CliError> {
        match self {
            Self::Nats(url, settings) => {
                let clock = Arc::new(SystemClock::new());
                Ok(Some(NatsBus::connect(url, settings.clone(), clock).await?))
            }
            Self::Store | Self::Redis(..) => Ok(None),
        }
    }
}
