//! The store and the bus that the configuration names. The one place that looks at schemes: a
//! further backend is a [`Place`], and an arm in each `match` below. Those that connect are
//! async; a database server needs it, a file does not.

mod bus;
mod identity;
mod limits;
mod server;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clinch::Backend;
use clinch::core::policy::QuotaRules;
use clinch::core::ports::{
    ApiKeys, Batches, Bus, Clock, DocumentSink, Domains, Inspect, LockManager, Notices, Outbox,
    Quota, Records, Recovery, Store,
};
use clinch_memory::{Memory, MemoryQuota};
use clinch_mysql::Mysql;
use clinch_postgres::{Postgres, PostgresQuota};
use clinch_redis::RedisQuota;
use clinch_server::{Config, Limits};
use clinch_sqlite::{Settings, Sqlite, Version};
use clinch_system::SystemClock;

use crate::error::{CliError, note};

use limits::OnPostgres;

pub(crate) use bus::Line;
pub(crate) use server::Server;

/// Transactions that the database server ended for a deadlock, and that were run again.
const STORE_RETRIES: &str = "orchestrator.store.deadlock.retry.count";

/// Files that this process has opened.
static FILES: Mutex<Vec<Sqlite>> = Mutex::new(Vec::new());

/// Closes them at the end of the process, so that each is whole without its log.
pub(crate) fn close_all() {
    let files = std::mem::take(&mut *FILES.lock().unwrap_or_else(PoisonError::into_inner));
    for file in files {
        if let Err(error) = file.close() {
            note(&format!("{}: {error}", file.path().display()));
        }
    }
}

/// A store, and where its API keys and locks live.
pub(crate) struct Opened {
    pub(crate) backend: Backend,
    pub(crate) keys: Arc<dyn ApiKeys>,
    pub(crate) locks: Arc<dyn LockManager>,
    /// Limits that the nodes share.
    pub(crate) limits: Option<Arc<dyn Limits>>,
    /// What applications know besides their operations.
    pub(crate) records: Arc<dyn Records>,
    /// Where documents of applications go.
    pub(crate) documents: Arc<dyn DocumentSink>,
    /// The store itself, where it is a file.
    pub(crate) sqlite: Option<Sqlite>,
    /// The store itself, where it can keep budgets.
    postgres: Option<Postgres>,
    /// The bus, where it can.
    redis: Option<clinch_redis::Redis>,
}

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this process, and gone with it.
    Memory,
    /// In this file.
    Sqlite(PathBuf),
    /// On a PostgreSQL server.
    Postgres(Server),
    /// On a MySQL or MariaDB server.
    Mysql(Server),
}

/// One step of a schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) number: usize,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// Where a database's schema stands.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    /// Its version; `None`: there is no database yet.
    pub(crate) version: Option<usize>,
    /// The version of this release.
    pub(crate) known: usize,
    /// What is missing, in order.
    pub(crate) pending: Vec<Step>,
}

impl Place {
    /// Reads an address.
    pub(crate) fn of(url: &str) -> Result<Self, CliError> {
        if url == "memory:" {
            return Ok(Self::Memory);
        }
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        match scheme {
            "sqlite" if !rest.is_empty() => Ok(Self::Sqlite(Path::new(rest).to_owned())),
            "postgres" | "postgresql" => Ok(Self::Postgres(Server::new(url))),
            "mysql" | "mariadb" => {
                let url = format!("mysql://{rest}");
                Ok(Self::Mysql(Server::new(&url)))
            }
            _ => {
                // The address may hold a password.
                let scheme = scheme.split(':').next().unwrap_or_default();
                let message = format!(
                    "store.url names a {scheme:?} store; there are sqlite://FILE, \
                     postgres://HOST/DATABASE, mysql://HOST/DATABASE and memory:"
                );
                Err(CliError::usage(message))
            }
        }
    }

    /// Reads `[store]`.
    pub(crate) fn configured(config: &Config) -> Result<Self, CliError> {
        let mut place = Self::of(&config.store.url)?;
        let listen_url = &config.store.listen_url;
        if !listen_url.is_empty() && !matches!(place, Self::Postgres(_)) {
            let message = "store.listen_url is for a postgres:// store; leave it out";
            return Err(CliError::usage(message));
        }
        if let Self::Postgres(server) | Self::Mysql(server) = &mut place {
            server.listen_url = (!listen_url.is_empty()).then(|| listen_url.clone());
            server.fallback_poll = config.store.fallback_poll.0;
            server.timeout = config.store.timeout.0;
        }
        Ok(place)
    }

