//! The real engine on a file, as the helper processes run it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{EventTypes, Rules, Safety};
use clinch_core::ports::{Alert, AlertNote, Attempt, Clock, Executor, Ids, PlainText, Untold};
use clinch_core::{Domain, Envelope, Outcome, Payload, Result, Success, WorkerId};
use clinch_engine::{Config, Dispatch, Handler, Handlers, Ports, Runtime};
use clinch_sqlite::Sqlite;
use clinch_system::{FileJournal, SystemClock, SystemIds, TokioSpawner};

/// Longer than any test: a process that is not woken hangs.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);

/// The provider's own record: one line per call, which survives the death of a process.
pub(crate) struct Provider {
    pub(crate) book: PathBuf,
    /// Payloads that say so kill the process when they are called.
    pub(crate) aborts: bool,
}

#[async_trait]
impl Executor for Provider {
    async fn execute(&self, envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        let line = format!("{} {}\n", std::process::id(), envelope.op_id);
        let book = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&self.book);
        book.and_then(|mut book| book.write_all(line.as_bytes()))
            .expect("the book is kept");
        if self.aborts {
            std::process::abort();
        }
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

/// An engine with both routes; leases are short, so that lost attempts are found soon.
pub(crate) async fn engine(
    sqlite: &Sqlite,
    provider: Provider,
    lease: Duration,
    fallback: Duration,
) -> Runtime {
    let store = Arc::new(sqlite.clone());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
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
        spill: journal(sqlite.path()).await,
        dead_letter_file: journal(sqlite.path()).await,
        alert: Arc::new(Nobody),
        clock,
        ids: Arc::new(SystemIds),
        spawner: Arc::new(TokioSpawner::current().expect("a runtime")),
        shed: None,
        meter: Arc::new(Untold),
        tracer: Arc::new(Untold),
    };
    let provider = Arc::new(provider);
    let mut handlers = Handlers::new();
    for (name, safety) in [("natural", Safety::Natural), ("unsafe", Safety::Unsafe)] {
        let rules = Rules {
            safety,
            lease,
            ..Rules::default()
        };
        let handler = Handler {
            executor: Some(provider.clone()),
            ..Handler::new(rules)
        };
        let domain = Domain::new(name).expect("valid");
        handlers = handlers.with(domain, EventTypes::Any, handler);
    }
    let worker = WorkerId::new(format!("process-{}", std::process::id())).expect("valid");
    let config = Config {
        concurrency: 16,
        lease,
        fallback_poll: fallback,
        finalizer_interval: fallback,
        reaper_interval: fallback,
        ..Config::new(worker)
    };
    Runtime::new(ports, handlers, config).expect("an engine")
}

async fn journal(beside: &Path) -> Arc<FileJournal> {
    let name = beside.with_file_name(format!("journal-{}", SystemIds.attempt_id()));
    Arc::new(FileJournal::open(name).await.expect("a journal"))
}
