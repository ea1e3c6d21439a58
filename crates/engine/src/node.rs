//! What the stages of one process share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::policy::{Routes, SeenTime};
use clinch_core::ports::{
    Alert, Batches, Bus, Clock, Domains, Ids, Inspect, Journal, LoadShed, Meter, Notices, Outbox,
    Recovery, Sealer, Spawner, Store, Tracer,
};
use clinch_core::{Domain, OpId, Result};
use tokio::sync::{Notify, Semaphore, watch};

use crate::Config;
use crate::group::Groups;
use crate::handlers::{Handlers, Lot};
use crate::load::Load;
use crate::runtime::Runner;
use crate::waiters::Waiters;

/// Everything the engine needs from the world.
#[derive(Clone)]
pub struct Ports {
    /// The hot path.
    pub store: Arc<dyn Store>,
    /// Queue rows to bus.
    pub outbox: Arc<dyn Outbox>,
    /// Scans, dead letters, pruning.
    pub recovery: Arc<dyn Recovery>,
    /// Groups of operations.
    pub batches: Arc<dyn Batches>,
    /// Pausing and counters.
    pub domains: Arc<dyn Domains>,
    /// Reading.
    pub inspect: Arc<dyn Inspect>,
    /// News of the store.
    pub notices: Arc<dyn Notices>,
    /// How workers get their deliveries.
    pub dispatch: Dispatch,
    /// What adapters may not read.
    pub sealer: Arc<dyn Sealer>,
    /// Answers that the store did not take.
    pub spill: Arc<dyn Journal>,
    /// Dead letters that the store did not take.
    pub dead_letter_file: Arc<dyn Journal>,
    /// Pages someone.
    pub alert: Arc<dyn Alert>,
    /// This machine's clocks.
    pub clock: Arc<dyn Clock>,
    /// Fresh ids.
    pub ids: Arc<dyn Ids>,
    /// Runs tasks.
    pub spawner: Arc<dyn Spawner>,
    /// Turns new work away while too much waits; `None`: takes everything.
    pub shed: Option<Arc<dyn LoadShed>>,
    /// Counts and measures.
    pub meter: Arc<dyn Meter>,
    /// Follows operations and logs.
    pub tracer: Arc<dyn Tracer>,
}

/// How workers get their deliveries.
#[derive(Clone)]
pub enum Dispatch {
    /// The store is its own bus: deliveries have begun, no relay is needed.
    Queue(Arc<dyn Bus>),
    /// A bus of hints, fed by the relay.
    Hints(Arc<dyn Bus>),
}

impl Dispatch {
    pub(crate) fn bus(&self) -> &Arc<dyn Bus> {
        match self {
            Self::Queue(bus) | Self::Hints(bus) => bus,
        }
    }
}

/// One process.
pub(crate) struct Node {
    pub ports: Ports,
    pub handlers: Handlers,
    pub config: Config,
    pub routes: Arc<Routes>,
    /// Those with an executor here: no other is begun by this process.
    pub runnable: Arc<Routes>,
    /// The same by destination.
    pub lots: Vec<Lot>,
    /// Whose turn it is among them.
    pub turn: AtomicUsize,
    /// Rows may wait for a destination whose calls are all taken: the end of a call is news.
    pub starved: AtomicBool,
    /// How long work waits, by domain.
    pub load: Load,
    /// Raised when rows may be due: for remote workers that wait.
    pub due_news: watch::Sender<u64>,
    /// Cancel flags of the attempts that run here.
    running: Mutex<BTreeMap<OpId, Arc<AtomicBool>>>,
    /// One reader of the spill file at a time.
    pub spill_lock: tokio::sync::Mutex<()>,
    pub groups: Groups,
    pub waiters: Waiters,
    /// Permits for attempts from the queue.
    pub queue_permits: Arc<Semaphore>,
    /// Permits for attempts that begin with their accept.
    pub inline_permits: Arc<Semaphore>,
    /// One for each runner, so that none misses its call.
    pub wake: [Notify; Runner::ALL.len()],
    /// A permit for each runner: all are back when none runs.
    pub runners: Arc<Semaphore>,
    /// The spill file may hold answers. True at first: an earlier process may have left some.
    spilled: AtomicBool,
    /// Someone was paged about the spill file by this process.
    spill_paged: AtomicBool,
    /// Someone was paged about the bus since it last took a hint.
    bus_down: AtomicBool,
    /// The time that the store has seen, and the monotonic time of that look.
    time_seen: Mutex<Option<(SeenTime, Duration)>>,
    /// Open operations without a route here, by domain, as of the last look.
    pub undeclared: Mutex<BTreeMap<Domain, u64>>,
    /// Someone was paged about the store's clock since it was last right.
    clock_ahead: AtomicBool,
    pub probe_permits: Arc<Semaphore>,
    stopping: watch::Sender<bool>,
}

