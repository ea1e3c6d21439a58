//! All runs at a glance.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::documents::{JobDocument, time};
use super::read::{Answer, json};
use crate::{Collector, EndedJobs, Overview, WaitingJobs};

/// The jobs of one kind that ended in the last hour.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndedJobsDocument {
    /// Jobs that ended well.
    succeeded: u64,
    /// Jobs whose attempts are used up.
    failed: u64,
    /// The API does not give their resources.
    unavailable: u64,
    /// Failed ones, in percent of all.
    failed_percent: f64,
    /// Of those that succeeded, from the first attempt to the end.
    average_seconds: f64,
    /// The longest of them.
    longest_seconds: f64,
}

impl From<EndedJobs> for EndedJobsDocument {
    fn from(ended: EndedJobs) -> Self {
        let total = ended.succeeded + ended.failed + ended.unavailable;
        let seconds = |time: Duration| time.as_secs_f64();
        Self {
            succeeded: ended.succeeded,
            failed: ended.failed,
            unavailable: ended.unavailable,
            failed_percent: ended.failed as f64 * 100.0 / total.max(1) as f64,
            average_seconds: seconds(ended.average()),
            longest_seconds: seconds(ended.longest),
        }
    }
}

/// Open operations of the collector, of all runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpenJobsDocument {
    /// Not begun yet: due, or of a later time.
    pending: u64,
    /// An attempt is running.
    running: u64,
    /// They wait for their next attempt.
    waiting: u64,
}

/// Jobs of one run that wait for the same thing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitingJobsDocument {
    /// The run that they belong to.
    run_id: Option<String>,
    /// What they wait for: a budget, the next attempt after an error, a breaker, a paused domain.
    waits_for: Option<String>,
    /// How many they are, among the jobs that were looked at.
    jobs: u64,
    /// When the first of them may begin; null: nothing says when.
    next_at: Option<String>,
    /// The first of them.
    first: JobDocument,
}

impl From<WaitingJobs> for WaitingJobsDocument {
    fn from(jobs: WaitingJobs) -> Self {
        Self {
            run_id: jobs.run,
            waits_for: jobs.waits_for,
            jobs: jobs.jobs,
            next_at: jobs.next_at.map(time),
            first: jobs.first.into(),
        }
    }
}

/// All runs at a glance.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunsOverviewDocument {
    /// Runs that began in the last day, by status.
    runs: BTreeMap<String, u64>,
    /// True: there were more than the newest 10,000 runs, which were counted.
    runs_cut: bool,
    /// Jobs that have not ended.
    open: OpenJobsDocument,
    /// Jobs that were accepted in the last hour and have ended, by stream.
    kinds: BTreeMap<String, EndedJobsDocument>,
    /// The same jobs by the number of their attempts.
    attempts: BTreeMap<String, u64>,
    /// True: there were more jobs; only the newest were looked at.
    cut: bool,
    /// Jobs that wait, by run and reason, the next first, at most 200 rows. While the domain is
    /// paused or the API is not called, jobs that are due wait too.
    waiting: Vec<WaitingJobsDocument>,
    /// True: more jobs wait than the newest 2,000, which were counted, or in more than 200 rows.
    /// Other active runs are looked at by themselves, at most 50.
    waiting_cut: bool,
    /// Jobs whose attempt has been running for more than ten minutes, at most 50.
    stuck: Vec<JobDocument>,
}

impl From<Overview> for RunsOverviewDocument {
    fn from(overview: Overview) -> Self {
        let runs = overview.runs.into_iter();
        let kinds = overview.kinds.into_iter();
        let attempts = overview.attempts.into_iter();
        let waiting = overview.waiting.into_iter();
        let stuck = overview.stuck.into_iter();
        Self {
            runs: runs.map(|(name, count)| (name.to_owned(), count)).collect(),
            runs_cut: overview.is_cut_of_runs,
            open: OpenJobsDocument {
                pending: overview.open.pending,
                running: overview.open.running,
                waiting: overview.open.waiting,
            },
            kinds: kinds
                .map(|(kind, ended)| (kind.to_string(), ended.into()))
                .collect(),
            attempts: attempts
                .map(|(attempts, count)| (attempts.to_string(), count))
                .collect(),
            cut: overview.is_cut,
            waiting: waiting.map(WaitingJobsDocument::from).collect(),
            waiting_cut: overview.is_cut_of_waiting,
            stuck: stuck.map(JobDocument::from).collect(),
        }
    }
}

/// Read all runs at a glance.
///
/// Runs of the last day, jobs of the last hour by stream, jobs that wait and for what, and jobs
/// that hang.
#[utoipa::path(get, path = "/v1/github/overview", tag = "github", operation_id = "get_runs_overview",
    responses((status = 200, body = RunsOverviewDocument, description = "All runs: the last hour, who waits for what until when, and what hangs")))]
pub(crate) async fn overview(State(collector): State<Collector>) -> Answer {
    let overview = collector.overview().await?;
    json(StatusCode::OK, &RunsOverviewDocument::from(overview))
}
