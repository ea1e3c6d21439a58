//! What is measured.

use std::time::{Duration, Instant};

use crate::Job;

/// Why a round ended early.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Result of a measure.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Waits longer than any measure should take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// What the workers are set up for, where the documentation has other advice for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tuning {
    /// A backlog: as many jobs per second as possible.
    Throughput,
    /// One job at a time: completed as early as possible.
    Latency,
}

/// A durable job queue. Cheap to clone.
pub trait Queue: Clone + Send + Sync + 'static {
    /// Workers that run; they stop in [`Queue::stop`].
    type Workers: Send;

    /// Whether the queue can run a job in the process that adds it, without workers.
    const HAS_INLINE: bool = false;
    /// Whether workers learn of a new job at once. A queue that only polls has no figure.
    const HAS_QUEUED: bool = true;

    /// Adds one job. The job is durable when this returns.
    fn add(&self, job: Job) -> impl Future<Output = Result<()>> + Send;

    /// Adds many jobs in the fastest documented way. All are durable when this returns.
    fn add_all(&self, jobs: Vec<Job>) -> impl Future<Output = Result<()>> + Send;

    /// Starts the workers, with the settings that the documentation recommends.
    fn start(&self, tuning: Tuning) -> impl Future<Output = Result<Self::Workers>> + Send;

    /// Stops the workers.
    fn stop(&self, workers: Self::Workers) -> impl Future<Output = Result<()>> + Send;

    /// Waits until this number of jobs of the round is completed, durably.
    fn drained(&self, total: u64) -> impl Future<Output = Result<()>> + Send;

    /// Adds one job to the queue and returns when it is completed, durably. Workers run.
    fn run_queued(&self, job: Job) -> impl Future<Output = Result<()>> + Send;

    /// The same where the adding process may run the job at once.
    fn run_inline(&self, job: Job) -> impl Future<Output = Result<()>> + Send {
        self.run_queued(job)
    }
}

/// Fails with this message unless the condition holds.
pub fn ensure(holds: bool, message: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(message.into()) }
}

/// Asks again and again until the answer is true. The pause is short beside any measure.
pub async fn wait_for<F>(pause: Duration, mut ask: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    let from = Instant::now();
    while !ask().await? {
        ensure(
            from.elapsed() < TIMEOUT,
            "the jobs are not completed in time",
        )?;
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(())
}
