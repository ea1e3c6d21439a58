//! Queries: runs, jobs, cursors, tokens, documents. Also starts runs and resumes unplanned ones.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use clinch::ports::{DOCUMENTS_MAX, Document, DocumentFilter, Filter, Operation};
use clinch::types::{BatchId, Domain, ErrorKind, EventType, Phase, Status};
use clinch::{Error, Result};
use serde::Serialize;

use crate::collector::{Collector, Inner};
use crate::model::{Job, JobKind, JobState, Jobs, PageDone, Run, RunId, RunStatus, Space, Trigger};
use crate::records::{Cursor, Figures};
use crate::routes::DOMAIN;
use crate::tokens::TokenView;

/// Rows that are read at once.
const PAGE: usize = 500;
/// Newest runs that are searched for active or unplanned ones; older runs have ended.
const RECENT_MAX: usize = 1_000;

/// A filter for jobs.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Only jobs in this state.
    pub state: Option<JobState>,
    /// Only jobs of this kind.
    pub kind: Option<JobKind>,
    /// Only jobs of this repair; 0: of the run itself.
    pub repair: u32,
}

/// A run with its current jobs by kind.
#[derive(Debug, Clone, Serialize)]
pub struct Progress {
    /// The run.
    pub run: Run,
    /// Jobs by kind.
    pub kinds: BTreeMap<JobKind, Jobs>,
    /// Jobs that wait for their next attempt.
    pub waiting: u64,
    /// Time of the first of these attempts.
    pub next_at: Option<clinch::types::Timestamp>,
}

impl Collector {
    /// Begins a run. `Conflict`: a run of the same user is active.
    pub async fn start(&self, login: &str, trigger: Trigger, space: Space) -> Result<Run> {
        self.inner.start(login, trigger, space).await
    }

    /// A run, with the current counts of its jobs.
    pub async fn run(&self, id: &RunId) -> Result<Run> {
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no run {id}"));
        let run = self.inner.records.run(id).await?.ok_or_else(missing)?;
        self.inner.counted(run).await
    }

    /// The latest run of a user.
    pub async fn latest(&self, login: &str, space: Space) -> Result<Option<Run>> {
        let login = login.to_ascii_lowercase();
        match self.inner.records.latest(&login, space).await? {
            Some(run) => Ok(Some(self.inner.counted(run).await?)),
            None => Ok(None),
        }
    }

    /// Runs, newest first, and the cursor of the next page.
    pub async fn runs(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<Run>, Option<String>)> {
        let (runs, next) = self.inner.records.runs(after, limit.clamp(1, PAGE)).await?;
        let mut counted = Vec::with_capacity(runs.len());
        for run in runs {
            counted.push(self.inner.counted(run).await?);
        }
        Ok((counted, next))
    }

    /// The progress of a run.
    pub async fn progress(&self, id: &RunId) -> Result<Progress> {
        let run = self.run(id).await?;
        let mut progress = Progress {
            run,
            kinds: BTreeMap::new(),
            waiting: 0,
            next_at: None,
        };
        let filter = of_batch(id.batch("jobs", 0));
        self.inner
            .each_job(&filter, |job| {
                let jobs = progress.kinds.entry(job.kind).or_default();
                jobs.total += 1;
                match job.state {
                    JobState::Succeeded => jobs.succeeded += 1,
                    JobState::Failed => jobs.failed += 1,
                    JobState::Ready => {
                        progress.waiting += 1;
                        let first = [progress.next_at, job.not_before];
                        progress.next_at = first.into_iter().flatten().min();
                    }
                    JobState::Enqueued | JobState::Running => {}
                }
            })
            .await?;
        Ok(progress)
    }

