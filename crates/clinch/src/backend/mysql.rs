//! `mysql://HOST/DATABASE`

use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_mysql::{Mysql, Settings};
use clinch_system::SystemClock;

use super::adapter::Adapter;
use super::opened::{SqlAccept, read_id};
use super::{Opened, Options, Schema, ServerUrl, Step};

/// Counts transactions that the server ended for a deadlock and that ran again.
const DEADLOCK_RETRIES: &str = "orchestrator.store.deadlock.retry.count";

/// A database on a MySQL or MariaDB server.
pub(super) struct Database<'a>(pub(super) &'a ServerUrl);

impl Database<'_> {
    async fn connect(&self, options: &Options) -> Result<Mysql> {
        let settings = Settings {
            fallback_poll: options.fallback_poll,
            ..Settings::within(options.timeout)
        };
        Mysql::connect(self.0.secret(), settings, Arc::new(SystemClock::new())).await
    }
}

#[async_trait]
impl Adapter for Database<'_> {
    async fn open(&self, options: &Options) -> Result<Opened> {
        let url = self.0.secret();
        if !clinch_mysql::pending(url).await?.is_empty() {
            clinch_mysql::migrate(url).await?;
        }
        let mysql = self.connect(options).await?;
        let mut opened = Opened::new(mysql.clone(), "mysql").with_shared_quota();
        opened.backend.sql_accept = Some(Arc::new(mysql.clone()));
        let retries = move || mysql.deadlock_retries();
        opened.backend = opened.backend.counted(DEADLOCK_RETRIES, retries);
        Ok(opened)
    }

    async fn schema(&self, _options: &Options) -> Result<Schema> {
        let pending = clinch_mysql::pending(self.0.secret()).await?;
        let steps = pending.iter().map(|one| Step {
            number: usize::try_from(one.version).unwrap_or(0),
            name: one.name,
            sql: one.sql,
        });
        let known = clinch_mysql::MIGRATIONS.len();
        Ok(Schema::on_server(known, steps.collect()))
    }

    async fn migrate(&self, options: &Options) -> Result<Schema> {
        let before = self.schema(options).await?;
        clinch_mysql::migrate(self.0.secret()).await?;
        Ok(before)
    }

    async fn id(&self, options: &Options) -> Result<Option<String>> {
        read_id(&self.connect(options).await?).await
    }
}

#[async_trait]
impl SqlAccept for Mysql {
    /// The procedure's limit is fixed.
    async fn set_payload_max(&self, _bytes: usize) -> Result<()> {
        Ok(())
    }

    async fn refuse(&self) -> Result<()> {
        self.set_sealed(true).await
    }
}
