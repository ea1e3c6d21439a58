//! `sqlite://FILE`

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::STORE_RECORD;
use clinch_sqlite::{Settings, Sqlite, Version};
use clinch_system::SystemClock;

use super::adapter::Adapter;
use super::{Opened, Options, Schema, Step, StoreFiles};

/// A database file.
pub(super) struct File<'a>(pub(super) &'a Path);

#[async_trait]
impl Adapter for File<'_> {
    async fn open(&self, options: &Options) -> Result<Opened> {
        let sqlite = Sqlite::open(self.0, settings(options), Arc::new(SystemClock::new()))?;
        let mut opened = Opened::new(sqlite.clone(), "sqlite").with_shared_quota();
        opened.files = Some(Arc::new(sqlite));
        Ok(opened)
    }

    async fn schema(&self, options: &Options) -> Result<Schema> {
        Ok(Sqlite::schema(self.0, &settings(options))?.into())
    }

    async fn migrate(&self, options: &Options) -> Result<Schema> {
        Ok(Sqlite::migrate(self.0, &settings(options))?.into())
    }

    async fn id(&self, options: &Options) -> Result<Option<String>> {
        Sqlite::peek_record(self.0, &settings(options), STORE_RECORD)
    }
}

fn settings(options: &Options) -> Settings {
    Settings {
        busy_timeout: options.busy_timeout,
        accept_data_loss: options.accept_data_loss,
        ..Settings::default()
    }
}

impl StoreFiles for Sqlite {
    fn check(&self) -> Result<()> {
        Sqlite::check(self)
    }

    fn close(&self) -> Result<()> {
        Sqlite::close(self)
    }
}

impl From<clinch_sqlite::Schema> for Schema {
    fn from(schema: clinch_sqlite::Schema) -> Self {
        let step = |version: &Version| Step {
            number: version.number,
            name: version.name,
            sql: version.sql,
        };
        Self {
            version: schema.version,
            known: schema.known,
            pending: schema.pending.iter().map(step).collect(),
        }
    }
}
