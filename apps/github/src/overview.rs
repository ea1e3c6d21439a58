//! All runs at a glance: how long the jobs of the last hour took, how many failed, how often they
//! were repeated, which ones wait for what, and which ones run for too long.

mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;

use clinch::Result;
use clinch::ports::{DomainView, Filter};
use clinch::types::Timestamp;

use crate::collector::Collector;
use crate::model::{Job, JobState, Run};
use crate::queries::domain;
use crate::streams::JobKind;

pub use waiting::WaitingJobs;

/// The time that jobs are counted for.
const JOBS_LATELY: Duration = Duration::from_secs(60 * 60);
/// The time that runs are counted for.
const RUNS_LATELY: Duration = Duration::from_secs(24 * 60 * 60);
/// Newest jobs that are looked at: a page stays quick however many jobs there are.
const JOBS_MAX: usize = 2_000;
/// Newest runs of the last day that are counted, for the same reason.
const RUNS_MAX: usize = 10_000;
/// Rows that are read at once.
const PAGE: usize = 500;
/// Jobs that run for long, in one list.
const LISTED: usize = 50;
/// A job that runs for longer should have been recovered.
const LONG: Duration = Duration::from_secs(10 * 60);

/// The jobs of one kind that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndedJobs {
    /// How many succeeded.
    pub succeeded: u64,
    /// How many failed.
    pub failed: u64,
    /// How many found their resource unavailable.
    pub unavailable: u64,
    /// The sum of the times of those that succeeded, from their begin to their end.
    pub took: Duration,
    /// The longest of these times.
    pub longest: Duration,
}

impl EndedJobs {
    /// The mean time of those that succeeded.
    pub fn average(&self) -> Duration {
        let count = u32::try_from(self.succeeded.max(1)).unwrap_or(u32::MAX);
        self.took / count
    }
}

/// Open operations of the collector, by what they do now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenJobs {
    /// Not begun yet: due, or of a later time.
    pub pending: u64,
    /// A worker is running them.
    pub running: u64,
    /// They wait for their next attempt.
    pub waiting: u64,
}

impl From<&DomainView> for OpenJobs {
    fn from(view: &DomainView) -> Self {
        Self {
            pending: view.counts.pending,
            running: view.counts.live + view.counts.recorded,
            waiting: view.counts.waiting + view.counts.held,
        }
    }
}

/// All runs at a glance.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// Jobs that were accepted in the last hour and have ended, by kind.
    pub kinds: BTreeMap<JobKind, EndedJobs>,
    /// The same jobs by the number of their attempts.
    pub attempts: BTreeMap<u32, u64>,
    /// Only the newest jobs were looked at.
    pub is_cut: bool,
    /// Runs of the last day, by status.
    pub runs: BTreeMap<&'static str, u64>,
    /// There were more runs than the newest 10,000, which were counted.
    pub is_cut_of_runs: bool,
    /// Open operations, of all runs.
    pub open: OpenJobs,
    /// Jobs that wait, by run and reason, the next first. While the domain is paused or the API is
    /// not called, jobs that are due wait too.
    pub waiting: Vec<WaitingJobs>,
    /// More jobs wait than were looked at, or in more ways than are listed. Every active run is
    /// there, unless there are very many.
    pub is_cut_of_waiting: bool,
    /// Jobs whose attempt has been running for more than ten minutes.
    pub stuck: Vec<Job>,
}

impl Collector {
    /// All runs at a glance. It reads a bounded number of rows.
    pub async fn overview(&self) -> Result<Overview> {
        let now = self.inner.inspect.now().await?;
        let mut overview = Overview::default();
        self.count_jobs(now, &mut overview).await?;
        let runs = &mut overview.runs;
        let count = |run: Run| *runs.entry(run.status.as_str()).or_default() += 1;
        let counted = self.each_run_since(now - RUNS_LATELY, RUNS_MAX, count);
        overview.is_cut_of_runs = counted.await?;
        let view = self.inner.domain_view().await?;
        let view = view.as_ref();
        let hold = self.inner.hold(view).await?;
        let waiting = self.inner.waiting(view, hold.as_ref()).await?;
        (overview.waiting, overview.is_cut_of_waiting) = (waiting.rows, waiting.is_cut);
        overview.open = view.map(OpenJobs::from).unwrap_or_default();
        let inspect = &self.inner.inspect;
        let long = inspect.long_in_progress(now - LONG, PAGE).await?;
        let (ours, long) = (domain()?, inspect.get(&long).await?);
        let long = long.into_iter().flatten();
        let long = long.filter(|row| row.keys.domain == ours);
        let long = self.inner.jobs_of(long.collect())?.into_iter();
        let is_running = |job: &Job| job.state == JobState::Running;
        overview.stuck = long.filter(is_running).take(LISTED).collect();
        Ok(overview)
    }

    async fn count_jobs(&self, now: Timestamp, overview: &mut Overview) -> Result<()> {
        let filter = Filter {
            domains: vec![domain()?],
            from: Some(now - JOBS_LATELY),
            ..Filter::default()
        };
        let (mut cursor, mut looked_at) = (None::<String>, 0);
        loop {
            let page = self.inner.inspect.list(&filter, cursor.as_deref(), PAGE);
            let page = page.await?;
            looked_at += page.items.len();
            for row in page.items {
                let (began, ended) = (row.started_at, row.finished_at);
                let Some(job) = self.inner.job(row)? else {
                    continue;
                };
                let took = ended.zip(began).map(|(ended, began)| ended.since(began));
                overview.count(&job, took.unwrap_or_default());
            }
            cursor = page.next_cursor;
            overview.is_cut = cursor.is_some();
            if cursor.is_none() || looked_at >= JOBS_MAX {
                return Ok(());
            }
        }
    }
}

impl Overview {
    fn count(&mut self, job: &Job, took: Duration) {
        let ended = match job.state {
            JobState::Succeeded | JobState::Failed | JobState::Unavailable => {
                self.kinds.entry(job.kind).or_default()
            }
            JobState::Ready | JobState::Enqueued | JobState::Running => return,
        };
        *self.attempts.entry(job.attempts).or_default() += 1;
        if job.state == JobState::Failed {
            ended.failed += 1;
            return;
        }
        if job.state == JobState::Unavailable {
            ended.unavailable += 1;
            return;
        }
        ended.succeeded += 1;
        ended.took += took;
        ended.longest = ended.longest.max(took);
    }
}
