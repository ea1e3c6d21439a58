//! Stores and buses: [`Backend`] for the engine, [`Opened`] with everything else that is kept on
//! the same store, and their addresses.
//!
//! ```
//! use std::sync::Arc;
//! use clinch::backend::{
//!     BusUrl, Limits, Opened, Options, RecordQuota, Schema, ServerUrl, Step, StoreFiles, StoreIdentity, StoreUrl,
//! };
//! use clinch::policy::QuotaRules;
//! use clinch::testing::ManualClock;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> clinch::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("clinch-doc-opened-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).expect("a folder");
//! # let address = format!("sqlite://{}/clinch.db", folder.display());
//! // let address = "sqlite://clinch.db";
//! let (store, bus): (StoreUrl, BusUrl) = (address.parse()?, "store".parse()?);
//!
//! // Where the schema stands, before anything is created.
//! let schema: Schema = store.schema(&Options::default()).await?;
//! let first: &Step = &schema.pending[0];
//! assert!(schema.version.is_none() && first.number == 1);
//!
//! let opened = Opened::open(&store, &bus, &Options::default()).await?;
//! let identity: StoreIdentity = opened.identity().await?;
//! assert_eq!(identity.kind, "sqlite");
//! let files: &Arc<dyn StoreFiles> = opened.files.as_ref().expect("a store in a file");
//! files.check()?;
//! // Rate limits that nodes share come with PostgreSQL and Redis.
//! let limits: Option<&Arc<dyn Limits>> = opened.limits.as_ref();
//! assert!(limits.is_none());
//! // A budget of calls that all processes of the store share.
//! let clock = Arc::new(ManualClock::default());
//! let quota = RecordQuota::new(opened.records.clone(), clock, QuotaRules::default());
//! # let _ = quota;
//!
//! // Addresses are shown without their passwords.
//! let server = ServerUrl::new("postgres://ann:s3cret@db/shop");
//! assert_eq!(server.to_string(), "postgres://db/shop");
//! # files.close()?;
//! # drop(opened);
//! # std::fs::remove_dir_all(&folder).expect("removed");
//! # Ok(())
//! # }
//! ```

mod adapter;
mod address;
mod limits;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "nats")]
mod nats;
mod opened;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
mod record_quota;
#[cfg(feature = "redis")]
mod redis;
mod schema;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clinch_core::Result;
use clinch_core::ports::{
    Batches, Bus, Clock, Domains, Inspect, Notices, Outbox, Records, Recovery, Store,
};
use clinch_engine::Dispatch;
use clinch_memory::Memory;
use clinch_system::SystemClock;

pub use address::{BusUrl, ServerUrl, StoreUrl};
pub use limits::Limits;
pub(crate) use opened::SqlAccept;
pub use opened::{Opened, StoreFiles, StoreIdentity};
pub use options::Options;
pub use record_quota::RecordQuota;
pub use schema::{Schema, Step};

/// A store and how its work is dispatched. Cheap to clone.
///
/// ```
/// use clinch::Backend;
///
/// // For tests and trials: its data is lost when the process ends.
/// let backend = Backend::memory();
/// # let _ = backend;
/// ```
#[derive(Clone)]
pub struct Backend {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) recovery: Arc<dyn Recovery>,
    pub(crate) batches: Arc<dyn Batches>,
    pub(crate) domains: Arc<dyn Domains>,
    pub(crate) inspect: Arc<dyn Inspect>,
    pub(crate) notices: Arc<dyn Notices>,
    pub(crate) dispatch: Dispatch,
    pub(crate) records: Option<Arc<dyn Records>>,
    pub(crate) counted: Vec<Arc<Counted>>,
    pub(crate) sql_accept: Option<Arc<dyn SqlAccept>>,
    /// Without passwords, for errors.
    pub(crate) store_address: Option<String>,
    pub(crate) bus_address: Option<String>,
}

/// A counter that the backend maintains.
pub(crate) struct Counted {
    pub(crate) name: &'static str,
    read: Box<dyn Fn() -> u64 + Send + Sync>,
    told: AtomicU64,
}

impl Counted {
    /// How much the counter grew since the last call.
    pub(crate) fn growth(&self) -> u64 {
        let now = (self.read)();
        now.saturating_sub(self.told.fetch_max(now, Ordering::Relaxed))
    }
}

