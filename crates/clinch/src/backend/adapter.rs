//! The adapters by address. A further store is a module and an arm in [`StoreUrl::adapter`], a
//! further bus an arm in [`BusUrl::connect`].

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::{Error, ErrorKind, Result};
use clinch_memory::Memory;
use clinch_system::SystemClock;

use super::opened::at_address;
use super::{BusUrl, Opened, Options, Schema, StoreUrl};

/// What Clinch can do at the address of a store.
#[async_trait]
pub(super) trait Adapter: Send + Sync {
    async fn open(&self, options: &Options) -> Result<Opened>;
    async fn schema(&self, options: &Options) -> Result<Schema>;
    async fn migrate(&self, options: &Options) -> Result<Schema>;
    async fn id(&self, options: &Options) -> Result<Option<String>>;
}

impl StoreUrl {
    pub(super) fn adapter(&self) -> Result<Box<dyn Adapter + '_>> {
        match self {
            Self::Memory => Ok(Box::new(InMemory)),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Ok(Box::new(super::sqlite::File(path))),
            #[cfg(not(feature = "sqlite"))]
            Self::Sqlite(_) => Err(crate::missing::feature_is_off("sqlite")),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => Ok(Box::new(super::postgres::Database(url))),
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => Err(crate::missing::feature_is_off("postgres")),
            #[cfg(feature = "mysql")]
            Self::Mysql(url) => Ok(Box::new(super::mysql::Database(url))),
            #[cfg(not(feature = "mysql"))]
            Self::Mysql(_) => Err(crate::missing::feature_is_off("mysql")),
        }
    }

    /// Reads where the schema stands, and changes nothing.
    pub async fn schema(&self, options: &Options) -> Result<Schema> {
        let done = self.adapter()?.schema(options).await;
        done.map_err(|error| at_address(error, self))
    }

    /// Whether there is a database of this release: opening it would neither create nor change one.
    pub async fn is_current(&self, options: &Options) -> bool {
        let schema = self.schema(options).await;
        schema.is_ok_and(|schema| schema.version.is_some() && schema.pending.is_empty())
    }

    /// Brings the schema up to date; returns where it stood before.
    pub async fn migrate(&self, options: &Options) -> Result<Schema> {
        let done = self.adapter()?.migrate(options).await;
        done.map_err(|error| at_address(error, self))
    }

    /// The id of the store, read without changing anything; `None`: no server has opened the store
    /// yet, or it is in the memory of its process.
    pub async fn id(&self, options: &Options) -> Result<Option<String>> {
        let done = self.adapter()?.id(options).await;
        done.map_err(|error| at_address(error, self))
    }

    /// The file of a SQLite store.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Memory | Self::Postgres(_) | Self::Mysql(_) => None,
        }
    }
}

impl BusUrl {
    /// Connects the bus of an opened store.
    #[cfg_attr(
        not(any(feature = "redis", feature = "nats")),
        expect(unused_variables, reason = "only these buses have options")
    )]
    pub(super) async fn connect(&self, opened: Opened, options: &Options) -> Result<Opened> {
        match self {
            Self::Store => Ok(opened),
            #[cfg(feature = "redis")]
            Self::Redis(url) => boxed(super::redis::connect(url, opened, options)).await,
            #[cfg(not(feature = "redis"))]
            Self::Redis(_) => Err(crate::missing::feature_is_off("redis")),
            #[cfg(feature = "nats")]
            Self::Nats(url) => boxed(super::nats::connect(url, opened, options)).await,
            #[cfg(not(feature = "nats"))]
            Self::Nats(_) => Err(crate::missing::feature_is_off("nats")),
        }
    }
}

/// Hides the type of a driver's future. Otherwise it is part of the type of
/// [`Backend::open`](super::Backend::open), and too deep for the compiler of the caller's crate.
#[cfg(any(feature = "redis", feature = "nats"))]
fn boxed<'a, T>(
    connect: impl Future<Output = T> + Send + 'a,
) -> std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>> {
    Box::pin(connect)
}

/// The store in the memory of this process.
struct InMemory;

#[async_trait]
impl Adapter for InMemory {
    async fn open(&self, _options: &Options) -> Result<Opened> {
        let memory = Memory::new(Arc::new(SystemClock::new()));
        Ok(Opened::new(memory, "memory"))
    }

    async fn schema(&self, _options: &Options) -> Result<Schema> {
        Err(no_database())
    }

    async fn migrate(&self, _options: &Options) -> Result<Schema> {
        Err(no_database())
    }

    async fn id(&self, _options: &Options) -> Result<Option<String>> {
        Ok(None)
    }
}

fn no_database() -> Error {
    let message = "a store in memory: has no database";
    Error::new(ErrorKind::Invalid, message)
}
