//! The measures of `clinch-peers-load` on effectum: jobs in an SQLite file, one process.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clinch_peers_load::{Counter, Job, Queue, Result, Tuning};
use effectum::{Error, JobRunner, RunningJob, Worker};

const JOB_TYPE: &str = "call";
/// Jobs at once. Fewer than 500 drain more slowly, more do not drain faster.
const CONCURRENCY: u16 = 500;

/// One queue on one file.
#[derive(Clone)]
struct Effectum {
    queue: Arc<effectum::Queue>,
    completed: Arc<Counter>,
}

impl Queue for Effectum {
    type Workers = Worker;

    async fn add(&self, job: Job) -> Result<()> {
        self.queue.add_job(stored(&job)).await?;
        Ok(())
    }

    async fn add_all(&self, jobs: Vec<Job>) -> Result<()> {
        let jobs = jobs.iter().map(stored).collect();
        self.queue.add_jobs(jobs).await?;
        Ok(())
    }

    async fn start(&self, _tuning: Tuning) -> Result<Worker> {
        let worker = Worker::builder(&self.queue, self.completed.clone())
            .max_concurrency(CONCURRENCY)
            .jobs([JobRunner::builder(JOB_TYPE, call).build()])
            .build();
        Ok(worker.await?)
    }

    async fn stop(&self, workers: Worker) -> Result<()> {
        Ok(workers.unregister(None).await?)
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

/// Completes itself, to learn when the completion is durable.
async fn call(job: RunningJob, completed: Arc<Counter>) -> Result<(), Error> {
    job.complete(Job::result()).await?;
    completed.add();
    Ok(())
}

fn stored(job: &Job) -> effectum::Job {
    let payload = job.json().into_bytes();
    effectum::Job::builder(JOB_TYPE).payload(payload).build()
}

fn main() -> ExitCode {
    clinch_peers_load::main(async |folder: String| {
        let file = Path::new(&folder).join("effectum.db");
        Ok(Effectum {
            queue: Arc::new(effectum::Queue::new(&file).await?),
            completed: Arc::default(),
        })
    })
}
