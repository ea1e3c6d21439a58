//! A process with the real engine, on the adapter under test.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::Safety;
use clinch_core::ports::{
    Alert, AlertNote, Attempt, Clock, Executor, Filter, FoundId, Ids, Inspect, Journal,
    JournalRecords, Known, LedgerLine, Operation, Page, PlainText, Spawner, Untold,
};
use clinch_core::{
    AttemptId, BatchId, Command, Envelope, Keys, OpId, OpIdPrefix, Outcome, Payload, Result,
    Success, Timestamp,
};
use clinch_engine::{Config, Dispatch, Handler, Handlers, Ports, Runtime};
use clinch_protect::{Chain, Destination, DestinationConfig, Hedge, Timeouts};
use tokio::sync::{Semaphore, watch};

use crate::Subject;
use crate::case::{Failure, Stage, Verdict};
use crate::fixtures::{self, LEASE, Sequence};
use crate::world::World;

/// The adapter with an engine on it.
pub(crate) struct Engine {
    pub(crate) w: World,
    pub(crate) runtime: Runtime,
    pub(crate) provider: Arc<Script>,
    pub(crate) reads: Arc<CountedReads>,
    clock: Arc<SuiteClock>,
    ports: Ports,
    config: Config,
}

/// The guards around the calls of a case.
pub(crate) struct Guards {
    pub(crate) destination: DestinationConfig,
    pub(crate) timeouts: Timeouts,
    pub(crate) hedge: Option<Hedge>,
    pub(crate) gated: bool,
}

impl Default for Guards {
    /// No guards, only timeouts.
    fn default() -> Self {
        Self {
            destination: DestinationConfig {
                breaker: None,
                concurrency: None,
                rate: None,
                budget: None,
            },
            timeouts: Timeouts::default(),
            hedge: None,
            gated: true,
        }
    }
}

/// The same engine with a bus of hints.
pub(crate) struct OverHints(pub(crate) Engine);

impl Stage for Engine {
    fn open(subject: Subject) -> Verdict<Self> {
        let Some(queue) = subject.queue.clone() else {
            return Err(Failure::new(
                "the capabilities promise a queue; there is none",
            ));
        };
        Self::on(subject, Dispatch::Queue(queue))
    }
}

impl Stage for OverHints {
    fn open(subject: Subject) -> Verdict<Self> {
        let Some(bus) = subject.bus.clone() else {
            return Err(Failure::new(
                "the capabilities promise a bus; there is none",
            ));
        };
        Engine::on(subject, Dispatch::Hints(bus)).map(Self)
    }
}

impl Engine {
    fn on(subject: Subject, dispatch: Dispatch) -> Verdict<Self> {
        let w = World::open(subject)?;
        let clock = Arc::new(SuiteClock::default());
        let provider = Arc::new(Script::default());
        let file = Arc::new(NoFile);
        let reads = Arc::new(CountedReads {
            inspect: w.inspect.clone(),
            rows: AtomicUsize::new(0),
        });
        let ports = Ports {
            store: w.store.clone(),
            outbox: w.outbox.clone(),
            recovery: w.recovery.clone(),
            batches: w.batches.clone(),
            domains: w.domains.clone(),
            inspect: reads.clone(),
            notices: w.notices.clone(),
            dispatch,
            sealer: Arc::new(PlainText),
            spill: file.clone(),
            dead_letter_file: file,
            alert: Arc::new(NoPager),
            clock: clock.clone(),
            ids: Arc::new(SuiteIds(w.ids.clone())),
            spawner: Arc::new(OnTokio),
            shed: None,
            meter: Arc::new(Untold),
            tracer: Arc::new(Untold),
        };
        let mut handlers = Handlers::new();
        for (domain, event_types, rules) in w.routes.iter() {
            let handler = Handler {
                executor: Some(provider.clone()),
                ..Handler::new(rules.clone())
            };
            handlers = handlers.with(domain.clone(), event_types, handler);
        }
        let config = Config {
            lease: LEASE,
            // The suite's clock runs ahead of a real store's calls.
            store_timeout: Duration::from_secs(365 * 24 * 60 * 60),
            ..Config::new(fixtures::worker(1)?)
        };
        let runtime = Runtime::new(ports.clone(), handlers, config.clone())?;
        Ok(Self {
            w,
            runtime,
            provider,
            reads,
            clock,
            ports,
            config,
        })
    }

