//! One engine on an empty store, and a provider that answers at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{Backoff, EventTypes, RetryRules, Rules, Safety};
use clinch_core::ports::{
    Alert, AlertNote, Attempt, Clock, Domains, Executor, Ids, PlainText, Untold,
};
use clinch_core::{
    BizKey, Command, Domain, Envelope, Error, ErrorKind, EventType, IdemKey, Invalid, Keys,
    Outcome, Payload, Result, Retry, Success, WorkerId,
};
use clinch_engine::{Config, Dispatch, Handler, Handlers, Orchestrator, Ports, Runtime};
use clinch_memory::{Memory, MemoryBus};
use clinch_system::{FileJournal, SystemClock, SystemIds, TokioSpawner};
use tokio::sync::Notify;

/// Commands in one submit.
const CHUNK: usize = 1_000;
/// A run that takes longer is stuck.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The shortest wait of tokio's timer.
const BACKOFF: Duration = Duration::from_millis(1);

/// How workers get their deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The store is its own bus.
    Queue,
    /// A bus with hints, which the relay announces.
    Hints,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Hints => "hints",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        let mut modes = [Self::Queue, Self::Hints].into_iter();
        modes.find(|mode| mode.name() == name)
    }
}

/// The provider's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Ok to every call.
    Plain,
    /// Retry to the first call of each operation, then Ok: half of the outcomes are retries.
    WithRetries,
}

impl Variant {
    fn outcomes_per_operation(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::WithRetries => 2,
        }
    }
}

/// Resources that all runs share.
pub(crate) struct Scene {
    runtime: tokio::runtime::Runtime,
    clock: Arc<SystemClock>,
    folder: PathBuf,
}

impl Scene {
    pub(crate) fn new(runtime: tokio::runtime::Runtime) -> Result<Self> {
        let name = format!("clinch-bench-{}", SystemIds.attempt_id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).map_err(|error| {
            Error::new(ErrorKind::Internal, "no temporary folder").caused_by(error)
        })?;
        Ok(Self {
            runtime,
            clock: Arc::new(SystemClock::new()),
            folder,
        })
    }

    /// Handles this number of outcomes; returns outcomes per second.
    pub(crate) fn play(&self, mode: Mode, variant: Variant, outcomes: usize) -> Result<f64> {
        self.runtime.block_on(async {
            let memory = Memory::new(self.clock.clone());
            let operations = outcomes / variant.outcomes_per_operation();
            let provider = Arc::new(Provider {
                variant,
                left: AtomicUsize::new(operations * variant.outcomes_per_operation()),
                all_called: Notify::new(),
            });
            let ports = self.ports(&memory, mode).await?;
            let handlers = handlers(provider.clone()).map_err(wrong)?;
            let worker = WorkerId::new("bench").map_err(wrong)?;
            let config = Config {
                concurrency: 64,
                ..Config::new(worker)
            };
            let engine = Runtime::new(ports, handlers, config)?;
            submit(&engine.orchestrator(), operations).await?;

            let from = self.clock.monotonic();
            let running = self.runtime.spawn({
                let engine = engine.clone();
                async move { engine.run().await }
            });
            let settled = self.until_settled(&memory, &provider, operations);
            let in_time = tokio::time::timeout(TIMEOUT, settled).await;
            let taken = self.clock.monotonic().saturating_sub(from);
            engine.stop();
            let stopped = running.await;
            stopped.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
            in_time.map_err(|_| Error::new(ErrorKind::Internal, "the run hangs"))??;
            let handled = operations * variant.outcomes_per_operation();
            Ok(handled as f64 / taken.as_secs_f64())
        })
    }

    /// Polls the store only after the last call: reading takes the store's lock.
    async fn until_settled(
        &self,
        memory: &Memory,
        provider: &Provider,
        operations: usize,
    ) -> Result<()> {
        provider.all_called.notified().await;
        loop {
            let domains = memory.domains().await?;
            let completed: u64 = domains.iter().map(|one| one.counts.completed).sum();
            if completed == operations as u64 {
                return Ok(());
            }
            self.clock.sleep(Duration::from_millis(1)).await;
        }
    }

    async fn ports(&self, memory: &Memory, mode: Mode) -> Result<Ports> {
        let store = Arc::new(memory.clone());
        let dispatch = match mode {
            Mode::Queue => Dispatch::Queue(store.clone()),
            Mode::Hints => Dispatch::Hints(Arc::new(MemoryBus::new(self.clock.clone()))),
        };
        Ok(Ports {
            store: store.clone(),
            outbox: store.clone(),
            recovery: store.clone(),
            batches: store.clone(),
            domains: store.clone(),
            inspect: store.clone(),
            notices: store,
            dispatch,
            sealer: Arc::new(PlainText),
            spill: self.journal().await?,
            dead_letter_file: self.journal().await?,
            alert: Arc::new(NoAlerts),
            clock: self.clock.clone(),
            ids: Arc::new(SystemIds),
            spawner: Arc::new(TokioSpawner::new(self.runtime.handle().clone())),
            shed: None,
            meter: Arc::new(Untold),
            tracer: Arc::new(Untold),
        })
    }

    /// A new journal: runners of the last run may hold theirs for a moment longer.
    async fn journal(&self) -> Result<Arc<FileJournal>> {
        let name = SystemIds.attempt_id().to_string();
        FileJournal::open(self.folder.join(name))
            .await
            .map(Arc::new)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn submit(orchestrator: &Orchestrator, operations: usize) -> Result<()> {
    let numbers: Vec<usize> = (0..operations).collect();
    for chunk in numbers.chunks(CHUNK) {
        let commands: Result<Vec<_>, _> = chunk.iter().map(|number| command(*number)).collect();
        for accepted in orchestrator.submit(commands.map_err(wrong)?).await? {
            accepted?;
        }
    }
    Ok(())
}

fn command(number: usize) -> Result<Command, Invalid> {
    let keys = Keys {
        domain: Domain::new("bench")?,
        event_type: EventType::new("call")?,
        biz_key: BizKey::new(number.to_string())?,
        idem_key: IdemKey::new(number.to_string())?,
    };
    let payload = format!(r#"{{"amount":{number},"currency":"EUR"}}"#);
    Ok(Command::new(keys, Payload::parse(&payload, 1_000)?))
}

fn handlers(provider: Arc<Provider>) -> Result<Handlers, Invalid> {
    let rules = Rules {
        safety: Safety::Natural,
        retry: RetryRules {
            backoff: Backoff::new(BACKOFF, BACKOFF),
            ..RetryRules::WORKER
        },
        ..Rules::default()
    };
    let handler = Handler {
        executor: Some(provider),
        ..Handler::new(rules)
    };
    Ok(Handlers::new().with(Domain::new("bench")?, EventTypes::Any, handler))
}

fn wrong(invalid: Invalid) -> Error {
    Error::new(ErrorKind::Invalid, invalid.to_string())
}

/// Answers at once.
struct Provider {
    variant: Variant,
    /// Calls that are still to come.
    left: AtomicUsize,
    all_called: Notify,
}

#[async_trait]
impl Executor for Provider {
    async fn execute(&self, envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all_called.notify_one();
        }
        if self.variant == Variant::WithRetries && envelope.attempt == 1 {
            return Outcome::Retry(Retry::not_applied("busy"));
        }
        Outcome::Ok(Success::new(Payload::null()))
    }
}

/// Ignores alerts.
struct NoAlerts;

#[async_trait]
impl Alert for NoAlerts {
    async fn raise(&self, _note: &AlertNote) -> Result<()> {
        Ok(())
    }
}
