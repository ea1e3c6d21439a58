//! Which store it is, whatever its address is called.

use std::sync::Arc;

use clinch::core::ports::{Clock, Expected, RecordWrite, Records, STORE_RECORD};
use clinch_mysql::Mysql;
use clinch_postgres::Postgres;
use clinch_server::StoreIdentity;
use clinch_sqlite::{Settings, Sqlite};
use clinch_system::SystemClock;

use super::{Opened, Place};
use crate::error::CliError;

impl Place {
    /// What kind of store it is.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
            Self::Mysql(_) => "mysql",
        }
    }

    /// Its address, never with a password.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite://{}", path.display()),
            other => other.shown(),
        }
    }

    /// Its id, read without changing anything; `None`: no server has worked on it yet, or it
    /// is memory, whose id only its own process knows.
    pub(crate) async fn id(&self) -> Result<Option<String>, CliError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        match self {
            Self::Memory => Ok(None),
            Self::Sqlite(path) => {
                let id = Sqlite::peek_record(path, &Settings::default(), STORE_RECORD)?;
                Ok(id)
            }
            Self::Postgres(server) => {
                let store = Postgres::connect(&server.url, server.postgres(), clock).await?;
                Ok(read(&store).await?)
            }
            Self::Mysql(server) => {
                let store = Mysql::connect(&server.url, server.mysql(), clock).await?;
                Ok(read(&store).await?)
            }
        }
    }
}

impl Opened {
    /// Its id; it is given one if it has none. Of several processes that do so at once one
    /// succeeds, and the others find what it wrote.
    pub(crate) async fn identity(&self, place: &Place) -> Result<StoreIdentity, CliError> {
        let write = RecordWrite {
            key: STORE_RECORD.to_owned(),
            expected: Expected::Absent,
            body: Some(uuid::Uuid::now_v7().to_string()),
        };
        if read(&*self.records).await?.is_none() {
            self.records.write_records(&[write]).await?;
        }
        let missing = || CliError::failed("the store does not keep its id; look at its log");
        let id = read(&*self.records).await?.ok_or_else(missing)?;
        let kind = place.kind();
        Ok(StoreIdentity { id, kind })
    }
}

async fn read(records: &dyn Records) -> clinch::Result<Option<String>> {
    let found = records.read_records(&[STORE_RECORD.to_owned()]).await?;
    let first = found.into_iter().next().flatten();
    Ok(first.map(|record| record.body))
}
