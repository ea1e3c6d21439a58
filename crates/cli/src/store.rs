//! The store that a URL names. The one place that looks at its scheme: a further backend is a
//! [`Place`], and an arm in each `match` below. Those that connect are async; a database server
//! needs it, a file does not.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clinch::Backend;
use clinch::core::ports::{ApiKeys, Clock};
use clinch_memory::Memory;
use clinch_server::Config;
use clinch_sqlite::{Settings, Sqlite, Version};
use clinch_system::SystemClock;

use crate::error::CliError;

/// A store, and where its API keys live.
pub(crate) struct Opened {
    pub(crate) backend: Backend,
    pub(crate) keys: Arc<dyn ApiKeys>,
}

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this process, and gone with it.
    Memory,
    /// In this file.
    Sqlite(PathBuf),
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
    /// Reads `store.url`.
    pub(crate) fn of(url: &str) -> Result<Self, CliError> {
        if url == "memory:" {
            return Ok(Self::Memory);
        }
        match url.strip_prefix("sqlite://") {
            Some(path) if !path.is_empty() => Ok(Self::Sqlite(Path::new(path).to_owned())),
            _ => {
                // The address may hold a password.
                let scheme = url.split(':').next().unwrap_or_default();
                let message = format!(
                    "store.url names a {scheme:?} store, which this release does not have; \
                     use sqlite://FILE or memory:"
                );
                Err(CliError::usage(message))
            }
        }
    }

    /// What it is called in answers; never with a password.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::Sqlite(path) => path.display().to_string(),
        }
    }

    /// Opens it; a database that is missing is made, an old one brought up to date.
    pub(crate) async fn open(&self) -> Result<Opened, CliError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        match self {
            Self::Memory => {
                let memory = Memory::new(clock);
                Ok(Opened {
                    backend: Backend::new(memory.clone()),
                    keys: Arc::new(memory),
                })
            }
            Self::Sqlite(path) => {
                let sqlite = Sqlite::open(path, Settings::default(), clock)?;
                Ok(Opened {
                    backend: Backend::new(sqlite.clone()),
                    keys: Arc::new(sqlite),
                })
            }
        }
    }

    /// Looks at its schema and changes nothing.
    pub(crate) async fn schema(&self) -> Result<Schema, CliError> {
        match self {
            Self::Memory => Err(no_database()),
            Self::Sqlite(path) => Ok(Sqlite::schema(path, &Settings::default())?.into()),
        }
    }

    /// Brings its schema up to date; returns where it stood before.
    pub(crate) async fn migrate(&self) -> Result<Schema, CliError> {
        match self {
            Self::Memory => Err(no_database()),
            Self::Sqlite(path) => Ok(Sqlite::migrate(path, &Settings::default())?.into()),
        }
    }

    /// The file, for commands that copy it.
    pub(crate) fn file(&self) -> Result<&Path, CliError> {
        match self {
            Self::Memory => Err(no_database()),
            Self::Sqlite(path) => Ok(path),
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

/// Opens what `store.url` names.
pub(crate) async fn open(config: &Config) -> Result<Opened, CliError> {
    Place::of(&config.store.url)?.open().await
}

/// Opens the database for a command that works on it; one in memory is refused.
pub(crate) async fn open_database(config: &Config) -> Result<Opened, CliError> {
    match Place::of(&config.store.url)? {
        Place::Memory => Err(no_database()),
        place => place.open().await,
    }
}

fn no_database() -> CliError {
    CliError::usage("store.url is memory:, which ends with its process; this needs a database")
}
