//! The real engine: SQLite is the truth, Redis carries the hints.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{EventTypes, Rules, Safety};
use clinch_core::ports::{Alert, AlertNote, Attempt, Clock, Executor, PlainText, Untold};
use clinch_core::{
    BizKey, Command, Domain, Envelope, EventType, IdemKey, Keys, OpId, Outcome, Payload, Result,
    Status, Success, WorkerId,
};
use clinch_engine::{Config, Dispatch, Handler, Handlers, Ports, Runtime};
use clinch_redis::RedisBus;
use clinch_sqlite::{Settings, Sqlite};
use clinch_system::{FileJournal, SystemClock, SystemIds, TokioSpawner};
use tokio::sync::Semaphore;

use crate::support::secs;

/// How often each operation had its effect.
pub(crate) struct Provider {
    effects: Mutex<BTreeMap<OpId, u32>>,
    /// Calls go on while they can take one.
    pub(crate) gate: Semaphore,
}

#[async_trait]
impl Executor for Provider {
    async fn execute(&self, envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        let go = self.gate.acquire().await.expect("never closed");
        go.forget();
        let mut effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
        *effects.entry(envelope.op_id).or_default() += 1;
        Outcome::Ok(Success::new(Payload::null()))
    }
}

struct Nobody;

#[async_trait]
impl Alert for Nobody {
    async fn raise(&self, _note: &AlertNote) -> Result<()> {
        Ok(())
    }
}

/// One node on a file of its own.
pub(crate) struct Node {
    pub(crate) runtime: Runtime,
    pub(crate) provider: Arc<Provider>,
    folder: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.runtime.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Node {
    pub(crate) async fn start(bus: RedisBus) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("clinch-redis-engine-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let file = folder.join("clinch.db");
        let store = Sqlite::open(file, Settings::default(), clock.clone());
        let store = Arc::new(store.expect("a store"));
        let journal = FileJournal::open(folder.join("journal")).await;
        let journal = Arc::new(journal.expect("a journal"));
        let ports = Ports {
            store: store.clone(),
            outbox: store.clone(),
            recovery: store.clone(),
            batches: store.clone(),
            domains: store.clone(),
            inspect: store.clone(),
            notices: store,
            dispatch: Dispatch::Hints(Arc::new(bus)),
            sealer: Arc::new(PlainText),
            spill: journal.clone(),
            dead_letter_file: journal,
            alert: Arc::new(Nobody),
            clock,
            ids: Arc::new(SystemIds),
            spawner: Arc::new(TokioSpawner::current().expect("a runtime")),
            shed: None,
            meter: Arc::new(Untold),
            tracer: Arc::new(Untold),
        };
        let provider = Arc::new(Provider {
            effects: Mutex::default(),
            gate: Semaphore::new(0),
        });
        let rules = Rules {
            safety: Safety::Unsafe,
            ..Rules::default()
        };
        let handler = Handler {
            executor: Some(provider.clone()),
            ..Handler::new(rules)
        };
        let domain = Domain::new("payments").expect("a name");
        let handlers = Handlers::new().with(domain, EventTypes::Any, handler);
        let config = Config {
            concurrency: 8,
            // What the bus lost is announced again soon.
            sweep_grace: Duration::from_millis(300),
            sweep_pause_max: secs(1),
            fallback_poll: Duration::from_millis(500),
            ..Config::new(WorkerId::new("node").expect("a name"))
        };
        let runtime = Runtime::new(ports, handlers, config).expect("an engine");
        let running = runtime.clone();
        tokio::spawn(async move { running.run().await });
        Self {
            runtime,
            provider,
            folder,
        }
    }

    pub(crate) async fn submit(&self, count: usize) -> Vec<OpId> {
        let command = |number: usize| {
            let keys = Keys {
                domain: Domain::new("payments").expect("a name"),
                event_type: EventType::new("charge").expect("a name"),
                biz_key: BizKey::new(format!("order-{number}")).expect("a key"),
                idem_key: IdemKey::new(format!("idem-{number}")).expect("a key"),
            };
            Command::new(keys, Payload::null())
        };
        let commands = (0..count).map(command).collect();
        let accepted = self.runtime.orchestrator().submit(commands).await;
        let accepted = accepted.expect("accepted").into_iter();
        accepted.map(|one| one.expect("accepted").op_id).collect()
    }

    /// Lets so many more calls through, and waits until they were made.
    pub(crate) async fn let_through(&self, calls: usize) {
        let before = self.effects();
        self.provider.gate.add_permits(calls);
        while self.effects() < before + calls {
            tokio::task::yield_now().await;
        }
    }

    fn effects(&self) -> usize {
        let effects = self.provider.effects.lock();
        let effects = effects.unwrap_or_else(PoisonError::into_inner);
        effects.values().map(|count| *count as usize).sum()
    }

    /// Every operation settles, with exactly one effect.
    pub(crate) async fn all_settled_once(&self, ops: &[OpId]) {
        self.provider.gate.add_permits(Semaphore::MAX_PERMITS / 2);
        for op in ops {
            let orchestrator = self.runtime.orchestrator();
            let settled = orchestrator.await_settled(*op, secs(100)).await;
            let status = settled.expect("an answer").operation.state.status;
            assert_eq!(status, Status::Completed);
        }
        let effects = self.provider.effects.lock();
        let effects = effects.unwrap_or_else(PoisonError::into_inner);
        assert_eq!(effects.len(), ops.len(), "none was lost");
        assert!(effects.values().all(|count| *count == 1), "none had two");
    }
}