    /// The same engine with every call inside these guards, which all routes share. There is no
    /// gate: operations are claimed whatever the guards say, so that attempts meet the guards.
    pub(crate) fn guarded(self, guards: Guards) -> Verdict<(Self, Arc<Destination>)> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let psp = Destination::new("psp", clock.clone(), guards.destination)?;
        let psp = Arc::new(psp);
        let mut handlers = Handlers::new();
        for (domain, event_types, rules) in self.w.routes.iter() {
            let mut chain = Chain::new(self.provider.clone(), psp.clone(), clock.clone())
                .timeouts(Arc::new(guards.timeouts))
                .retries(&rules.retry);
            if let (Some(hedge), Safety::Keyed { .. }) = (guards.hedge, rules.safety) {
                chain = chain.hedge(Arc::new(hedge));
            }
            let mut handler = Handler::new(rules.clone());
            if guards.gated {
                handler.gate = chain.gate();
            }
            handler.executor = Some(Arc::new(chain));
            handlers = handlers.with(domain.clone(), event_types, handler);
        }
        let runtime = Runtime::new(self.ports.clone(), handlers, self.config.clone())?;
        Ok((Self { runtime, ..self }, psp))
    }

    /// The same engine, with all calls made by remote workers.
    pub(crate) fn remote(self) -> Verdict<Self> {
        let mut handlers = Handlers::new();
        for (domain, event_types, rules) in self.w.routes.iter() {
            let mut handler = Handler::new(rules.clone());
            handler.leased = true;
            handlers = handlers.with(domain.clone(), event_types, handler);
        }
        let runtime = Runtime::new(self.ports.clone(), handlers, self.config.clone())?;
        Ok(Self { runtime, ..self })
    }

    /// Runs one pump, and advances time while a call runs.
    pub(crate) async fn pump_through(&self, step: Duration) -> Verdict {
        let mut pump = std::pin::pin!(self.runtime.pump(1));
        loop {
            tokio::select! {
                biased;
                pumped = &mut pump => {
                    pumped?;
                    return Ok(());
                }
                () = tokio::task::yield_now() => {}
            }
            // The future was polled just now: every task that waits for the clock has registered.
            if self.provider.running.load(Ordering::SeqCst) > 0 {
                self.advance(step).await;
            }
        }
    }

    /// Advances the store's clock and the process's clock.
    pub(crate) async fn advance(&self, by: Duration) {
        self.w.advance(by).await;
        self.clock.passed.send_modify(|passed| *passed += by);
    }

    /// Pumps until nothing is left to do now.
    pub(crate) async fn pump_all(&self) -> Verdict {
        /// More steps than any case needs.
        const STEPS_MAX: usize = 100;
        for _ in 0..STEPS_MAX {
            let pumped = self.runtime.pump(10).await?;
            if pumped.announced + pumped.executed + pumped.recovered == 0 {
                return Ok(());
            }
        }
        Err(Failure::new("the engine always finds something to do"))
    }
}

/// A command of this domain with keys of its own.
pub(crate) fn command(domain: &str, idem_key: &str) -> Verdict<Command> {
    let keys = fixtures::keys(domain, "order", idem_key)?;
    Ok(Command::new(keys, fixtures::payload(1)?))
}

/// A provider that returns the scripted outcomes, and then Ok.
pub(crate) struct Script {
    outcomes: Mutex<VecDeque<Outcome>>,
    pub(crate) calls: AtomicUsize,
    /// Calls that have neither ended nor been dropped.
    pub(crate) running: AtomicUsize,
    /// A call continues when it gets a permit.
    pub(crate) gate: Semaphore,
    /// This many of the next calls are never answered.
    pub(crate) unanswered: AtomicUsize,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            outcomes: Mutex::default(),
            calls: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            gate: Semaphore::new(Semaphore::MAX_PERMITS / 2),
            unanswered: AtomicUsize::new(0),
        }
    }
}

