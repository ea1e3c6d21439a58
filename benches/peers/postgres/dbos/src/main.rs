//! The measures of `clinch-peers-load` on DBOS for Rust: workflows in PostgreSQL, one process.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clinch_peers_load::{Counter, Job, Queue, Result, Tuning, wait_for};
use dbos::{
    Client, ClientConfig, Config, DBOS, EngineOnly, QueueConflict, QueueOptions, WorkflowHandle,
    WorkflowRef,
};
use sqlx::PgPool;
use tokio::sync::RwLock;

const APPLICATION: &str = "bench";
const WORKFLOW: &str = "call";
const QUEUE: &str = "calls";
/// Connections of each pool.
const CONNECTIONS: u32 = 20;
/// Between two claims. One second by default, and at the start in any case. So the queue has no
/// limit of concurrency: the first claim takes the whole backlog.
const POLLING_INTERVAL: Duration = Duration::from_millis(10);

type Call = WorkflowRef<Job, String, EngineOnly>;

/// One queue in one database.
#[derive(Clone)]
struct Dbos {
    url: String,
    client: Client,
    pool: PgPool,
    run: Arc<Counter>,
    /// The workflow of the instance that runs now.
    call: Arc<RwLock<Option<Call>>>,
}

impl Dbos {
    async fn open(url: String) -> Result<Self> {
        // Creates the tables.
        let first = DBOS::new(config(&url));
        first.launch().await?;
        let options = QueueOptions {
            polling_interval: POLLING_INTERVAL,
            ..QueueOptions::default()
        };
        first
            .register_queue(QUEUE, options, QueueConflict::UpdateIfLatestVersion)
            .await?;
        first.shutdown().await;
        let client = ClientConfig {
            app_name: Some(APPLICATION.to_owned()),
            max_connections: CONNECTIONS,
            ..ClientConfig::new(url.clone())
        };
        Ok(Self {
            client: Client::connect(client).await?,
            pool: PgPool::connect(&url).await?,
            run: Arc::default(),
            call: Arc::default(),
            url,
        })
    }
}

impl Queue for Dbos {
    type Workers = DBOS;
    const HAS_INLINE: bool = true;
    const HAS_QUEUED: bool = false;

    async fn add(&self, job: Job) -> Result<()> {
        let _: WorkflowHandle<String> = self.client.enqueue(WORKFLOW, QUEUE, job).await?;
        Ok(())
    }

    /// DBOS has no bulk call.
    async fn add_all(&self, jobs: Vec<Job>) -> Result<()> {
        for job in jobs {
            self.add(job).await?;
        }
        Ok(())
    }

    async fn start(&self, _tuning: Tuning) -> Result<DBOS> {
        let dbos = DBOS::new(config(&self.url));
        let run = self.run.clone();
        let call = dbos.register_workflow(WORKFLOW, move |_: Job| {
            run.add();
            async { Ok(Job::result().to_owned()) }
        })?;
        dbos.launch().await?;
        *self.call.write().await = Some(call);
        Ok(dbos)
    }

    async fn stop(&self, workers: DBOS) -> Result<()> {
        *self.call.write().await = None;
        workers.shutdown().await;
        Ok(())
    }

    async fn drained(&self, total: u64) -> Result<()> {
        self.run.reach(total).await;
        let open = "SELECT EXISTS (SELECT FROM dbos.workflow_status WHERE status <> 'SUCCESS')";
        wait_for(Duration::from_millis(5), async || {
            let open: bool = sqlx::query_scalar(open).fetch_one(&self.pool).await?;
            Ok(!open)
        })
        .await
    }

    async fn run_queued(&self, job: Job) -> Result<()> {
        self.run_inline(job).await
    }

    async fn run_inline(&self, job: Job) -> Result<()> {
        let call = self.call.read().await;
        let call = call.as_ref().ok_or("no instance runs")?;
        call.run(job).await?;
        Ok(())
    }
}

fn config(url: &str) -> Config {
    Config {
        app_version: Some("1".to_owned()),
        max_connections: CONNECTIONS,
        ..Config::new(APPLICATION, url)
    }
}

fn main() -> ExitCode {
    clinch_peers_load::main(Dbos::open)
}