impl Backend {
    /// Opens a store and a bus by their addresses. A database that is missing is created, an old
    /// one is brought up to date.
    ///
    /// | `store_url` | feature of `clinch` |
    /// | --- | --- |
    /// | `memory:` | |
    /// | `sqlite://FILE` | `sqlite`, on by default |
    /// | `postgres://HOST/DATABASE` | `postgres` |
    /// | `mysql://HOST/DATABASE`, `mariadb://…` | `mysql` |
    ///
    /// | `bus_url` | |
    /// | --- | --- |
    /// | `store` | the store is its own bus |
    /// | `redis://HOST` | `redis` |
    /// | `nats://HOST` | `nats` |
    ///
    /// ```
    /// use clinch::Backend;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> clinch::Result<()> {
    /// # let folder = std::env::temp_dir().join(format!("clinch-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).expect("a folder");
    /// let store_url = format!("sqlite://{}/clinch.db", folder.display());
    /// let backend = Backend::open(&store_url, "store").await?;
    /// assert!(backend.domains().domains().await?.is_empty());
    /// # drop(backend);
    /// # std::fs::remove_dir_all(&folder).expect("removed");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(store_url: &str, bus_url: &str) -> Result<Self> {
        Self::open_with(store_url, bus_url, &Options::default()).await
    }

    /// The same, with options. [`Opened::open`] also returns API keys, locks, records and documents
    /// of the store.
    pub async fn open_with(store_url: &str, bus_url: &str, options: &Options) -> Result<Self> {
        let (store, bus) = (store_url.parse()?, bus_url.parse()?);
        Ok(Opened::open(&store, &bus, options).await?.backend)
    }

    /// The in-memory reference store. Its data is lost when the process ends.
    pub fn memory() -> Self {
        Self::memory_on(Arc::new(SystemClock::new()))
    }

    pub(crate) fn memory_on(clock: Arc<dyn Clock>) -> Self {
        let memory = Memory::new(clock);
        Self::new(memory.clone()).with_records(Arc::new(memory))
    }

    /// A store that is its own bus.
    pub fn new<S>(store: S) -> Self
    where
        S: Store + Outbox + Recovery + Batches + Domains + Inspect + Notices + Bus + 'static,
    {
        let store = Arc::new(store);
        Self {
            store: store.clone(),
            outbox: store.clone(),
            recovery: store.clone(),
            batches: store.clone(),
            domains: store.clone(),
            inspect: store.clone(),
            notices: store.clone(),
            dispatch: Dispatch::Queue(store),
            records: None,
            counted: Vec::new(),
            sql_accept: None,
            store_address: None,
            bus_address: None,
        }
    }

    /// The same store, whose records keep what all processes know of a destination: that its
    /// breaker is open, or that its provider asked for a pause. Without it each process knows only
    /// its own. [`Backend::open`] sets it.
    #[must_use]
    pub fn with_records(mut self, records: Arc<dyn Records>) -> Self {
        self.records = Some(records);
        self
    }

    /// The same store, with a bus of hints for dispatch.
    #[must_use]
    pub fn with_bus(mut self, bus: Arc<dyn Bus>) -> Self {
        self.dispatch = Dispatch::Hints(bus);
        self
    }

    /// The same backend, with the store's commits passing a decorator of yours: a switch for
    /// maintenance, a log of slow commits. Deliveries of a store that is its own bus begin without
    /// it. `clinch-contract` has the suite that a decorated store must pass.
    ///
    /// ```
    /// use clinch::Backend;
    ///
    /// let backend = Backend::memory().with_store(|store| store); // this one changes nothing
    /// # let _ = backend;
    /// ```
    #[must_use]
    pub fn with_store(mut self, decorate: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        self.store = decorate(self.store);
        self
    }

    /// Adds one of the store's own counters to the metrics, for example the number of transactions
    /// that its server made it run again.
    #[must_use]
    pub fn counted(
        mut self,
        name: &'static str,
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.counted.push(Arc::new(Counted {
            name,
            read: Box::new(read),
            told: AtomicU64::new(0),
        }));
        self
    }

    /// Reads operations.
    pub fn inspect(&self) -> Arc<dyn Inspect> {
        self.inspect.clone()
    }

    /// Dead letters, recovery scans and pruning.
    pub fn recovery(&self) -> Arc<dyn Recovery> {
        self.recovery.clone()
    }

    /// Pauses and counters of domains.
    pub fn domains(&self) -> Arc<dyn Domains> {
        self.domains.clone()
    }

    /// Notices of the store.
    pub fn notices(&self) -> Arc<dyn Notices> {
        self.notices.clone()
    }
}

#[cfg(test)]
mod tests {
    use clinch_core::ErrorKind;

    use super::*;

    #[tokio::test]
    async fn memory_opens_without_any_feature() {
        let backend = Backend::open("memory:", "store").await.expect("opened");
        let domains = backend.domains().domains().await.expect("domains");
        assert!(domains.is_empty());
    }

    #[tokio::test]
    async fn a_wrong_address_is_refused_before_anything_is_opened() {
        let cases = [("oracle://db", "store"), ("memory:", "kafka://k")];
        for (store, bus) in cases {
            let opened = Backend::open(store, bus).await;
            let error = opened.err().expect("refused");
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
    }

    #[tokio::test]
    async fn listen_url_is_for_postgres_only() {
        let options = Options {
            listen_url: Some(ServerUrl::new("postgres://ann:s3cret@db/shop")),
            ..Options::default()
        };
        assert!(!format!("{options:?}").contains("s3cret"));
        let opened = Backend::open_with("memory:", "store", &options).await;
        let error = opened.err().expect("refused").to_string();
        assert_eq!(error, "listen_url is for a postgres:// store; leave it out");
    }

    #[cfg(not(feature = "postgres"))]
    #[tokio::test]
    async fn core_16_a_scheme_whose_feature_is_off_names_the_feature() {
        let opened = Backend::open("postgres://ann:s3cret@db/shop", "store").await;
        let error = opened.err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(
            error.to_string(),
            "this program was built without the feature \"postgres\" of `clinch`; add it in \
             Cargo.toml: clinch = { …, features = [\"postgres\"] }"
        );
    }

    #[tokio::test]
    async fn an_identity_is_given_once() {
        let options = Options::default();
        let opened = Opened::open(&StoreUrl::Memory, &BusUrl::Store, &options).await;
        let opened = opened.expect("opened");
        let first = opened.identity().await.expect("an identity");
        assert_eq!(first.kind, "memory");
        assert_eq!(opened.identity().await.expect("the same"), first);
    }
}
