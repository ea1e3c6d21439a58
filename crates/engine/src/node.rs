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
use crate::deadline;
use crate::execute::{DueNews, Leases};
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
    /// Tells remote workers that wait when rows of their domain may be due.
    pub due_news: DueNews,
    /// What remote workers hold.
    pub leases: Leases,
    /// Fences and cancel flags of the attempts that run here.
    running: Mutex<BTreeMap<OpId, (u64, Arc<AtomicBool>)>>,
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
    /// Held rows may wait for a permit or for a slot of their destination: the end of a probe or
    /// a call is news.
    pub probes_starved: AtomicBool,
    stage: watch::Sender<Stage>,
    /// Answers of providers that neither the store nor the spill file has yet.
    in_hand: watch::Sender<usize>,
}

/// How far a process is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    /// Takes no more work; running attempts go on.
    Stopping,
    /// About to exit: every answer goes to the spill file now.
    Closing,
}

/// One answer in hand, until it is dropped.
pub(crate) struct InHand<'a>(&'a watch::Sender<usize>);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Node {
    pub(crate) fn new(ports: Ports, handlers: Handlers, config: Config) -> Result<Arc<Self>> {
        config.validate()?;
        let ports = deadline::bound(ports, config.store_timeout);
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
            due_news: DueNews::new(handlers.by_domain().map(|(domain, _)| domain)),
            leases: Leases::default(),
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
            probes_starved: AtomicBool::new(false),
            stage: watch::Sender::new(Stage::Running),
            in_hand: watch::Sender::new(0),
            ports,
            handlers,
            config,
            routes,
        }))
    }

    pub(crate) fn stop(&self) {
        self.enter(Stage::Stopping);
    }

    /// Every answer goes to the spill file now.
    pub(crate) fn close(&self) {
        self.enter(Stage::Closing);
    }

    /// Never back.
    fn enter(&self, stage: Stage) {
        self.stage.send_modify(|at| *at = stage.max(*at));
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stage.borrow() >= Stage::Stopping
    }

    /// Returns when the process is told to stop.
    pub(crate) async fn stop_told(&self) {
        self.reached(Stage::Stopping).await;
    }

    /// Returns when the process is about to exit.
    pub(crate) async fn close_told(&self) {
        self.reached(Stage::Closing).await;
    }

    async fn reached(&self, stage: Stage) {
        // The sender lives as long as the node: waiting cannot fail.
        let _ = self.stage.subscribe().wait_for(|at| *at >= stage).await;
    }

    /// Notes that a provider's answer is here: a process that exits waits for it.
    pub(crate) fn take_in_hand(&self) -> InHand<'_> {
        self.in_hand.send_modify(|count| *count += 1);
        InHand(&self.in_hand)
    }

    /// Returns when the store or the spill file has every answer.
    pub(crate) async fn hands_empty(&self) {
        let _ = self.in_hand.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Notes that an attempt runs here; the flag is raised when it is canceled.
    pub(crate) fn attempt_runs(&self, op_id: OpId, fence: u64) -> Arc<AtomicBool> {
        let canceled = Arc::<AtomicBool>::default();
        self.running().insert(op_id, (fence, canceled.clone()));
        canceled
    }

    /// The attempt runs in this process, or its answer is being settled.
    pub(crate) fn is_running(&self, op_id: OpId, fence: u64) -> bool {
        let running = self.running();
        running.get(&op_id).is_some_and(|(own, _)| *own == fence)
    }

    /// Forgets an attempt, unless a later one has taken its place.
    pub(crate) fn attempt_ended(&self, op_id: OpId, canceled: &Arc<AtomicBool>) {
        let mut running = self.running();
        if running
            .get(&op_id)
            .is_some_and(|(_, flag)| Arc::ptr_eq(flag, canceled))
        {
            running.remove(&op_id);
        }
    }

    pub(crate) fn tell_attempt(&self, op_id: OpId) {
        if let Some((_, canceled)) = self.running().get(&op_id) {
            canceled.store(true, Ordering::SeqCst);
        }
    }

    /// Attempts that run here.
    pub(crate) fn attempts(&self) -> usize {
        self.running().len()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<OpId, (u64, Arc<AtomicBool>)>> {
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