    /// Jobs of a run or of one of its repairs, newest first, and the cursor of the next page.
    pub async fn jobs(
        &self,
        id: &RunId,
        filter: &JobFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Job>, Option<String>)> {
        self.run(id).await?;
        let mut rows = of_batch(id.batch("jobs", filter.repair));
        let kind = filter.kind.map(|kind| name(kind.as_str())).transpose()?;
        rows.event_types = Vec::from_iter(kind);
        rows.status = match filter.state {
            Some(JobState::Succeeded) => Some(Status::Completed),
            Some(JobState::Failed) => Some(Status::Failed),
            _ => None,
        };
        let page = self
            .inner
            .inspect
            .list(&rows, after, limit.clamp(1, PAGE))
            .await?;
        let mut jobs = self.inner.jobs_of(page.items)?;
        jobs.retain(|job| filter.state.is_none_or(|state| state == job.state));
        Ok((jobs, page.next_cursor))
    }

    /// Cursors of a user: kind, resource and cursor.
    pub async fn cursors(
        &self,
        login: &str,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<(JobKind, String, Cursor)>> {
        let login = login.to_ascii_lowercase();
        let records = &self.inner.records;
        records
            .cursors(&login, Space::Main, after, limit.clamp(1, PAGE))
            .await
    }

    /// Every token, identified by its hash.
    pub async fn tokens(&self) -> Result<Vec<TokenView>> {
        self.inner.tokens.view().await
    }

    /// Statistics of a user, or of all users.
    pub async fn figures(&self, login: Option<&str>, space: Space) -> Result<Option<Figures>> {
        let login = login.map(str::to_ascii_lowercase);
        self.inner.records.figures(space, login.as_deref()).await
    }

    /// One page of documents in order of their ids.
    pub async fn documents(
        &self,
        space: Space,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        let sink = &self.inner.documents;
        sink.scan(
            space.collection(),
            filter,
            after,
            limit.clamp(1, DOCUMENTS_MAX),
        )
        .await
    }

    /// Resumes runs whose planner died (COL-12), and jobs that waited for tokens which have been
    /// replaced.
    pub(crate) async fn recover(&self) -> Result<()> {
        if self
            .inner
            .records
            .note_tokens(&self.inner.tokens.hashes())
            .await?
        {
            self.wake_waiting().await?;
        }
        for run in self.recent().await? {
            if run.status.is_terminal() {
                continue;
            }
            self.inner.records.note_active(&run.run_id).await?;
            match self.inner.replan(&run).await {
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    tracing::error!(target: "clinch::github", run = %run.run_id, %error, "cannot plan a run");
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    pub(crate) async fn recent(&self) -> Result<Vec<Run>> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (runs, next) = self.inner.records.runs(after, PAGE).await?;
            all.extend(runs);
            after = next;
            if after.is_none() || all.len() >= RECENT_MAX {
                return Ok(all);
            }
        }
    }

    /// Runs that have not ended, at most [`ACTIVE_MAX`].
    async fn active(&self) -> Result<Vec<Run>> {
        let (runs, _) = self.inner.records.active_runs(None, ACTIVE_MAX).await?;
        Ok(runs)
    }

    /// Updates the gauges. Call it when metrics are scraped: there is no polling. The cost does not
    /// grow with the history: open jobs are a counter that the store maintains, and runs are read
    /// at most once a minute.
    pub async fn measure(&self) -> Result<()> {
        let tokens = &self.inner.tokens;
        crate::metrics::tokens(tokens.blocked(), tokens.size());
        let domains = self.inner.clinch()?.runtime().ports().domains.clone();
        let views = domains.domains().await?;
        let ours = views.iter().find(|view| view.domain.as_str() == DOMAIN);
        let open = ours.map_or(0, |view| {
            let counts = &view.counts;
            counts.pending + counts.live + counts.recorded + counts.waiting + counts.held
        });
        crate::metrics::jobs_pending(open);
        if self.inner.runs_are_due() {
            let runs = self.active().await?;
            let runs = runs.iter().filter(|run| !run.status.is_terminal());
            let is_finalizing = |run: &&Run| run.status == RunStatus::Finalizing;
            let statistics = runs.clone().filter(is_finalizing).count();
            crate::metrics::runs(runs.count(), statistics);
        }
        Ok(())
    }
}

impl Inner {
    /// Whether the runs have to be read again for the gauges.
    fn runs_are_due(&self) -> bool {
        let now = self.clock.monotonic();
        let mut read_at = self
            .runs_read_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_due = read_at.is_none_or(|at| now.saturating_sub(at) >= RUNS_EVERY);
        if is_due {
            *read_at = Some(now);
        }
        is_due
    }
}

/// Runs that the gauges count: the rule fires at 100, and a greater number says no more.
const ACTIVE_MAX: usize = 200;
/// How often the gauges read the runs, however often metrics are scraped.
const RUNS_EVERY: Duration = Duration::from_secs(60);

pub(crate) fn of_batch(batch_id: BatchId) -> Filter {
    Filter {
        batch_id: Some(batch_id),
        ..Filter::default()
    }
}

/// The collector's domain.
pub(crate) fn domain() -> Result<Domain> {
    Domain::new(DOMAIN).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))
}