    /// What it is called in answers; never with a password.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::Sqlite(path) => path.display().to_string(),
            Self::Postgres(server) | Self::Mysql(server) => server.shown(),
        }
    }

    /// Opens it; a database that is missing is made, an old one brought up to date.
    pub(crate) async fn open(&self) -> Result<Opened, CliError> {
        self.open_as(&Settings::default()).await
    }

    /// The same; a file as these settings say.
    pub(crate) async fn open_as(&self, settings: &Settings) -> Result<Opened, CliError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        match self {
            Self::Memory => Ok(Opened::new(Memory::new(clock))),
            Self::Sqlite(path) => {
                let sqlite = Sqlite::open(path, settings.clone(), clock)?;
                let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
                files.push(sqlite.clone());
                let mut opened = Opened::new(sqlite.clone());
                opened.sqlite = Some(sqlite);
                Ok(opened)
            }
            Self::Postgres(server) => {
                if !clinch_postgres::pending(server.direct()).await?.is_empty() {
                    clinch_postgres::migrate(server.direct()).await?;
                }
                let settings = server.postgres();
                let postgres = Postgres::connect(&server.url, settings, clock).await?;
                let mut opened = Opened::new(postgres.clone());
                opened.limits = Some(Arc::new(OnPostgres::new(postgres.clone())));
                opened.postgres = Some(postgres);
                Ok(opened)
            }
            Self::Mysql(server) => {
                if !clinch_mysql::pending(&server.url).await?.is_empty() {
                    clinch_mysql::migrate(&server.url).await?;
                }
                let settings = server.mysql();
                let mysql = Mysql::connect(&server.url, settings, clock).await?;
                let retried = mysql.clone();
                let mut opened = Opened::new(mysql);
                let read = move || retried.deadlock_retries();
                opened.backend = opened.backend.counted(STORE_RETRIES, read);
                Ok(opened)
            }
        }
    }

    /// Looks at its schema and changes nothing.
    pub(crate) async fn schema(&self) -> Result<Schema, CliError> {
        match self {
            Self::Memory => Err(no_database()),
            Self::Sqlite(path) => Ok(Sqlite::schema(path, &Settings::default())?.into()),
            Self::Postgres(server) => Ok(server.postgres_schema().await?),
            Self::Mysql(server) => Ok(server.mysql_schema().await?),
        }
    }

    /// It is a database of this release: opening it would neither make nor change one.
    pub(crate) async fn is_current(&self) -> bool {
        let schema = self.schema().await;
        schema.is_ok_and(|schema| schema.version.is_some() && schema.pending.is_empty())
    }

    /// Brings its schema up to date; returns where it stood before.
    pub(crate) async fn migrate(&self) -> Result<Schema, CliError> {
        match self {
            Self::Memory => Err(no_database()),
            Self::Sqlite(path) => Ok(Sqlite::migrate(path, &Settings::default())?.into()),
            Self::Postgres(server) => {
                let before = server.postgres_schema().await?;
                clinch_postgres::migrate(server.direct()).await?;
                Ok(before)
            }
            Self::Mysql(server) => {
                let before = server.mysql_schema().await?;
                clinch_mysql::migrate(&server.url).await?;
                Ok(before)
            }
        }
    }

    /// The file, for commands that copy it.
    pub(crate) fn file(&self) -> Result<&Path, CliError> {
        match self {
            Self::Memory => Err(no_database()),
            Self::Sqlite(path) => Ok(path),
            Self::Postgres(_) | Self::Mysql(_) => Err(CliError::usage(
                "this copies a SQLite file; a database server has backups of its own \
                 (pg_dump, mariadb-dump)",
            )),
        }
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

impl Opened {
    fn new<S>(store: S) -> Self
    where
        S: Store + Outbox + Recovery + Batches + Domains + Inspect + Notices + Bus,
        S: ApiKeys + LockManager + Records + DocumentSink + Clone + 'static,
    {
        Self {
            backend: Backend::new(store.clone()),
            keys: Arc::new(store.clone()),
            locks: Arc::new(store.clone()),
            limits: None,
            records: Arc::new(store.clone()),
            documents: Arc::new(store),
            sqlite: None,
            postgres: None,
            redis: None,
        }
    }

    /// Budgets with providers: shared by all nodes where bus or store can keep them, else of
    /// Says how many bytes a payload may have, where the database takes operations in by itself.
    pub(crate) async fn limit_payloads(&self, bytes: usize) -> clinch::Result<()> {
        match &self.postgres {
            Some(postgres) => postgres.set_payload_max(bytes).await,
            None => Ok(()),
        }
    }

    /// this process.
    pub(crate) fn quota(&self, rules: QuotaRules, clock: &Arc<dyn Clock>) -> Arc<dyn Quota> {
        match (&self.redis, &self.postgres) {
            (Some(redis), _) => Arc::new(RedisQuota::on(redis, rules)),
            (None, Some(postgres)) => Arc::new(PostgresQuota::on(postgres, rules)),
            (None, None) => Arc::new(MemoryQuota::new(clock.clone(), rules)),
        }
    }
}

/// Opens what `[store]` and `[bus]` name.
pub(crate) async fn open(config: &Config) -> Result<Opened, CliError> {
    open_as(config, false).await
}

/// The same; a file that has lost commits only if that is accepted.
pub(crate) async fn open_as(config: &Config, accept_data_loss: bool) -> Result<Opened, CliError> {
    let line = Line::configured(config)?;
    let settings = Settings {
        // It says why before whoever asked stops waiting.
        busy_timeout: config.store.timeout.0 / 2,
        accept_data_loss,
        ..Settings::default()
    };
    let mut opened = Place::configured(config)?.open_as(&settings).await?;
    if let Some(connected) = line.connect().await? {
        opened.backend = opened.backend.with_bus(connected.bus);
        opened.limits = connected.limits.or(opened.limits);
        opened.redis = connected.redis;
    }
    Ok(opened)
}

/// Opens the database for a command that works on it; one in memory is refused.
pub(crate) async fn open_database(config: &Config) -> Result<Opened, CliError> {
    match Place::configured(config)? {
        Place::Memory => Err(no_database()),
        place => place.open().await,
    }
}

fn no_database() -> CliError {
    CliError::usage("store.url is memory:, which ends with its process; this needs a database")
}
