//! The measures of `clinch-peers-load` on apalis: jobs in an SQLite file, one process.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apalis::prelude::{BackendExt, BoxDynError, Data, TaskSink, WorkerBuilder, WorkerBuilderExt};
use apalis_sqlite::{Config, SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteStorage};
use clinch_peers_load::{Counter, Job, Queue, Result, Tuning, wait_for};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use tokio::task::JoinHandle;

/// Jobs of one claim, and jobs at once: the default. Larger values are slower, because the statement
/// that completes a batch compares each of its jobs with every job that the worker ever took.
const BATCH: usize = 10;

/// One queue on one file.
#[derive(Clone)]
struct Apalis {
    storage: SqliteStorage<Job>,
    /// Reads only, beside the writer.
    reader: SqlitePool,
    run: Arc<Counter>,
    /// Wakes the worker that runs now.
    wake: Arc<Mutex<Option<UnboundedSender<()>>>>,
}

impl Apalis {
    async fn open(folder: String) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(Path::new(&folder).join("apalis.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        // Several connections that write would wait for each other's locks.
        let pool = SqlitePoolOptions::new().max_connections(1);
        let pool = pool.connect_with(options.clone()).await?;
        // `SqliteStorage::setup` would also turn syncing off.
        SqliteStorage::migrations().run(&pool).await?;
        let config = Config::default().queue("call").batch_size(BATCH);
        Ok(Self {
            storage: SqliteStorage::new(&pool).with_config(config),
            reader: SqlitePoolOptions::new().connect_with(options).await?,
            run: Arc::default(),
            wake: Arc::default(),
        })
    }

    fn wake(&self) {
        let wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wake) = wake.as_ref() {
            // The worker may have stopped.
            let _ = wake.unbounded_send(());
        }
    }
}

impl Queue for Apalis {
    type Workers = JoinHandle<()>;

    async fn add(&self, job: Job) -> Result<()> {
        self.storage.clone().push(job).await?;
        self.wake();
        Ok(())
    }

    async fn add_all(&self, jobs: Vec<Job>) -> Result<()> {
        self.storage.clone().push_bulk(jobs).await?;
        self.wake();
        Ok(())
    }

    async fn start(&self, _tuning: Tuning) -> Result<JoinHandle<()>> {
        let (wake, woken) = unbounded();
        *self.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
        let worker = WorkerBuilder::new(format!("worker-{}", self.run.count()))
            .backend(self.storage.clone().poll_with_stream(woken))
            .data(self.run.clone())
            .concurrency(BATCH)
            .build(call);
        let running = tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("apalis: {error}");
            }
        });
        self.wake();
        Ok(running)
    }

    async fn stop(&self, workers: JoinHandle<()>) -> Result<()> {
        // It has nothing to do: every job is completed.
        workers.abort();
        Ok(())
    }

    async fn drained(&self, total: u64) -> Result<()> {
        self.run.reach(total).await;
        let open = "SELECT EXISTS (SELECT 1 FROM Jobs WHERE status <> 'Done')";
        wait_for(Duration::from_millis(1), async || {
            let open: bool = sqlx::query_scalar(open).fetch_one(&self.reader).await?;
            Ok(!open)
        })
        .await
    }

    async fn run_queued(&self, job: Job) -> Result<()> {
        let goal = self.run.count() + 1;
        self.add(job).await?;
        self.run.reach(goal).await;
        let last = "SELECT status = 'Done' FROM Jobs ORDER BY rowid DESC LIMIT 1";
        wait_for(Duration::ZERO, async || {
            Ok(sqlx::query_scalar(last).fetch_one(&self.reader).await?)
        })
        .await
    }
}

async fn call(_job: Job, run: Data<Arc<Counter>>) -> Result<String, BoxDynError> {
    run.add();
    Ok(Job::result().to_owned())
}

fn main() -> ExitCode {
    clinch_peers_load::main(Apalis::open)
}