impl Script {
    /// Sets the outcomes of the next calls.
    pub(crate) fn says(&self, outcomes: impl IntoIterator<Item = Outcome>) {
        let mut waiting = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend(outcomes);
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Executor for Script {
    async fn execute(&self, _envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let _running = Running::begin(&self.running);
        let left = |left: usize| left.checked_sub(1);
        let hung = self
            .unanswered
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        if hung.is_ok() {
            std::future::pending::<()>().await;
        }
        // The semaphore is never closed.
        let _go = self.gate.acquire().await;
        let mut waiting = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let yes = || Outcome::Ok(Success::new(Payload::null()));
        waiting.pop_front().unwrap_or_else(yes)
    }
}

/// Counts the rows that the engine reads by id.
pub(crate) struct CountedReads {
    inspect: Arc<dyn Inspect>,
    rows: AtomicUsize,
}

impl CountedReads {
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Inspect for CountedReads {
    async fn get(&self, ops: &[OpId]) -> Result<Vec<Option<Operation>>> {
        self.rows.fetch_add(ops.len(), Ordering::SeqCst);
        self.inspect.get(ops).await
    }
    async fn begun(&self, attempts: &[AttemptId]) -> Result<Vec<Option<Operation>>> {
        self.inspect.begun(attempts).await
    }
    async fn find(&self, keys: &[Keys]) -> Result<Vec<Option<Known>>> {
        self.inspect.find(keys).await
    }
    async fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        self.inspect.list(filter, cursor, limit).await
    }
    async fn long_in_progress(&self, before: Timestamp, max: usize) -> Result<Vec<OpId>> {
        self.inspect.long_in_progress(before, max).await
    }
    async fn by_prefix(&self, prefix: &OpIdPrefix, max: usize) -> Result<Vec<FoundId>> {
        self.inspect.by_prefix(prefix, max).await
    }
    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>> {
        self.inspect.ledger(op).await
    }
    async fn now(&self) -> Result<Timestamp> {
        self.inspect.now().await
    }
}

struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn begin(running: &'a AtomicUsize) -> Self {
        running.fetch_add(1, Ordering::SeqCst);
        Self(running)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A clock that stands still until it is advanced.
struct SuiteClock {
    passed: watch::Sender<Duration>,
}

impl Default for SuiteClock {
    fn default() -> Self {
        Self {
            passed: watch::Sender::new(Duration::ZERO),
        }
    }
}

#[async_trait]
impl Clock for SuiteClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0) + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        *self.passed.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.monotonic().saturating_add(duration);
        let mut passed = self.passed.subscribe();
        // The sender lives as long as `self`.
        let _ = passed.wait_for(|passed| *passed >= until).await;
    }
}

struct SuiteIds(Arc<Sequence>);

impl Ids for SuiteIds {
    fn op_id(&self) -> OpId {
        self.0.op_id()
    }
    fn attempt_id(&self) -> AttemptId {
        AttemptId(self.0.op_id().0)
    }
    fn batch_id(&self) -> BatchId {
        self.0.batch_id()
    }
}

struct OnTokio;

impl Spawner for OnTokio {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(task);
    }
}

struct NoPager;

#[async_trait]
impl Alert for NoPager {
    async fn raise(&self, _note: &AlertNote) -> Result<()> {
        Ok(())
    }
}

struct NoFile;

#[async_trait]
impl Journal for NoFile {
    async fn append(&self, _records: &[Vec<u8>]) -> Result<()> {
        Ok(())
    }
    async fn read(&self) -> Result<JournalRecords> {
        Ok(JournalRecords::default())
    }
    async fn forget(&self, _through: u64) -> Result<()> {
        Ok(())
    }
}
