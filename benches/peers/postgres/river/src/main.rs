//! The measures of `clinch-peers-load` on River for Rust: jobs in PostgreSQL, one process.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clinch_peers_load::{Counter, Job, Queue, Result, Tuning};
use riverqueue::migrate::PostgresMigrator;
use riverqueue::serde_json::json;
use riverqueue::sqlx::postgres::PgPoolOptions;
use riverqueue::{
    BoxError, Client, EventKind, EventReceiver, EventRecvError, JobArgs, QueueConfig, RunHandle,
    WorkContext, WorkOutcome, Workers,
};
use serde::{Deserialize, Serialize};

/// Connections of the pool: the callers and the workers share it.
const CONNECTIONS: u32 = 40;
/// Jobs at once.
const WORKERS: usize = 1_000;
/// The shortest that River allows. Its default, 100 ms, would limit both rate and latency.
const FETCH_COOLDOWN: Duration = Duration::from_millis(1);

#[derive(Clone, Serialize, Deserialize, JobArgs)]
#[river(kind = "call")]
struct Call {
    job: Job,
}

async fn call(context: WorkContext, _job: riverqueue::Job<Call>) -> Result<WorkOutcome, BoxError> {
    context.record_output(json!({ "ok": true }))?;
    Ok(WorkOutcome::Complete)
}

/// One queue in one database.
#[derive(Clone)]
struct River {
    client: Client,
    completed: Arc<Counter>,
}

impl River {
    async fn open(url: String) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS);
        let pool = pool.connect(&url).await?;
        PostgresMigrator::new(pool.clone()).migrate_up().await?;
        let mut workers = Workers::new();
        workers.add_fn(call)?;
        let client = Client::builder(pool)
            .workers(workers)
            .fetch_cooldown(FETCH_COOLDOWN)
            .queue("default", QueueConfig::new(WORKERS))
            .build()?;
        let completed = Arc::new(Counter::default());
        let events = client.subscribe(&[EventKind::JobCompleted])?;
        tokio::spawn(count(events, completed.clone()));
        Ok(Self { client, completed })
    }
}

/// River tells of a completion after its commit. Events that were dropped are completions too.
async fn count(mut events: EventReceiver, completed: Arc<Counter>) {
    loop {
        match events.recv().await {
            Ok(_) => completed.add(),
            Err(EventRecvError::Lagged(dropped)) => (0..dropped).for_each(|_| completed.add()),
            Err(_) => return,
        }
    }
}

impl Queue for River {
    type Workers = RunHandle;

    async fn add(&self, job: Job) -> Result<()> {
        self.client.insert(Call { job }).await?;
        Ok(())
    }

    async fn add_all(&self, jobs: Vec<Job>) -> Result<()> {
        let jobs = jobs.into_iter().map(|job| Call { job });
        self.client.insert_many(jobs).await?;
        Ok(())
    }

    async fn start(&self, _tuning: Tuning) -> Result<RunHandle> {
        Ok(self.client.start()?)
    }

    async fn stop(&self, mut workers: RunHandle) -> Result<()> {
        Ok(workers.stop().await?)
    }

    async fn drained(&self, total: u64) -> Result<()> {
        self.completed.reach(total).await;
        Ok(())
    }

    async fn run_queued(&self, job: Job) -> Result<()> {
        let goal = self.completed.count() + 1;
        self.add(job).await?;
        self.completed.reach(goal).await;
        Ok(())
    }
}

fn main() -> ExitCode {
    clinch_peers_load::main(River::open)
}
