//! The ports that the engine needs.

use std::sync::Arc;

use clinch_core::ports::{
    Alert, Batches, Bus, Clock, Domains, Ids, Inspect, Journal, LoadShed, Meter, Notices, Outbox,
    Recovery, Sealer, Spawner, Store, Tracer,
};

/// Every port that the engine needs.
#[derive(Clone)]
pub struct Ports {
    /// Writes of the hot path: accept, begin, settle.
    pub store: Arc<dyn Store>,
    /// Claims of queue rows, for the relay and the sweeper.
    pub outbox: Arc<dyn Outbox>,
    /// Recovery scans, dead letters, pruning.
    pub recovery: Arc<dyn Recovery>,
    /// Groups of operations with one end.
    pub batches: Arc<dyn Batches>,
    /// Pauses and counters of domains.
    pub domains: Arc<dyn Domains>,
    /// Reads.
    pub inspect: Arc<dyn Inspect>,
    /// The store's notices.
    pub notices: Arc<dyn Notices>,
    /// How workers get their deliveries.
    pub dispatch: Dispatch,
    /// Seals payloads, so that adapters cannot read them.
    pub sealer: Arc<dyn Sealer>,
    /// The spill file: answers that the store did not take.
    pub spill: Arc<dyn Journal>,
    /// Dead letters that the store did not take.
    pub dead_letter_file: Arc<dyn Journal>,
    /// Alerts an operator.
    pub alert: Arc<dyn Alert>,
    /// This machine's clocks.
    pub clock: Arc<dyn Clock>,
    /// Generates ids.
    pub ids: Arc<dyn Ids>,
    /// Runs tasks.
    pub spawner: Arc<dyn Spawner>,
    /// Sheds new work while too much due work waits. `None`: accepts everything.
    pub shed: Option<Arc<dyn LoadShed>>,
    /// Metrics.
    pub meter: Arc<dyn Meter>,
    /// Traces and logs.
    pub tracer: Arc<dyn Tracer>,
}

/// How workers get their deliveries.
#[derive(Clone)]
pub enum Dispatch {
    /// The store is its own bus: its deliveries have begun already, and no relay is needed.
    Queue(Arc<dyn Bus>),
    /// A bus that carries hints, which the relay announces.
    Hints(Arc<dyn Bus>),
}

impl Dispatch {
    pub(crate) fn bus(&self) -> &Arc<dyn Bus> {
        match self {
            Self::Queue(bus) | Self::Hints(bus) => bus,
        }
    }
}
