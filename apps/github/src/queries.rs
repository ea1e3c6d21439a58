//! Queries: runs, jobs, cursors, tokens, documents. Also starts runs and resumes unplanned ones.

use std::sync::PoisonError;
use std::time::Duration;

use clinch::ports::{DOCUMENTS_MAX, Document, DocumentFilter, Filter, Operation};
use clinch::types::{BatchId, Domain, ErrorKind, EventType, Phase, Status, Timestamp};
use clinch::{Error, Result};

use crate::collector::{Collector, Inner};
use crate::model::{Job, JobState, Jobs, PageDone, Run, RunId, RunStatus, Space, Start, Trigger};
use crate::overview::OpenJobs;
use crate::records::Cursor;
use crate::routes::DOMAIN;
use crate::statistics::Figures;
use crate::streams::JobKind;
use crate::tokens::TokenView;

/// Rows that are read at once.
const PAGE: usize = 500;

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

impl Collector {
    /// Begins a run. `Conflict`: a run of the same user is active.
    pub async fn start(&self, login: &str, trigger: Trigger, space: Space) -> Result<Run> {
        let start = Start {
            trigger,
            space,
            ..Start::default()
        };
        self.start_with(login, &start).await
    }

    /// Begins a run in the given way. `Conflict`: a run of the same user is active.
    pub async fn start_with(&self, login: &str, start: &Start) -> Result<Run> {
        self.inner.start(login, start, None).await
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
            Some(JobState::Succeeded | JobState::Unavailable) => Some(Status::Completed),
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

    /// Cursors of a user's live documents: stream, id of what it is of, and cursor. The next page begins after
    /// `STREAM/ID`.
    pub async fn cursors(
        &self,
        login: &str,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<(JobKind, String, Cursor)>> {
        let (login, live) = (login.to_ascii_lowercase(), self.inner.live().await?);
        let records = &self.inner.records;
        records
            .cursors(&login, live, after, limit.clamp(1, PAGE))
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
        let (sink, limit) = (self.inner.sink(space), limit.clamp(1, DOCUMENTS_MAX));
        sink.scan(space.collection(), filter, after, limit).await
    }

    /// The same, of documents that are gone at GitHub, as they were last seen.
    pub async fn removed(
        &self,
        space: Space,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        let (sink, limit) = (self.inner.sink(space), limit.clamp(1, DOCUMENTS_MAX));
        sink.scan(space.removed(), filter, after, limit).await
    }

    /// Resumes active runs, all of them, whose next step was not submitted or was given up
    /// (COL-12).
    pub(crate) async fn recover(&self) -> Result<()> {
        let mut after = None;
        loop {
            let (runs, next) = self.inner.records.active_runs(after, PAGE).await?;
            for run in runs {
                match self.inner.resume(&run).await {
                    Err(error) if error.is_retryable() => return Err(error),
                    Err(error) => {
                        tracing::error!(target: "clinch::github", run = %run.run_id, %error, "cannot resume a run");
                    }
                    Ok(()) => {}
                }
            }
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Sees every run that began since then, newest first, `max` of them at most. True: there are
    /// more.
    pub(crate) async fn each_run_since(
        &self,
        since: Timestamp,
        max: usize,
        mut see: impl FnMut(Run),
    ) -> Result<bool> {
        let (mut after, mut seen) = (None, 0);
        loop {
            let (runs, next) = self.inner.records.runs(after, PAGE).await?;
            for run in runs {
                // They are listed by the time that they began.
                if run.created_at < since {
                    return Ok(false);
                }
                if seen >= max {
                    return Ok(true);
                }
                seen += 1;
                see(run);
            }
            after = next;
            if after.is_none() {
                return Ok(false);
            }
        }
    }

    /// Counts the runs that have not ended, and those of them whose statistics are not computed.
    async fn count_active(&self) -> Result<(usize, usize)> {
        let (mut active, mut finalizing, mut after) = (0, 0, None);
        loop {
            let (runs, next) = self.inner.records.active_runs(after, PAGE).await?;
            let runs = runs.iter().filter(|run| !run.status.is_terminal());
            active += runs.clone().count();
            let is_finalizing = |run: &&Run| run.status == RunStatus::Finalizing;
            finalizing += runs.filter(is_finalizing).count();
            after = next;
            if after.is_none() {
                return Ok((active, finalizing));
            }
        }
    }

    /// Updates the gauges. Call it when metrics are scraped: there is no polling. The cost does not
    /// grow with the history: open jobs are a counter that the store maintains, and runs are read
    /// at most once a minute.
    pub async fn measure(&self) -> Result<()> {
        let tokens = &self.inner.tokens;
        crate::metrics::tokens(tokens.blocked(), tokens.size());
        crate::metrics::user_tokens(tokens.refused_of_users());
        let open = self.inner.open_jobs().await?;
        crate::metrics::jobs_pending(open.pending + open.running + open.waiting);
        if self.inner.runs_are_due() {
            let (active, statistics) = self.count_active().await?;
            crate::metrics::runs(active, statistics);
        }
        Ok(())
    }
}

impl Inner {
    /// The collector's open operations: counters that the store maintains.
    async fn open_jobs(&self) -> Result<OpenJobs> {
        let view = self.domain_view().await?;
        Ok(view.as_ref().map(OpenJobs::from).unwrap_or_default())
    }

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

/// How often the gauges read the runs, however often metrics are scraped.
const RUNS_EVERY: Duration = Duration::from_secs(60);

/// What a job reads, by name: its key has the repository's id.
fn resource(row: &Operation) -> String {
    let (key, labels) = (row.keys.biz_key.as_str(), &row.options.labels);
    let names = (labels.get("github.owner"), labels.get("github.repository"));
    let (Some(owner), Some(name)) = names else {
        return key.to_owned();
    };
    match key.split_once('#') {
        Some((_, item)) => format!("repo:{owner}/{name}#{item}"),
        None => format!("repo:{owner}/{name}"),
    }
}

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

    /// The operations that are jobs, as jobs.
    pub(crate) fn jobs_of(&self, rows: Vec<Operation>) -> Result<Vec<Job>> {
        let jobs = rows.into_iter().map(|row| self.job(row));
        jobs.filter_map(Result::transpose).collect()
    }

    /// The operation as a job; `None`: the operation is not a page job.
    pub(crate) fn job(&self, row: Operation) -> Result<Option<Job>> {
        let event_type = row.keys.event_type.as_str().to_owned();
        let Some(kind) = JobKind::all().find(|one| one.as_str() == event_type) else {
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
        let done: Option<PageDone> = snapshot.result.as_ref().and_then(|result| result.to().ok());
        let is_unavailable = |done: &PageDone| done.end.is_unavailable();
        let view = match (state.status, state.phase) {
            (Status::Completed, _) if done.as_ref().is_some_and(is_unavailable) => {
                JobState::Unavailable
            }
            (Status::Completed, _) => JobState::Succeeded,
            (Status::Failed, _) => JobState::Failed,
            (_, Some(Phase::Live)) => JobState::Running,
            _ if due.is_some() => JobState::Ready,
            _ => JobState::Enqueued,
        };
        let error = state.failure.as_ref();
        let error = error.map(|failure| format!("{}: {}", failure.code, failure.message));
        let reason = done.as_ref().and_then(|done| done.reason.clone());
        let last = state.last_error.as_ref().map(|last| last.message.clone());
        Ok(Some(Job {
            op_id: row.op_id,
            kind,
            run: row.options.labels.get("github.run").map(str::to_owned),
            resource: resource(row),
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
            error: error.or(reason).or(last),
        }))
    }
}