fn name(text: &str) -> Result<EventType> {
    EventType::new(text).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))
}

impl Inner {
    /// Adds the current counts of its jobs, while the run is active.
    async fn counted(&self, mut run: Run) -> Result<Run> {
        if run.status == RunStatus::Running {
            let batch = self.clinch()?.find_batch(run.run_id.batch("jobs", 0));
            run.jobs = Jobs::from(batch.look().await?);
        }
        for repair in run
            .repairs
            .iter_mut()
            .filter(|one| one.completed_at.is_none())
        {
            let batch = self
                .clinch()?
                .find_batch(run.run_id.batch("jobs", repair.number));
            match batch.look().await {
                Ok(batch) => repair.jobs = Jobs::from(batch),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(run)
    }

    pub(crate) async fn each_row(
        &self,
        filter: &Filter,
        mut see: impl FnMut(Operation),
    ) -> Result<()> {
        let mut cursor = None;
        loop {
            let page = self.inspect.list(filter, cursor.as_deref(), PAGE).await?;
            page.items.into_iter().for_each(&mut see);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    pub(crate) async fn each_job(&self, filter: &Filter, mut see: impl FnMut(Job)) -> Result<()> {
        let mut problem = None;
        let each = |row: Operation| match self.job(row) {
            Ok(Some(job)) => see(job),
            Ok(None) => {}
            Err(error) => problem = Some(error),
        };
        self.each_row(filter, each).await?;
        problem.map_or(Ok(()), Err)
    }

    /// The operation as a job; `None`: the operation is not a page job.
    /// The operations that are jobs, as jobs.
    pub(crate) fn jobs_of(&self, rows: Vec<Operation>) -> Result<Vec<Job>> {
        let jobs = rows.into_iter().map(|row| self.job(row));
        jobs.filter_map(Result::transpose).collect()
    }

    pub(crate) fn job(&self, row: Operation) -> Result<Option<Job>> {
        let event_type = row.keys.event_type.as_str().to_owned();
        let kind = JobKind::ALL
            .into_iter()
            .find(|one| one.as_str() == event_type);
        let Some(kind) = kind else {
            return Ok(None);
        };
        let orchestrator = self.clinch()?.orchestrator();
        let snapshot = orchestrator.snapshot(row)?;
        let row = &snapshot.operation;
        let state = &row.state;
        let now = self.clock.now();
        let due = state
            .next_attempt_at
            .or(row.options.run_at)
            .filter(|at| *at > now);
        let view = match (state.status, state.phase) {
            (Status::Completed, _) => JobState::Succeeded,
            (Status::Failed, _) => JobState::Failed,
            (_, Some(Phase::Live)) => JobState::Running,
            _ if due.is_some() => JobState::Ready,
            _ => JobState::Enqueued,
        };
        let done: Option<PageDone> = snapshot.result.as_ref().and_then(|result| result.to().ok());
        let error = state.failure.as_ref();
        Ok(Some(Job {
            op_id: row.op_id,
            kind,
            resource: row.keys.biz_key.as_str().to_owned(),
            page: row
                .options
                .labels
                .get("github.page")
                .unwrap_or_default()
                .to_owned(),
            state: view,
            attempts: state.attempts,
            not_before: due.filter(|_| view == JobState::Ready),
            done,
            error: error.map(|failure| format!("{}: {}", failure.code, failure.message)),
        }))
    }
}
