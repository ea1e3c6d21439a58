//! The measures of `clinch-peers-load` on Clinch.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use clinch_bench::{DOMAIN, FullStore, Node};
use clinch_core::ports::{Attempt, Clock, Executor};
use clinch_core::{
    BizKey, Command, Domain, Envelope, EventType, IdemKey, Keys, Outcome, Payload, Success,
    TimeBudget,
};
use clinch_engine::{Orchestrator, Runtime};
use clinch_peers_load::{Arguments, Counter, Job, Queue, Result, Tuning, ensure, wait_for};
use clinch_postgres::Postgres;
use clinch_sqlite::Sqlite;
use clinch_system::SystemClock;
use tokio::task::JoinHandle;

/// The first argument of the program; the kind of the store and the arguments of a round follow.
pub(crate) const ARGUMENT: &str = "clinch";
const PAYLOAD_MAX: usize = 1_000;

/// Plays one round.
pub(crate) fn main(words: &[&str]) -> Result<()> {
    let [kind, rest @ ..] = words else {
        return Err("the kind of the store is missing".into());
    };
    let rest: Vec<String> = rest.iter().map(ToString::to_string).collect();
    let arguments = Arguments::parse(&rest).ok_or("PLACE SINGLES BULK SAMPLES")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let clock = Arc::new(SystemClock::new());
        if *kind == "sqlite" {
            let folder = Path::new(&arguments.place);
            let file = folder.join("clinch.db");
            let store = Sqlite::open(file, clinch_sqlite::Settings::default(), clock.clone())?;
            let clinch = Clinch::new(store, clock, folder).await?;
            return arguments.play(&clinch).await;
        }
        let url = &arguments.place;
        clinch_postgres::migrate(url).await?;
        let settings = clinch_postgres::Settings::default();
        let store = Postgres::connect(url, settings, clock.clone()).await?;
        let folder = crate::Folder::new(&std::env::temp_dir())?;
        let clinch = Clinch::new(store, clock, folder.path()).await?;
        arguments.play(&clinch).await
    })
}

/// The engine in this process, on one store.
struct Clinch<S> {
    store: Arc<S>,
    node: Arc<Node>,
    clock: Arc<SystemClock>,
    noop: Arc<Noop>,
    /// Accepts. While workers run, they are of this engine.
    engine: Arc<RwLock<Runtime>>,
}

impl<S> Clone for Clinch<S> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            node: self.node.clone(),
            clock: self.clock.clone(),
            noop: self.noop.clone(),
            engine: self.engine.clone(),
        }
    }
}

impl<S: FullStore> Clinch<S> {
    async fn new(store: S, clock: Arc<SystemClock>, folder: &Path) -> Result<Self> {
        let store = Arc::new(store);
        let node = Node::new("peers", clock.clone(), folder)?;
        let noop = Arc::new(Noop::default());
        let engine = node.engine(store.clone(), Some(noop.clone())).await?;
        Ok(Self {
            store,
            node: Arc::new(node),
            clock,
            noop,
            engine: Arc::new(RwLock::new(engine)),
        })
    }

    fn orchestrator(&self) -> Orchestrator {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        engine.orchestrator()
    }

    async fn completed(&self) -> Result<u64> {
        let views = self.store.domains().await?;
        Ok(views.iter().map(|view| view.counts.completed).sum())
    }

    /// From submit to settled.
    async fn run(&self, command: Command) -> Result<()> {
        let handle = self
            .orchestrator()
            .start(command, TimeBudget::DEFAULT)
            .await?;
        ensure(handle.completed_fast(), "an operation hangs")
    }
}

impl<S: FullStore> Queue for Clinch<S> {
    type Workers = (Runtime, JoinHandle<()>);
    const HAS_INLINE: bool = true;

    async fn add(&self, job: Job) -> Result<()> {
        // `accept` would also begin the attempt; `submit` leaves it to the queue, as the peers do.
        self.add_all(vec![job]).await
    }

    async fn add_all(&self, jobs: Vec<Job>) -> Result<()> {
        let commands: Result<Vec<Command>> = jobs.iter().map(command).collect();
        for one in self.orchestrator().submit(commands?).await? {
            one?;
        }
        Ok(())
    }

    async fn start(&self, _tuning: Tuning) -> Result<Self::Workers> {
        let executor = Some(self.noop.clone() as Arc<dyn Executor>);
        let engine = self.node.engine(self.store.clone(), executor).await?;
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = engine.clone();
        let running = engine.clone();
        Ok((
            engine,
            tokio::spawn(async move {
                running.run().await;
            }),
        ))
    }

    async fn stop(&self, (engine, running): Self::Workers) -> Result<()> {
        engine.stop();
        running.await?;
        let executor = Some(self.noop.clone() as Arc<dyn Executor>);
        let idle = self.node.engine(self.store.clone(), executor).await?;
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = idle;
        Ok(())
    }

    async fn drained(&self, total: u64) -> Result<()> {
        self.noop.called.reach(total).await;
        wait_for(Duration::from_millis(1), async || {
            Ok(self.completed().await? >= total)
        })
        .await
    }

    async fn run_queued(&self, job: Job) -> Result<()> {
        let mut command = command(&job)?;
        // An operation with `run_at` is never begun with its accept.
        command.options.run_at = Some(self.clock.now());
        self.run(command).await
    }

    async fn run_inline(&self, job: Job) -> Result<()> {
        self.run(command(&job)?).await
    }
}

fn command(job: &Job) -> Result<Command> {
    let keys = Keys {
        domain: Domain::new(DOMAIN)?,
        event_type: EventType::new("call")?,
        biz_key: BizKey::new(format!("order-{}", job.number))?,
        idem_key: IdemKey::new(format!("key-{}", job.number))?,
    };
    Ok(Command::new(
        keys,
        Payload::parse(&job.json(), PAYLOAD_MAX)?,
    ))
}

/// Answers Ok at once, with a result.
#[derive(Default)]
struct Noop {
    called: Counter,
}

#[async_trait]
impl Executor for Noop {
    async fn execute(&self, _envelope: &Envelope, _attempt: &Arc<dyn Attempt>) -> Outcome {
        self.called.add();
        let result = Payload::parse(Job::result(), PAYLOAD_MAX);
        Outcome::Ok(Success::new(result.unwrap_or_else(|_| Payload::null())))
    }
}
