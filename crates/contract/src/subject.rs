//! What an adapter provides to the suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::OpId;
use clinch_core::ports::{
    Batches, Bus, Domains, Inspect, LockManager, Notices, Outbox, Recovery, Store,
};
use clinch_stored::Fault;

/// One fresh, empty instance of an adapter. A port that the adapter does not have is `None`;
/// [`Capabilities`] must say the same.
#[derive(Clone)]
pub struct Subject {
    /// Every port of a store.
    pub store: Option<StorePorts>,
    /// A bus that carries hints.
    pub bus: Option<Arc<dyn Bus>>,
    /// The store as its own bus: its deliveries have begun.
    pub queue: Option<Arc<dyn Bus>>,
    /// Named locks.
    pub locks: Option<Arc<dyn LockManager>>,
    /// The suite's control of the instance.
    pub control: Arc<dyn Control>,
}

/// The ports of a store.
#[derive(Clone)]
pub struct StorePorts {
    /// Writes of the hot path.
    pub store: Arc<dyn Store>,
    /// Claims of queue rows.
    pub outbox: Arc<dyn Outbox>,
    /// Recovery scans, dead letters, pruning.
    pub recovery: Arc<dyn Recovery>,
    /// Groups of operations with one end.
    pub batches: Arc<dyn Batches>,
    /// Pauses and counters.
    pub domains: Arc<dyn Domains>,
    /// Reads.
    pub inspect: Arc<dyn Inspect>,
    /// Notices.
    pub notices: Arc<dyn Notices>,
}

impl StorePorts {
    /// All of these ports on one store.
    pub fn of<S>(store: &Arc<S>) -> Self
    where
        S: Store + Outbox + Recovery + Batches + Domains + Inspect + Notices + 'static,
    {
        Self {
            store: store.clone(),
            outbox: store.clone(),
            recovery: store.clone(),
            batches: store.clone(),
            domains: store.clone(),
            inspect: store.clone(),
            notices: store.clone(),
        }
    }
}

impl Subject {
    /// A store with its own queue and locks. If there is a bus, the suite also runs the engine with
    /// hints.
    pub fn of_store<S>(store: &Arc<S>, bus: Option<Arc<dyn Bus>>, control: Arc<dyn Control>) -> Self
    where
        S: Store + Outbox + Recovery + Batches + Domains + Inspect + Notices,
        S: Bus + LockManager + 'static,
    {
        Self {
            store: Some(StorePorts::of(store)),
            bus,
            queue: Some(store.clone()),
            locks: Some(store.clone()),
            control,
        }
    }
}

/// What the suite does to an instance besides using its ports.
#[async_trait]
pub trait Control: Send + Sync {
    /// Advances the instance's clock. An adapter on a real clock adds an offset; none sleeps.
    async fn advance(&self, by: Duration);

    /// Changes one bit of the stored payload, without going through the adapter.
    async fn corrupt(&self, op: OpId);

    /// Makes the next writing call of a store port fail in this way. Used only if
    /// [`Capabilities::faults`] is set.
    async fn arm(&self, fault: Fault);

    /// Kills the instance without warning, and reopens what it had committed.
    async fn crash(&self) -> Subject;
}

/// Which cases an adapter must pass. Cases for a `false` capability are not listed at all, so that
/// every listed case is one that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The ports of a store.
    pub store: bool,
    /// A bus that carries hints.
    pub bus: bool,
    /// The store as its own bus.
    pub queue: bool,
    /// Locks and leadership.
    pub locks: bool,
    /// [`Control::arm`].
    pub faults: bool,
}

impl Capabilities {
    /// Everything.
    pub const ALL: Self = Self {
        store: true,
        bus: true,
        queue: true,
        locks: true,
        faults: true,
    };
}
