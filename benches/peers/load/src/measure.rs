//! One round of measures on one system.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{Failure, Job, Queue, Result, Tuning};

/// Callers that add single jobs, and wait for each.
pub const CALLERS: u64 = 16;
/// Jobs of one bulk call.
pub const CHUNK: u64 = 1_000;
/// Callers that add chunks.
const BULK_CALLERS: u64 = 4;
/// Jobs that warm up every part: added one by one, and completed by workers.
const WARM_UP: u64 = 2_000;

/// Before the drain: a database server has the time to count its new rows, as it has had in any
/// backlog that is older than a minute.
const PAUSE: Duration = Duration::from_secs(4);

/// Numbers jobs; shared by all callers of a round.
#[derive(Clone, Default)]
struct Numbers(Arc<AtomicU64>);

impl Numbers {
    fn take(&self, count: u64) -> impl Iterator<Item = Job> + use<> {
        let first = self.0.fetch_add(count, Ordering::Relaxed);
        (first..first + count).map(Job::new)
    }

    fn made(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs all measures once: `singles` jobs are added one by one, `bulk` jobs in chunks, and
/// `samples` jobs one after the other from start to end. Returns name and value of each figure.
pub async fn round<Q: Queue>(
    queue: &Q,
    singles: u64,
    bulk: u64,
    samples: u64,
) -> Result<Vec<(&'static str, f64)>> {
    let numbers = Numbers::default();
    let mut figures = Vec::new();
    add(queue, &numbers, CALLERS, 1, WARM_UP / 2).await?;
    let workers = queue.start(Tuning::Throughput).await?;
    add(queue, &numbers, CALLERS, 1, WARM_UP / 2).await?;
    queue.drained(numbers.made()).await?;
    queue.stop(workers).await?;

    let before = numbers.made();
    figures.push(("accept", add(queue, &numbers, CALLERS, 1, singles).await?));
    let rate = add(queue, &numbers, BULK_CALLERS, CHUNK, bulk).await?;
    figures.push(("bulk", rate));

    tokio::time::sleep(PAUSE).await;
    let backlog = numbers.made() - before;
    let from = Instant::now();
    let workers = queue.start(Tuning::Throughput).await?;
    queue.drained(numbers.made()).await?;
    figures.push(("drain", backlog as f64 / from.elapsed().as_secs_f64()));
    queue.stop(workers).await?;

    let workers = queue.start(Tuning::Latency).await?;
    if Q::HAS_QUEUED {
        let queued = times(&numbers, samples, |job| queue.run_queued(job)).await?;
        figures.push(("queued_p50", queued));
    }
    if Q::HAS_INLINE {
        let inline = times(&numbers, samples, |job| queue.run_inline(job)).await?;
        figures.push(("inline_p50", inline));
    }
    queue.stop(workers).await?;
    Ok(figures)
}

/// Median milliseconds of one job, one job after the other. A tenth more jobs warm up.
async fn times<F>(numbers: &Numbers, samples: u64, run: impl Fn(Job) -> F) -> Result<f64>
where
    F: Future<Output = Result<()>>,
{
    let mut millis = Vec::new();
    let warm_up = samples / 10;
    for (sample, job) in (0..).zip(numbers.take(warm_up + samples)) {
        let from = Instant::now();
        run(job).await?;
        if sample >= warm_up {
            millis.push(from.elapsed().as_secs_f64() * 1_000.0);
        }
    }
    Ok(percentile(&mut millis, 50))
}

/// Jobs per second: each caller waits for its own durable answer before its next call.
async fn add<Q: Queue>(
    queue: &Q,
    numbers: &Numbers,
    callers: u64,
    each: u64,
    total: u64,
) -> Result<f64> {
    let left = Arc::new(AtomicU64::new(total / each));
    let from = Instant::now();
    let caller = |_| {
        let (queue, numbers, left) = (queue.clone(), numbers.clone(), left.clone());
        tokio::spawn(async move {
            let take = |left: u64| left.checked_sub(1);
            let mut added = 0;
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
            {
                if each == 1 {
                    for job in numbers.take(1) {
                        queue.add(job).await?;
                    }
                } else {
                    queue.add_all(numbers.take(each).collect()).await?;
                }
                added += each;
            }
            Ok::<u64, Failure>(added)
        })
    };
    let callers: Vec<_> = (0..callers).map(caller).collect();
    let mut added = 0;
    for caller in callers {
        added += caller.await??;
    }
    Ok(added as f64 / from.elapsed().as_secs_f64())
}

/// The percentile of these values, which are sorted; zero without values.
pub fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or_default()
}
