//! What happened lately, over all runs: how long jobs took, how many failed, how often they were
//! repeated, which ones wait, and which ones run for too long.

use std::collections::BTreeMap;
use std::time::Duration;

use clinch::Result;
use clinch::ports::Filter;
use clinch::types::{Phase, Timestamp};

use crate::collector::Collector;
use crate::model::{Job, JobKind, JobState};
use crate::queries::domain;

/// The time that jobs are counted for.
const LATELY: Duration = Duration::from_secs(60 * 60);
/// The time that runs are counted for.
const RUNS_LATELY: Duration = Duration::from_secs(24 * 60 * 60);
/// Newest jobs that are looked at: a page stays quick however many jobs there are.
const JOBS_MAX: usize = 2_000;
/// Rows that are read at once.
const PAGE: usize = 500;
/// Jobs that wait or run for long, in one list.
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

/// What happened lately.
#[derive(Debug, Clone, Default)]
pub struct Lately {
    /// Jobs that were accepted in the last hour and have ended, by kind.
    pub kinds: BTreeMap<JobKind, EndedJobs>,
    /// The same jobs by the number of their attempts.
    pub attempts: BTreeMap<u32, u64>,
    /// Only the newest jobs were looked at.
    pub is_cut: bool,
    /// Runs of the last day, by status.
    pub runs: BTreeMap<&'static str, u64>,
    /// Jobs that wait for their next attempt, newest first.
    pub waiting: Vec<Job>,
    /// Jobs whose attempt has been running for more than ten minutes.
    pub stuck: Vec<Job>,
}

impl Collector {
    /// What happened lately. It reads a bounded number of rows.
    pub async fn lately(&self) -> Result<Lately> {
        let now = self.inner.inspect.now().await?;
        let mut lately = Lately::default();
        self.count_jobs(now, &mut lately).await?;
        for run in self.recent().await? {
            if run.created_at >= now - RUNS_LATELY {
                *lately.runs.entry(run.status.as_str()).or_default() += 1;
            }
        }
        let waiting = Filter {
            domains: vec![domain()?],
            phase: Some(Phase::Waiting),
            ..Filter::default()
        };
        let page = self.inner.inspect.list(&waiting, None, LISTED).await?;
        lately.waiting = self.inner.jobs_of(page.items)?;
        let inspect = &self.inner.inspect;
        let long = inspect.long_in_progress(now - LONG, PAGE).await?;
        let (ours, long) = (domain()?, inspect.get(&long).await?);
        let long = long.into_iter().flatten();
        let long = long.filter(|row| row.keys.domain == ours);
        let long = self.inner.jobs_of(long.collect())?.into_iter();
        let is_running = |job: &Job| job.state == JobState::Running;
        lately.stuck = long.filter(is_running).take(LISTED).collect();
        Ok(lately)
    }

    async fn count_jobs(&self, now: Timestamp, lately: &mut Lately) -> Result<()> {
        let filter = Filter {
            domains: vec![domain()?],
            from: Some(now - LATELY),
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
                lately.count(&job, took.unwrap_or_default());
            }
            cursor = page.next_cursor;
            lately.is_cut = cursor.is_some();
            if cursor.is_none() || looked_at >= JOBS_MAX {
                return Ok(());
            }
        }
    }
}

impl Lately {
    fn count(&mut self, job: &Job, took: Duration) {
        let ended = match job.state {
            JobState::Succeeded | JobState::Failed => self.kinds.entry(job.kind).or_default(),
            JobState::Ready | JobState::Enqueued | JobState::Running => return,
        };
        *self.attempts.entry(job.attempts).or_default() += 1;
        if job.state == JobState::Failed {
            ended.failed += 1;
            return;
        }
        ended.succeeded += 1;
        ended.took += took;
        ended.longest = ended.longest.max(took);
    }
}
