//! A store of a test's own, in a database that nobody else uses, whose time the test moves.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clinch_contract::StorePorts;
use clinch_core::ports::{Batches, Domains, Ids, Inspect, Notices, Outbox, Recovery, Store};
use clinch_memory::ManualClock;
use clinch_mysql::Mysql;
use clinch_postgres::Postgres;
use clinch_system::SystemIds;
use clinch_testbed::{Kind, shared};
use mysql_async::prelude::Queryable as _;
use tokio_postgres::{Client, NoTls};

/// From here time goes by the test.
const STILL: &str = "CREATE TABLE clinch_test_clock (at bigint NOT NULL); \
    INSERT INTO clinch_test_clock VALUES (1800000000000); \
    CREATE OR REPLACE FUNCTION clinch_now() RETURNS bigint LANGUAGE sql VOLATILE \
    AS 'SELECT at FROM clinch_test_clock'";

pub(crate) enum Rows {
    Postgres {
        store: Postgres,
        database: String,
        admin: Client,
    },
    Mysql {
        store: Mysql,
        database: String,
        /// A new instance starts from the server's own time.
        ahead: Arc<Mutex<Duration>>,
    },
}

impl Rows {
    pub(crate) async fn fresh(kind: Kind, clock: Arc<ManualClock>) -> Result<Self, String> {
        let server = shared(kind).map_err(|trouble| trouble.to_string())?;
        let name = format!("pairs_{}", SystemIds.attempt_id().0.simple());
        let (base, _) = server
            .rsplit_once('/')
            .ok_or("an address without database")?;
        let database = format!("{base}/{name}");
        let make = format!("CREATE DATABASE {name}");
        match kind {
            Kind::Postgres => {
                run(&client(&server).await?, &make).await?;
                let migrated = clinch_postgres::migrate(&database).await;
                migrated.map_err(|error| error.to_string())?;
                run(&client(&database).await?, STILL).await?;
                Self::postgres(database, clock).await
            }
            Kind::MariaDb => {
                let said = |error: mysql_async::Error| error.to_string();
                let conn = mysql_async::Conn::from_url(&server).await;
                let mut conn = conn.map_err(said)?;
                conn.query_drop(make).await.map_err(said)?;
                let migrated = clinch_mysql::migrate(&database).await;
                migrated.map_err(|error| error.to_string())?;
                Self::mysql(database, clock, Arc::default()).await
            }
            other => Err(format!("{other} is no store")),
        }
    }

    async fn postgres(database: String, clock: Arc<ManualClock>) -> Result<Self, String> {
        let settings = clinch_postgres::Settings::default();
        let store = Postgres::connect(&database, settings, clock).await;
        Ok(Self::Postgres {
            store: store.map_err(|error| error.to_string())?,
            admin: client(&database).await?,
            database,
        })
    }

    async fn mysql(
        database: String,
        clock: Arc<ManualClock>,
        ahead: Arc<Mutex<Duration>>,
    ) -> Result<Self, String> {
        let settings = clinch_mysql::Settings {
            pool_size: 20,
            ..clinch_mysql::Settings::default()
        };
        let store = Mysql::connect(&database, settings, clock).await;
        let store = store.map_err(|error| error.to_string())?;
        store.advance(*ahead.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Self::Mysql {
            store,
            database,
            ahead,
        })
    }

    /// Another instance on what was committed, as after the death of the process.
    pub(crate) async fn again(&self, clock: Arc<ManualClock>) -> Result<Self, String> {
        match self {
            Self::Postgres {
                database, admin, ..
            } => {
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE datname = current_database() AND pid <> pg_backend_pid()";
                run(admin, end).await?;
                Self::postgres(database.clone(), clock).await
            }
            Self::Mysql {
                database, ahead, ..
            } => Self::mysql(database.clone(), clock, ahead.clone()).await,
        }
    }

    pub(crate) async fn advance(&self, by: Duration) {
        match self {
            Self::Postgres { admin, .. } => {
                let by = i64::try_from(by.as_millis()).expect("a moment");
                let text = "UPDATE clinch_test_clock SET at = at + $1";
                admin.execute(text, &[&by]).await.expect("the clock moves");
            }
            Self::Mysql { store, ahead, .. } => {
                *ahead.lock().unwrap_or_else(PoisonError::into_inner) += by;
                store.advance(by);
            }
        }
    }

    pub(crate) fn ports(&self) -> StorePorts {
        match self {
            Self::Postgres { store, .. } => ports(Arc::new(store.clone())),
            Self::Mysql { store, .. } => ports(Arc::new(store.clone())),
        }
    }
}

fn ports<S>(store: Arc<S>) -> StorePorts
where
    S: Store + Outbox + Recovery + Batches + Domains + Inspect + Notices + 'static,
{
    StorePorts {
        store: store.clone(),
        outbox: store.clone(),
        recovery: store.clone(),
        batches: store.clone(),
        domains: store.clone(),
        inspect: store.clone(),
        notices: store,
    }
}

async fn client(url: &str) -> Result<Client, String> {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    Ok(client)
}

async fn run(client: &Client, text: &str) -> Result<(), String> {
    let ran = client.batch_execute(text).await;
    ran.map_err(|error| error.to_string())
}