impl Node {
    pub(crate) fn new(ports: Ports, handlers: Handlers, config: Config) -> Result<Arc<Self>> {
        config.validate()?;
        let routes = Arc::new(handlers.routes()?);
        let runnable = Arc::new(handlers.runnable());
        Ok(Arc::new(Self {
            groups: Groups::new(&ports, &routes, &runnable, &config),
            runnable,
            running: Mutex::default(),
            spill_lock: tokio::sync::Mutex::new(()),
            lots: handlers.lots(),
            turn: AtomicUsize::new(0),
            starved: AtomicBool::new(false),
            load: Load::default(),
            due_news: watch::Sender::new(0),
            waiters: Waiters::default(),
            queue_permits: Arc::new(Semaphore::new(config.concurrency)),
            inline_permits: Arc::new(Semaphore::new(config.concurrency)),
            wake: std::array::from_fn(|_| Notify::new()),
            runners: Arc::new(Semaphore::new(Runner::COUNT as usize)),
            spilled: AtomicBool::new(true),
            spill_paged: AtomicBool::new(false),
            bus_down: AtomicBool::new(false),
            time_seen: Mutex::default(),
            undeclared: Mutex::default(),
            clock_ahead: AtomicBool::new(false),
            probe_permits: Arc::new(Semaphore::new(config.probes.max(1))),
            stopping: watch::Sender::new(false),
            ports,
            handlers,
            config,
            routes,
        }))
    }

    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns when the process is told to stop.
    pub(crate) async fn stop_told(&self) {
        // The sender lives as long as the node: waiting cannot fail.
        let _ = self.stopping.subscribe().wait_for(|told| *told).await;
    }

    /// Notes that an attempt runs here; the flag is raised when it is canceled.
    pub(crate) fn attempt_runs(&self, op_id: OpId) -> Arc<AtomicBool> {
        let canceled = Arc::<AtomicBool>::default();
        self.running().insert(op_id, canceled.clone());
        canceled
    }

    /// Forgets an attempt, unless a later one has taken its place.
    pub(crate) fn attempt_ended(&self, op_id: OpId, canceled: &Arc<AtomicBool>) {
        let mut running = self.running();
        if running
            .get(&op_id)
            .is_some_and(|flag| Arc::ptr_eq(flag, canceled))
        {
            running.remove(&op_id);
        }
    }

    pub(crate) fn tell_attempt(&self, op_id: OpId) {
        if let Some(canceled) = self.running().get(&op_id) {
            canceled.store(true, Ordering::SeqCst);
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<OpId, Arc<AtomicBool>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True: it is news.
    pub(crate) fn set_bus_down(&self, down: bool) -> bool {
        self.bus_down.swap(down, Ordering::SeqCst) != down
    }

    pub(crate) fn time_seen(&self) -> MutexGuard<'_, Option<(SeenTime, Duration)>> {
        self.time_seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// True: it is news.
    pub(crate) fn set_clock_ahead(&self, ahead: bool) -> bool {
        self.clock_ahead.swap(ahead, Ordering::SeqCst) != ahead
    }

    /// True once: a record that is stuck is worth one page a process, not one a pass.
    pub(crate) fn is_first_page_about_the_spill(&self) -> bool {
        !self.spill_paged.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn has_spilled(&self) -> bool {
        self.spilled.load(Ordering::SeqCst)
    }

    pub(crate) fn set_spilled(&self, spilled: bool) {
        self.spilled.store(spilled, Ordering::SeqCst);
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.ports.clock.sleep(duration).await;
    }
}
