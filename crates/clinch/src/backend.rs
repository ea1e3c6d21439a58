//! The store and the bus of a [`Clinch`](crate::Clinch).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clinch_core::ports::{Batches, Bus, Clock, Domains, Inspect, Notices, Outbox, Recovery, Store};
use clinch_engine::Dispatch;
use clinch_memory::Memory;
use clinch_system::SystemClock;

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
    pub(crate) counted: Vec<Arc<Counted>>,
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
    /// The in-memory reference store. Its data is lost when the process ends.
    pub fn memory() -> Self {
        Self::memory_on(Arc::new(SystemClock::new()))
    }

    pub(crate) fn memory_on(clock: Arc<dyn Clock>) -> Self {
        Self::new(Memory::new(clock))
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
            counted: Vec::new(),
        }
    }

    /// The same store, with a bus of hints for dispatch.
    #[must_use]
    pub fn with_bus(mut self, bus: Arc<dyn Bus>) -> Self {
        self.dispatch = Dispatch::Hints(bus);
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
