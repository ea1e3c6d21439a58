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
//! let options = Options::default();
//! let schema: Schema = store.schema(&options).await?;
//! let first: &Step = &schema.pending[0];
//! assert!(schema.version.is_none() && first.number == 1);
//!
//! // A release may bring the schema up to date before its servers start. Opening a store does it too.
//! assert!(!store.is_current(&options).await);
//! store.migrate(&options).await?;
//! assert!(store.is_current(&options).await && store.file().is_some_and(|file| file.exists()));
//! assert_eq!(store.id(&options).await?, None, "nobody has opened it yet");
//!
//! let opened = Opened::open(&store, &bus, &options).await?;
//! let identity: StoreIdentity = opened.identity().await?;
//! assert_eq!(identity.kind, "sqlite");
//! // The longest payload that an SQL function of the database takes; a file has no such function.
//! opened.limit_payloads(64 * 1024).await?;
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
///
/// A store and a bus of your own making, here those of the in-memory adapter:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use clinch::testing::ManualClock;
/// use clinch::{Backend, Clinch, Route};
/// use clinch_memory::{Memory, MemoryBus};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// let clock = Arc::new(ManualClock::default());
/// let store = Memory::new(clock.clone());
/// let reconnects = Arc::new(AtomicU64::new(0));
/// let backend = Backend::new(store.clone())
///     // Hints for dispatch go over a bus, instead of every process asking the store.
///     .with_bus(Arc::new(MemoryBus::new(clock.clone())))
///     // Processes share what they know of destinations.
///     .with_records(Arc::new(store))
///     // One of the adapter's own counters among the metrics.
///     .counted("shop.store.reconnects.count", move || reconnects.load(Ordering::Relaxed));
///
/// let charge: Route<u64, ()> = Route::new("payments", "charge");
/// let clinch = Clinch::builder()
///     .backend(backend.clone())
///     .clock(clock)
///     .checkpoint_max(1024 * 1024) // what an attempt may keep for the next one
///     .remote(&charge)
///     .build()?;
/// let op_id = clinch.submit(vec![charge.request("order-1", "a", &5)]).await?.remove(0)?;
///
/// // The ports of the store, for what the engine does not offer.
/// assert!(backend.inspect().get(&[op_id]).await?[0].is_some());
/// assert!(backend.recovery().letters(&[op_id]).await?[0].is_none(), "no dead letter");
/// assert_eq!(backend.domains().domains().await?[0].counts.pending, 1);
/// let (_news, seen) = backend.notices().news(0, std::time::Duration::ZERO).await?;
/// # let _ = seen;
/// # Ok(())
/// # }
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
    ///
    /// ```
    /// use std::time::Duration;
    /// use clinch::Backend;
    /// use clinch::backend::Options;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> clinch::Result<()> {
    /// let options = Options { timeout: Duration::from_secs(3), ..Options::default() };
    /// // "postgres://…" and "redis://…", with the features of their adapters.
    /// let backend = Backend::open_with("memory:", "store", &options).await?;
    /// # let _ = backend;
    /// # Ok(())
    /// # }
    /// ```
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
