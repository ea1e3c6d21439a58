//! The store that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clinch::Backend;
use clinch::core::ports::{ApiKeys, Clock, LockManager};
use clinch_memory::Memory;
use clinch_server::Config;
use clinch_sqlite::{Settings, Sqlite};
use clinch_system::SystemClock;

use crate::error::CliError;

/// A store, and where its API keys and locks live.
pub(crate) struct Opened {
    pub(crate) backend: Backend,
    pub(crate) keys: Arc<dyn ApiKeys>,
    pub(crate) locks: Arc<dyn LockManager>,
}

/// Opens what `store.url` names.
pub(crate) fn open(config: &Config) -> Result<Opened, CliError> {
    refuse_what_is_not_there(config)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    match of(&config.store.url)? {
        Kind::Memory => {
            let memory = Memory::new(clock);
            Ok(Opened {
                backend: Backend::new(memory.clone()),
                keys: Arc::new(memory.clone()),
                locks: Arc::new(memory),
            })
        }
        Kind::Sqlite(path) => {
            let sqlite = Sqlite::open(path, Settings::default(), clock)?;
            Ok(Opened {
                backend: Backend::new(sqlite.clone()),
                keys: Arc::new(sqlite.clone()),
                locks: Arc::new(sqlite),
            })
        }
    }
}

/// A key that is set and has no effect must not go unnoticed. Addresses may hold a password.
fn refuse_what_is_not_there(config: &Config) -> Result<(), CliError> {
    if config.bus.url != "store" {
        let message = "bus.url names a bus, which this release does not have; use \"store\"";
        return Err(CliError::usage(message));
    }
    if !config.store.listen_url.is_empty() {
        let message = "store.listen_url is for PostgreSQL, which this release does not have";
        return Err(CliError::usage(message));
    }
    Ok(())
}

/// Opens the file for a command that works on the database itself.
pub(crate) fn open_file(config: &Config) -> Result<Sqlite, CliError> {
    match of(&config.store.url)? {
        Kind::Sqlite(path) => {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            Ok(Sqlite::open(path, Settings::default(), clock)?)
        }
        Kind::Memory => Err(CliError::usage(
            "store.url is memory:, which ends with its process; this needs a database",
        )),
    }
}

enum Kind {
    Memory,
    Sqlite(PathBuf),
}

fn of(url: &str) -> Result<Kind, CliError> {
    if url == "memory:" {
        return Ok(Kind::Memory);
    }
    match url.strip_prefix("sqlite://") {
        Some(path) if !path.is_empty() => Ok(Kind::Sqlite(Path::new(path).to_owned())),
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
