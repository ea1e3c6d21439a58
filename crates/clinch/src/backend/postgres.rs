//! `postgres://HOST/DATABASE`

use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::RateLimiter;
use clinch_postgres::{Postgres, PostgresLimits, PostgresQuota, Rate, Settings};
use clinch_protect::RateConfig;
use clinch_system::SystemClock;
use tokio::sync::OnceCell;

use super::adapter::Adapter;
use super::opened::{SqlAccept, read_id};
use super::{Limits, Opened, Options, Schema, ServerUrl, Step};

/// A database on a PostgreSQL server.
pub(super) struct Database<'a>(pub(super) &'a ServerUrl);

impl Database<'_> {
    /// The address that bypasses a pooler.
    fn direct<'a>(&'a self, options: &'a Options) -> &'a str {
        options.listen_url.as_ref().unwrap_or(self.0).secret()
    }

    async fn connect(&self, options: &Options) -> Result<Postgres> {
        let listen_url = options.listen_url.as_ref();
        let settings = Settings {
            listen_url: listen_url.map(|url| url.secret().to_owned()),
            fallback_poll: options.fallback_poll,
            through_pgbouncer: listen_url.is_some(),
            ..Settings::within(options.timeout)
        };
        Postgres::connect(self.0.secret(), settings, Arc::new(SystemClock::new())).await
    }
}

#[async_trait]
impl Adapter for Database<'_> {
    async fn open(&self, options: &Options) -> Result<Opened> {
        let direct = self.direct(options);
        if !clinch_postgres::pending(direct).await?.is_empty() {
            clinch_postgres::migrate(direct).await?;
        }
        let postgres = self.connect(options).await?;
        let mut opened = Opened::new(postgres.clone(), "postgres");
        opened.limits = Some(Arc::new(SharedLimits::new(postgres.clone())));
        opened.backend.sql_accept = Some(Arc::new(postgres.clone()));
        opened.quota = Arc::new(move |rules, _| Arc::new(PostgresQuota::on(&postgres, rules)));
        Ok(opened)
    }

    async fn schema(&self, options: &Options) -> Result<Schema> {
        let pending = clinch_postgres::pending(self.direct(options)).await?;
        let steps = pending.iter().map(|one| Step {
            number: usize::try_from(one.version).unwrap_or(0),
            name: one.name,
            sql: one.sql,
        });
        let known = clinch_postgres::MIGRATIONS.len();
        Ok(Schema::on_server(known, steps.collect()))
    }

    async fn migrate(&self, options: &Options) -> Result<Schema> {
        let before = self.schema(options).await?;
        clinch_postgres::migrate(self.direct(options)).await?;
        Ok(before)
    }

    async fn id(&self, options: &Options) -> Result<Option<String>> {
        read_id(&self.connect(options).await?).await
    }
}

#[async_trait]
impl SqlAccept for Postgres {
    async fn set_payload_max(&self, bytes: usize) -> Result<()> {
        Postgres::set_payload_max(self, bytes).await
    }

    async fn refuse(&self) -> Result<()> {
        self.set_sealed(true).await
    }
}

/// Limits of the nodes on the same database.
struct SharedLimits {
    store: Postgres,
    /// Connected when the first destination asks: programs that make no calls need no further
    /// connection that listens.
    limits: OnceCell<PostgresLimits>,
}

impl SharedLimits {
    fn new(store: Postgres) -> Self {
        Self {
            store,
            limits: OnceCell::new(),
        }
    }
}

#[async_trait]
impl Limits for SharedLimits {
    async fn limiter(
        &self,
        destination: &str,
        rate: Option<&RateConfig>,
    ) -> Result<Arc<dyn RateLimiter>> {
        let limits = self
            .limits
            .get_or_try_init(|| PostgresLimits::on(&self.store));
        let rate = rate.map(|rate| Rate {
            permits: rate.permits,
            per: rate.per,
            burst: rate.burst.unwrap_or(rate.permits),
            wait_max: rate.wait_max,
        });
        Ok(Arc::new(limits.await?.limiter(destination, rate).await?))
    }
}
