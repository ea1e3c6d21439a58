//! The store and the bus that the configuration names; `clinch::backend` opens them.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clinch::backend::{BusUrl, Opened, Options, Schema, ServerUrl, StoreFiles, StoreUrl};
use clinch_server::Config;

use crate::error::{CliError, note};

/// Files that this process has opened, with their names.
static FILES: Mutex<Vec<(String, Arc<dyn StoreFiles>)>> = Mutex::new(Vec::new());

/// Closes them at the end of the process, so that each is whole without its log.
pub(crate) fn close_all() {
    let files = std::mem::take(&mut *FILES.lock().unwrap_or_else(PoisonError::into_inner));
    for (name, file) in files {
        if let Err(error) = file.close() {
            note(&format!("{name}: {error}"));
        }
    }
}

/// The store of a command: its address, and how it is opened.
#[derive(Debug, Clone)]
pub(crate) struct StoreConfig {
    pub(crate) url: StoreUrl,
    options: Options,
}

impl StoreConfig {
    /// Reads `[store]`.
    pub(crate) fn of(config: &Config) -> Result<Self, CliError> {
        let store = Self {
            url: parse(&config.store.url, "store.url")?,
            options: options(config),
        };
        if store.options.listen_url.is_some() && !matches!(store.url, StoreUrl::Postgres(_)) {
            let message = "store.listen_url is for a postgres:// store; leave it out";
            return Err(CliError::usage(message));
        }
        Ok(store)
    }

    /// A store that `key` names instead of `[store]`.
    pub(crate) fn named(url: &str, key: &str) -> Result<Self, CliError> {
        Ok(Self::at(parse(url, key)?))
    }

    /// A store at this address.
    pub(crate) fn at(url: StoreUrl) -> Self {
        Self {
            url,
            options: Options::default(),
        }
    }

    /// The path of a file, or the address of a server without its password.
    pub(crate) fn name(&self) -> String {
        match self.url.file() {
            Some(path) => path.display().to_string(),
            None => self.url.to_string(),
        }
    }

    /// Opens it without a bus; a database that is missing is made, an old one brought up to date.
    pub(crate) async fn open(&self) -> Result<Opened, CliError> {
        self.open_with(&BusUrl::Store).await
    }

    async fn open_with(&self, bus: &BusUrl) -> Result<Opened, CliError> {
        let opened = Opened::open(&self.url, bus, &self.options).await?;
        if let Some(files) = &opened.files {
            let mut opened = FILES.lock().unwrap_or_else(PoisonError::into_inner);
            opened.push((self.name(), files.clone()));
        }
        Ok(opened)
    }

    /// Looks at its schema and changes nothing.
    pub(crate) async fn schema(&self) -> Result<Schema, CliError> {
        self.refuse_memory()?;
        Ok(self.url.schema(&self.options).await?)
    }

    /// It is a database of this release: opening it would neither make nor change one.
    pub(crate) async fn is_current(&self) -> bool {
        self.url.is_current(&self.options).await
    }

    /// Brings its schema up to date; returns where it stood before.
    pub(crate) async fn migrate(&self) -> Result<Schema, CliError> {
        self.refuse_memory()?;
        Ok(self.url.migrate(&self.options).await?)
    }

    /// Its id, read without changing anything; `None`: no server has worked on it yet.
    pub(crate) async fn id(&self) -> Result<Option<String>, CliError> {
        Ok(self.url.id(&self.options).await?)
    }

    /// The file, for commands that copy it.
    pub(crate) fn file(&self) -> Result<&Path, CliError> {
        self.refuse_memory()?;
        self.url.file().ok_or_else(|| {
            CliError::usage(
                "this copies a SQLite file; a database server has backups of its own \
                 (pg_dump, mariadb-dump)",
            )
        })
    }

    fn refuse_memory(&self) -> Result<(), CliError> {
        match self.url {
            StoreUrl::Memory => Err(CliError::usage(
                "store.url is memory:, which ends with its process; this needs a database",
            )),
            _ => Ok(()),
        }
    }
}

/// Opens what `[store]` and `[bus]` name.
pub(crate) async fn open(config: &Config) -> Result<Opened, CliError> {
    open_as(config, false).await
}

/// The same; a file that has lost commits only if that is accepted.
pub(crate) async fn open_as(config: &Config, accept_data_loss: bool) -> Result<Opened, CliError> {
    let (bus, _) = bus(config)?;
    let mut store = StoreConfig::of(config)?;
    store.options.accept_data_loss = accept_data_loss;
    store.open_with(&bus).await
}

/// Opens the database for a command that works on it; one in memory is refused.
pub(crate) async fn open_database(config: &Config) -> Result<Opened, CliError> {
    let store = StoreConfig::of(config)?;
    store.refuse_memory()?;
    store.open().await
}

/// Reads `[bus]`.
pub(crate) fn bus(config: &Config) -> Result<(BusUrl, Options), CliError> {
    Ok((parse(&config.bus.url, "bus.url")?, options(config)))
}

fn options(config: &Config) -> Options {
    let store = &config.store;
    let listen_url = Some(&store.listen_url).filter(|url| !url.is_empty());
    Options {
        listen_url: listen_url.map(ServerUrl::new),
        fallback_poll: store.fallback_poll.0,
        timeout: store.timeout.0,
        // It says why before whoever asked stops waiting.
        busy_timeout: store.timeout.0 / 2,
        accept_data_loss: false,
        bus_prefix: config.bus.prefix.clone(),
    }
}

fn parse<T>(url: &str, key: &str) -> Result<T, CliError>
where
    T: std::str::FromStr<Err = clinch::Error>,
{
    url.parse()
        .map_err(|error: clinch::Error| CliError::usage(format!("{key}: {error}")))
}
