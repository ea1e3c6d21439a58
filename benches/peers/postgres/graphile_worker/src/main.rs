//! The measures of `clinch-peers-load` on graphile_worker: jobs in PostgreSQL, one process.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clinch_peers_load::{Counter, Job, Queue, Result, Tuning};
use graphile_worker::{
    IntoTaskHandlerResult, JobComplete, JobSpec, LocalQueueConfig, TaskHandler, Worker,
    WorkerContext, WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinHandle;

/// Connections of the pool: the callers and the workers share it.
const CONNECTIONS: u32 = 40;
/// For throughput: the fastest of several values around those of the documentation, which are 16,
/// 5 ms, 100 and 1.
const CONCURRENCY: usize = 64;
const BATCH_DELAY: Duration = Duration::from_millis(2);
const LOCAL_QUEUE: usize = 1_000;
const LOCAL_QUEUES: usize = 2;

#[derive(Clone, Serialize, Deserialize)]
struct Call(Job);

impl TaskHandler for Call {
    const IDENTIFIER: &'static str = "call";

    async fn run(self, _context: WorkerContext) -> impl IntoTaskHandlerResult {
        Ok::<(), String>(())
    }
}

/// One queue in one database.
#[derive(Clone)]
struct Graphile {
    pool: PgPool,
    utils: Arc<WorkerUtils>,
    completed: Arc<Counter>,
}

impl Graphile {
    async fn open(url: String) -> Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .connect(&url)
            .await?;
        // Creates the tables.
        let worker = options(&pool).init().await?;
        let utils = Arc::new(worker.create_utils());
        Ok(Self {
            pool,
            utils,
            completed: Arc::default(),
        })
    }
}

impl Queue for Graphile {
    type Workers = (Arc<Worker>, JoinHandle<()>);

    async fn add(&self, job: Job) -> Result<()> {
        self.utils.add_job(Call(job), JobSpec::default()).await?;
        Ok(())
    }

    async fn add_all(&self, jobs: Vec<Job>) -> Result<()> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = jobs.into_iter().map(|job| (Call(job), &spec)).collect();
        self.utils.add_jobs::<Call>(&jobs).await?;
        Ok(())
    }

    async fn start(&self, tuning: Tuning) -> Result<Self::Workers> {
        let completed = self.completed.clone();
        let mut options = options(&self.pool).on(JobComplete, move |_| {
            completed.add();
            async {}
        });
        if tuning == Tuning::Throughput {
            options = options
                .concurrency(CONCURRENCY)
                .complete_job_batch_delay(BATCH_DELAY)
                .local_queue(
                    LocalQueueConfig::default()
                        .with_size(LOCAL_QUEUE)
                        .with_queue_count(LOCAL_QUEUES),
                );
        }
        let worker = Arc::new(options.init().await?);
        let running = worker.clone();
        let running = tokio::spawn(async move {
            if let Err(error) = running.run().await {
                eprintln!("graphile_worker: {error}");
            }
        });
        Ok((worker, running))
    }

    async fn stop(&self, (worker, running): Self::Workers) -> Result<()> {
        worker.request_shutdown();
        Ok(running.await?)
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

fn options(pool: &PgPool) -> WorkerOptions {
    WorkerOptions::default()
        .pg_pool(pool.clone())
        .listen_os_shutdown_signals(false)
        .define_job::<Call>()
}

fn main() -> ExitCode {
    clinch_peers_load::main(Graphile::open)
}
