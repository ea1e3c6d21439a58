//! Clinch on one file, and a provider that answers at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{EventTypes, Routes, Rules, Safety};
use clinch_core::ports::{
    Alert, AlertNote, Answer, AnswerBody, Attempt, Bus, Clock, Dequeue, Domains, Executor, Ids,
    PlainText, Store, StoredOk, Untold,
};
use clinch_core::{
    AttemptId, BizKey, Command, Domain, Envelope, Error, ErrorKind, EventType, IdemKey, Invalid,
    Keys, Outcome, Payload, Result, Success, TimeBudget, WorkerId,
};
use clinch_engine::{Config, Dispatch, Handler, Handlers, Orchestrator, Ports, Runtime};
use clinch_sqlite::{Settings, Sqlite};
use clinch_system::{FileJournal, SystemClock, SystemIds, TokioSpawner};
use tokio::sync::Notify;

use crate::report::{Report, bytes_written};

/// Commands of one bulk submit.
const CHUNK: usize = 1_000;
/// A part that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Operations of each latency figure.
const SAMPLES: usize = 2_000;

/// One file and the engine on it.
pub(crate) struct Scene {
    runtime: tokio::runtime::Runtime,
    clock: Arc<SystemClock>,
    folder: PathBuf,
    keep: bool,
    pub(crate) page: Option<u32>,
    next: Arc<AtomicUsize>,
}

