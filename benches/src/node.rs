//! One engine on a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::policy::{EventTypes, Routes, Rules, Safety};
use clinch_core::ports::{
    Alert, AlertNote, Batches, Bus, Domains, Executor, Ids, Inspect, Notices, Outbox, PlainText,
    Recovery, Store, Untold,
};
use clinch_core::{Domain, Error, ErrorKind, Invalid, Result, WorkerId};
use clinch_engine::{Config, Dispatch, Handler, Handlers, Ports, Runtime};
use clinch_system::{FileJournal, SystemClock, SystemIds, TokioSpawner};

/// The domain of all measured operations.
pub const DOMAIN: &str = "bench";

/// A store that is its own queue.
pub trait FullStore:
    Store + Outbox + Recovery + Batches + Domains + Inspect + Notices + Bus + 'static
{
}

impl<S> FullStore for S where
    S: Store + Outbox + Recovery + Batches + Domains + Inspect + Notices + Bus + 'static
{
}

/// The parts of an engine besides its store.
pub struct Node {
    worker: WorkerId,
    clock: Arc<SystemClock>,
    folder: PathBuf,
}

impl Node {
    /// A node named `worker`; its journals are in `folder`.
    pub fn new(worker: &str, clock: Arc<SystemClock>, folder: &Path) -> Result<Self> {
        Ok(Self {
            worker: WorkerId::new(worker).map_err(wrong)?,
            clock,
            folder: folder.to_owned(),
        })
    }

    /// An engine on this store, on the caller's runtime. Without an executor it only accepts.
    pub async fn engine<S: FullStore>(
        &self,
        store: Arc<S>,
        executor: Option<Arc<dyn Executor>>,
    ) -> Result<Runtime> {
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
            alert: Arc::new(NoAlerts),
            clock: self.clock.clone(),
            ids: Arc::new(SystemIds),
            spawner: Arc::new(TokioSpawner::new(tokio::runtime::Handle::current())),
            shed: None,
            meter: Arc::new(Untold),
            tracer: Arc::new(Untold),
        };
        let handler = Handler {
            executor,
            ..Handler::new(rules())
        };
        let domain = Domain::new(DOMAIN).map_err(wrong)?;
        let handlers = Handlers::new().with(domain, EventTypes::Any, handler);
        let config = Config {
            concurrency: 2_000,
            batch: 1_000,
            ..Config::new(self.worker.clone())
        };
        Runtime::new(ports, handlers, config)
    }

    async fn journal(&self) -> Result<Arc<FileJournal>> {
        let name = SystemIds.attempt_id().to_string();
        let journal = FileJournal::open(self.folder.join(name)).await;
        journal.map(Arc::new)
    }
}

fn rules() -> Rules {
    Rules {
        safety: Safety::Natural,
        ..Rules::default()
    }
}

/// The routes of every engine in the benchmarks.
pub fn routes() -> Result<Routes, Invalid> {
    Ok(Routes::new().with(Domain::new(DOMAIN)?, EventTypes::Any, rules()))
}

fn wrong(invalid: Invalid) -> Error {
    Error::new(ErrorKind::Invalid, invalid.to_string())
}

/// Ignores alerts.
struct NoAlerts;

#[async_trait]
impl Alert for NoAlerts {
    async fn raise(&self, _note: &AlertNote) -> Result<()> {
        Ok(())
    }
}
