//! The real engine over the bus, with rows in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{EventTypes, Rules, Safety};
use clinch_core::ports::{Alert, AlertNote, Attempt, Executor, Ids, PlainText, Untold};
use clinch_core::{
    BizKey, Command, Domain, Envelope, EventType, IdemKey, Keys, OpId, Outcome, Payload, Result,
    Success, WorkerId,
};
use clinch_engine::{Config, Dispatch, Handler, Handlers, Ports, Runtime};
use clinch_memory::Memory;
use clinch_nats::NatsBus;
use clinch_system::{FileJournal, SystemClock, SystemIds, TokioSpawner};
use tokio::sync::watch;

pub(crate) const DOMAINS: [&str; 2] = ["natural", "unsafe"];

/// The provider's own book.
pub(crate) struct Provider {
    pub(crate) calls: Mutex<BTreeMap<OpId, usize>>,
    pub(crate) called: watch::Sender<usize>,
}

impl Provider {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            calls: Mutex::default(),
            called: watch::Sender::new(0),
        })
    }

    pub(crate) async fn until_called(&self, times: usize) {
        let mut called = self.called.subscribe();
        let enough = called.wait_for(|called| *called >= times).await;
        enough.expect("the sender lives");
    }
}

#[async_trait]
impl Executor for Provider {
    async fn execute(&self, envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        let mut calls = self.calls.lock().expect("no caller panics");
        *calls.entry(envelope.op_id).or_default() += 1;
        self.called.send_modify(|called| *called += 1);
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

pub(crate) fn command(number: usize) -> Command {
    let keys = Keys {
        domain: Domain::new(DOMAINS[number % 2]).expect("valid"),
        event_type: EventType::new("call").expect("valid"),
        biz_key: BizKey::new(format!("order-{number}")).expect("valid"),
        idem_key: IdemKey::new(format!("key-{number}")).expect("valid"),
    };
    let payload = Payload::parse(&format!("{{\"n\":{number}}}"), 1_000).expect("valid");
    Command::new(keys, payload)
}

/// Lost hints are announced again after a second.
pub(crate) async fn engine(
    memory: &Memory,
    bus: NatsBus,
    provider: Arc<Provider>,
    folder: &Path,
) -> Runtime {
    let store = Arc::new(memory.clone());
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
        spill: journal(folder).await,
        dead_letter_file: journal(folder).await,
        alert: Arc::new(Nobody),
        clock: Arc::new(SystemClock::new()),
        ids: Arc::new(SystemIds),
        spawner: Arc::new(TokioSpawner::current().expect("a runtime")),
        shed: None,
        meter: Arc::new(Untold),
        tracer: Arc::new(Untold),
    };
    let mut handlers = Handlers::new();
    for (name, safety) in DOMAINS.into_iter().zip([Safety::Natural, Safety::Unsafe]) {
        let rules = Rules {
            safety,
            ..Rules::default()
        };
        let handler = Handler {
            executor: Some(provider.clone()),
            ..Handler::new(rules)
        };
        let domain = Domain::new(name).expect("valid");
        handlers = handlers.with(domain, EventTypes::Any, handler);
    }
    let config = Config {
        sweep_grace: Duration::from_secs(1),
        sweep_pause_max: Duration::from_secs(2),
        ..Config::new(WorkerId::new("worker").expect("valid"))
    };
    Runtime::new(ports, handlers, config).expect("an engine")
}

async fn journal(folder: &Path) -> Arc<FileJournal> {
    let name = folder.join(format!("journal-{}", SystemIds.attempt_id()));
    Arc::new(FileJournal::open(name).await.expect("a journal"))
}