impl Scene {
    pub(crate) fn new(runtime: tokio::runtime::Runtime, under: &Path, keep: bool) -> Result<Self> {
        let folder = under.join(format!("clinch-bench-{}", SystemIds.attempt_id()));
        std::fs::create_dir(&folder).map_err(|error| {
            Error::new(ErrorKind::Internal, "no temporary folder").caused_by(error)
        })?;
        Ok(Self {
            runtime,
            clock: Arc::new(SystemClock::new()),
            folder,
            keep,
            page: None,
            next: Arc::default(),
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn play(
        &mut self,
        operations: usize,
        history: usize,
        report: &mut Report,
    ) -> Result<()> {
        self.runtime.block_on(async {
            let path = self.folder.join("clinch.db");
            let mut settings = Settings::default();
            settings.page_bytes = self.page.unwrap_or(settings.page_bytes);
            let sqlite = Sqlite::open(path, settings, self.clock.clone())?;
            self.fill(&sqlite, history).await?;
            let provider = Arc::new(Provider::default());
            let engine = self.engine(&sqlite, provider.clone()).await?;
            let orchestrator = engine.orchestrator();
            // What later parts find warm.
            self.accept(&orchestrator, 16, 2_000).await?;
            let before = bytes_written();
            for callers in [1, 16, 64] {
                let count = if callers == 1 { 10_000 } else { 60_000 };
                let rate = self.accept(&orchestrator, callers, count).await?;
                report.add(format!("accept, {callers} callers"), rate, "/s");
            }
            for callers in [1, 4] {
                let rate = self.accept_bulk(&orchestrator, callers, operations).await?;
                report.add(format!("accept in bulk, {callers} callers"), rate, "/s");
            }
            let backlog = self.next.load(Ordering::Relaxed) - history / CHUNK * CHUNK;
            let bytes = (bytes_written() - before) / backlog as f64;
            report.add("bytes written, accept", bytes, "B/operation");
            let before = bytes_written();
            let rate = self
                .drain(&engine, &sqlite, &provider, backlog, history)
                .await?;
            report.add("drain", rate, "/s");
            let bytes = (bytes_written() - before) / backlog as f64;
            report.add("bytes written, drain", bytes, "B/operation");
            self.latency(&engine, report).await
        })
    }

    /// Each caller accepts one at a time and waits for its own durable answer.
    async fn accept(
        &self,
        orchestrator: &Orchestrator,
        callers: usize,
        count: usize,
    ) -> Result<f64> {
        let from = self.clock.monotonic();
        let caller = |_| {
            let (orchestrator, next) = (orchestrator.clone(), self.next.clone());
            self.runtime.spawn(async move {
                for _ in 0..count / callers {
                    let one = command(next.fetch_add(1, Ordering::Relaxed)).map_err(wrong)?;
                    for accepted in orchestrator.submit(vec![one]).await? {
                        accepted?;
                    }
                }
                Ok::<_, Error>(())
            })
        };
        let callers_at_work: Vec<_> = (0..callers).map(caller).collect();
        for caller in callers_at_work {
            caller.await.map_err(lost)??;
        }
        let taken = self.clock.monotonic().saturating_sub(from);
        Ok((count / callers * callers) as f64 / taken.as_secs_f64())
    }

    async fn accept_bulk(
        &self,
        orchestrator: &Orchestrator,
        callers: usize,
        count: usize,
    ) -> Result<f64> {
        let from = self.clock.monotonic();
        let left = Arc::new(AtomicUsize::new(count / CHUNK));
        let caller = |_| {
            let (orchestrator, next, left) =
                (orchestrator.clone(), self.next.clone(), left.clone());
            self.runtime.spawn(async move {
                let take = |left: usize| left.checked_sub(1);
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                    .is_ok()
                {
                    let first = next.fetch_add(CHUNK, Ordering::Relaxed);
                    let commands = (first..first + CHUNK).map(command);
                    let commands: Result<Vec<_>, _> = commands.collect();
                    for accepted in orchestrator.submit(commands.map_err(wrong)?).await? {
                        accepted?;
                    }
                }
                Ok::<_, Error>(())
            })
        };
        let callers_at_work: Vec<_> = (0..callers).map(caller).collect();
        for caller in callers_at_work {
            caller.await.map_err(lost)??;
        }
        let taken = self.clock.monotonic().saturating_sub(from);
        Ok((count / CHUNK * CHUNK) as f64 / taken.as_secs_f64())
    }

    /// The backlog through the engine, from the first dequeue to the last settle.
    async fn drain(
        &self,
        engine: &Runtime,
        sqlite: &Sqlite,
        provider: &Provider,
        backlog: usize,
        history: usize,
    ) -> Result<f64> {
        provider.left.store(backlog, Ordering::Relaxed);
        let from = self.clock.monotonic();
        let running = self.runtime.spawn({
            let engine = engine.clone();
            async move { engine.run().await }
        });
        let settled = async {
            provider.all_called.notified().await;
            loop {
                let domains = sqlite.domains().await?;
                let completed: u64 = domains.iter().map(|one| one.counts.completed).sum();
                if completed >= (backlog + history / CHUNK * CHUNK) as u64 {
                    return Ok::<_, Error>(());
                }
                self.clock.sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, settled).await;
        let taken = self.clock.monotonic().saturating_sub(from);
        in_time.map_err(|_| Error::new(ErrorKind::Internal, "the drain hangs"))??;
        drop(running);
        Ok(backlog as f64 / taken.as_secs_f64())
    }

    /// One operation at a time, from submit to settled; the engine runs.
    async fn latency(&self, engine: &Runtime, report: &mut Report) -> Result<()> {
        let orchestrator = engine.orchestrator();
        for (name, queued) in [("inline", false), ("queued", true)] {
            let mut millis = Vec::with_capacity(SAMPLES);
            for _ in 0..SAMPLES {
                let mut one = command(self.next.fetch_add(1, Ordering::Relaxed)).map_err(wrong)?;
                // What has a time of its own is never begun with its accept.
                one.options.run_at = queued.then(|| self.clock.now());
                let from = self.clock.monotonic();
                let handle = orchestrator.start(one, TimeBudget::DEFAULT).await?;
                let taken = self.clock.monotonic().saturating_sub(from);
                if !handle.completed_fast() {
                    return Err(Error::new(ErrorKind::Internal, "an operation hangs"));
                }
                millis.push(taken.as_secs_f64() * 1_000.0);
            }
            report.add_times(name, millis);
        }
        engine.stop();
        Ok(())
    }

    /// Settled operations, straight through the ports.
    async fn fill(&self, sqlite: &Sqlite, history: usize) -> Result<()> {
        let provider = Arc::new(Provider::default());
        let engine = self.engine(sqlite, provider).await?;
        let orchestrator = engine.orchestrator();
        let worker = WorkerId::new("bench").map_err(wrong)?;
        let routes = Arc::new(routes().map_err(wrong)?);
        for _ in 0..history / CHUNK {
            let first = self.next.fetch_add(CHUNK, Ordering::Relaxed);
            let commands: Result<Vec<_>, _> = (first..first + CHUNK).map(command).collect();
            orchestrator.submit(commands.map_err(wrong)?).await?;
            let dequeue = Dequeue {
                domains: vec![Domain::new("bench").map_err(wrong)?],
                max: CHUNK,
                wait: Duration::ZERO,
                visibility: Duration::from_secs(30),
                worker: worker.clone(),
                attempts: (0..CHUNK)
                    .map(|_| SystemIds.attempt_id())
                    .collect::<Vec<AttemptId>>(),
                routes: routes.clone(),
                only: routes.clone(),
            };
            let taken = sqlite.dequeue(&dequeue).await?;
            let answers: Vec<_> = taken
                .into_iter()
                .map(|delivery| Answer {
                    op_id: delivery.hint.op_id,
                    fence: Some(1),
                    worker: worker.clone(),
                    body: AnswerBody::Ok(StoredOk::default()),
                })
                .collect();
            sqlite.settle(&answers, &routes).await?;
        }
        Ok(())
    }

    async fn engine(&self, sqlite: &Sqlite, provider: Arc<Provider>) -> Result<Runtime> {
        let store = Arc::new(sqlite.clone());
        let ports = Ports {
            store: store.clone(),
            outbox: store.clone(),
            recovery: store.clone(),
            batches: store.clone(),
            domains: store.clone(),
            inspect: store.clone(),
            notices: store.clone(),
            dispatch: Dispatch::Queue(store),
            sealer: Arc::new(PlainText),
            spill: self.journal().await?,
            dead_letter_file: self.journal().await?,
            alert: Arc::new(Nobody),
            clock: self.clock.clone(),
            ids: Arc::new(SystemIds),
            spawner: Arc::new(TokioSpawner::new(self.runtime.handle().clone())),
            shed: None,
            meter: Arc::new(Untold),
            tracer: Arc::new(Untold),
        };
        let handler = Handler {
            executor: Some(provider),
            ..Handler::new(rules())
        };
        let domain = Domain::new("bench").map_err(wrong)?;
        let handlers = Handlers::new().with(domain, EventTypes::Any, handler);
        let worker = WorkerId::new("bench").map_err(wrong)?;
        let config = Config {
            concurrency: 2_000,
            batch: 1_000,
            ..Config::new(worker)
        };
        Runtime::new(ports, handlers, config)
    }

    async fn journal(&self) -> Result<Arc<FileJournal>> {
        let name = SystemIds.attempt_id().to_string();
        let journal = FileJournal::open(self.folder.join(name)).await;
        journal.map(Arc::new)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

fn command(number: usize) -> Result<Command, Invalid> {
    let keys = Keys {
        domain: Domain::new("bench")?,
        event_type: EventType::new("call")?,
        biz_key: BizKey::new(format!("order-{number}"))?,
        idem_key: IdemKey::new(format!("key-{number}"))?,
    };
    let payload = format!(r#"{{"amount":{number},"currency":"EUR"}}"#);
    Ok(Command::new(keys, Payload::parse(&payload, 1_000)?))
}

fn rules() -> Rules {
    Rules {
        safety: Safety::Natural,
        ..Rules::default()
    }
}

fn routes() -> Result<Routes, Invalid> {
    Ok(Routes::new().with(Domain::new("bench")?, EventTypes::Any, rules()))
}

fn wrong(invalid: Invalid) -> Error {
    Error::new(ErrorKind::Invalid, invalid.to_string())
}

fn lost(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Internal, error.to_string())
}

/// Answers at once.
#[derive(Default)]
struct Provider {
    /// Calls that are still to come.
    left: AtomicUsize,
    all_called: Notify,
}

#[async_trait]
impl Executor for Provider {
    async fn execute(&self, _envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all_called.notify_one();
        }
        Outcome::Ok(Success::new(Payload::null()))
    }
}

/// Is not to be paged: there is nothing to page for.
struct Nobody;

#[async_trait]
impl Alert for Nobody {
    async fn raise(&self, _note: &AlertNote) -> Result<()> {
        Ok(())
    }
}
