//! The response documents. Times are RFC 3339.

use std::collections::BTreeMap;

use clinch::ports::Document;
use clinch::types::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    Cursor, Job, JobKind, Jobs, PageDone, Pages, Progress, Repair, Run, Space, TokenView,
    Unavailable,
};

/// `2026-11-15T08:00:00.123Z`
pub(crate) fn time(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(at.as_millis());
    let at = at.unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// The name that a value serializes to.
fn name(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Numbers of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobsDocument {
    /// All jobs, whatever became of them.
    total: u64,
    /// Jobs that ended well.
    succeeded: u64,
    /// Jobs whose attempts are used up.
    failed: u64,
    /// The API does not give their resources: gone, blocked or empty.
    unavailable: u64,
    /// Not ended yet.
    open: u64,
}

impl From<Jobs> for JobsDocument {
    fn from(jobs: Jobs) -> Self {
        Self {
            total: jobs.total,
            succeeded: jobs.succeeded,
            failed: jobs.failed,
            unavailable: jobs.unavailable,
            open: jobs.open(),
        }
    }
}

/// Results of a run's requests; known when all its jobs have ended. A single active run has its
/// documents so far.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PagesDocument {
    /// Pages that were read.
    fetched: u64,
    /// Requests that were answered with "not modified".
    not_modified: u64,
    /// Pages known from an earlier run that did not have to be requested.
    skipped: u64,
    /// Documents that were stored.
    documents: u64,
    /// Documents that are gone at GitHub, and were put aside.
    removed: u64,
}

impl From<Pages> for PagesDocument {
    fn from(pages: Pages) -> Self {
        Self {
            fetched: pages.fetched,
            not_modified: pages.not_modified,
            skipped: pages.skipped,
            documents: pages.documents,
            removed: pages.removed,
        }
    }
}

/// Failed jobs that were retried after the run had ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RepairDocument {
    /// The number of the repair, from 1.
    number: u32,
    /// The jobs that were retried.
    jobs: JobsDocument,
    /// When all of them had ended; null: some have not.
    completed_at: Option<String>,
}

impl From<Repair> for RepairDocument {
    fn from(repair: Repair) -> Self {
        Self {
            number: repair.number,
            jobs: repair.jobs.into(),
            completed_at: repair.completed_at.map(time),
        }
    }
}

/// A run: the collection of one user's data.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunDocument {
    /// LOGIN.NUMBER, or LOGIN.shadow.NUMBER.
    run_id: String,
    /// The user's login at GitHub.
    login: String,
    /// Its documents go to the shadow.
    shadow: bool,
    /// It begins from the beginning, into a shadow that is not live, to be compared.
    trial: bool,
    /// CREATED, PLANNING, RUNNING, FINALIZING, COMPLETED, FAILED or CANCELED.
    status: String,
    /// MANUAL, SCHEDULED or EVENT.
    trigger: String,
    /// Everything is read, not only what changed.
    full: bool,
    /// Kinds of documents that it collects.
    streams: Vec<String>,
    /// Names of the repositories that it reads, without their owner; empty: all, or those of the
    /// search.
    repositories: Vec<String>,
    /// The search whose results it reads.
    search: Option<String>,
    /// Dated documents before this time are left out.
    since: Option<String>,
    /// Dated documents after this time are left out.
    until: Option<String>,
    /// Selected repositories that the user does not own, OWNER/NAME; known when all jobs have ended.
    missing: Vec<String>,
    /// Its jobs, by how they ended.
    jobs: JobsDocument,
    /// What its requests brought.
    pages: PagesDocument,
    /// pending, done or failed.
    statistics: String,
    /// Retries of its failed jobs, the first one first.
    repairs: Vec<RepairDocument>,
    /// When the run was asked for.
    created_at: String,
    /// When its first job began; null: none began.
    started_at: Option<String>,
    /// When it ended; null: it is active.
    completed_at: Option<String>,
    /// Why the run failed or was canceled.
    error: Option<String>,
}

impl From<Run> for RunDocument {
    fn from(run: Run) -> Self {
        Self {
            run_id: run.run_id.to_string(),
            login: run.run_id.login,
            shadow: run.run_id.space == Space::Shadow,
            trial: run.is_trial,
            status: run.status.as_str().to_owned(),
            trigger: name(run.trigger),
            full: run.is_full,
            streams: run
                .streams
                .iter()
                .map(|kind| kind.document().to_owned())
                .collect(),
            repositories: run.selection.repositories,
            search: run.selection.search,
            since: run.bounds.since,
            until: run.bounds.until,
            missing: run.missing,
            jobs: run.jobs.into(),
            pages: run.pages.into(),
            statistics: name(run.statistics),
            repairs: run.repairs.into_iter().map(RepairDocument::from).collect(),
            created_at: time(run.created_at),
            started_at: run.started_at.map(time),
            completed_at: run.completed_at.map(time),
            error: run.error,
        }
    }
}

/// A run with its jobs by kind.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProgressDocument {
    #[serde(flatten)]
    run: RunDocument,
    /// Jobs by stream, such as user_basic, repo_issues or repo_commits.
    kinds: BTreeMap<String, JobsDocument>,
    /// True: the run is active and has many jobs; `kinds` has only jobs that have ended.
    counts_ended_only: bool,
    /// Requests that the API answered so far.
    requests: u64,
    /// Jobs that wait for their next attempt, among the newest 2,000. While the domain is paused or
    /// the API is not called, due jobs wait too.
    waiting: u64,
    /// Time of the first of these attempts; null: nothing waits, or nothing says for how long.
    next_at: Option<String>,
    /// What the job with that attempt waits for; without such a job, what the next step of the run
    /// waits for.
    waits_for: Option<String>,
    /// Every open job waits, among the newest 2,000.
    all_wait: bool,
    /// The first resources that are unavailable, at most 100.
    unavailable: Vec<UnavailableDocument>,
}

/// A resource that the API does not give.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnavailableDocument {
    /// What was requested: user:LOGIN or repo:OWNER/NAME.
    resource: String,
    /// Status and message of the API.
    reason: String,
}

impl From<Unavailable> for UnavailableDocument {
    fn from(unavailable: Unavailable) -> Self {
        Self {
            resource: unavailable.resource,
            reason: unavailable.reason,
        }
    }
}

impl From<Progress> for ProgressDocument {
    fn from(mut progress: Progress) -> Self {
        let unavailable = std::mem::take(&mut progress.run.unavailable);
        let by_kind = |(kind, jobs): (JobKind, Jobs)| (kind.to_string(), jobs.into());
        Self {
            run: progress.run.into(),
            kinds: progress.kinds.into_iter().map(by_kind).collect(),
            counts_ended_only: progress.counts_ended_only,
            requests: progress.requests,
            waiting: progress.waiting,
            next_at: progress.next_at.map(time),
            waits_for: progress.waits_for,
            all_wait: progress.all_wait,
            unavailable: unavailable.into_iter().map(Into::into).collect(),
        }
    }
}

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunPage {
    /// Newest first. May hold fewer runs than requested although more exist.
    pub(crate) runs: Vec<RunDocument>,
    /// Pass it as `cursor` to get the next page; null: this was the last.
    pub(crate) next_cursor: Option<String>,
}

/// A run whose failed jobs are being retried.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetryDocument {
    /// The run after the request.
    pub(crate) run: RunDocument,
    /// Number of retried jobs.
    pub(crate) retried: u64,
}

/// The result of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PageDocument {
    /// stored, not_modified, nothing, moved, unavailable or empty.
    end: String,
    /// Documents that were stored.
    documents: u64,
    /// Items that were already known.
    skipped: u64,
    /// The hash of the token that was used.
    token: Option<String>,
}

impl From<PageDone> for PageDocument {
    fn from(done: PageDone) -> Self {
        Self {
            end: name(done.end),
            documents: done.documents,
            skipped: done.skipped,
            token: done.token,
        }
    }
}

/// A job: one request to the API.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobDocument {
    /// The id of its operation.
    op_id: String,
    /// The run that it belongs to.
    run_id: Option<String>,
    /// The stream, such as repo_issues.
    kind: String,
    /// What was requested: user:LOGIN or repo:OWNER/NAME.
    resource: String,
    /// The page of the resource that it requests.
    page: String,
    /// READY, ENQUEUED, RUNNING, SUCCEEDED, FAILED or UNAVAILABLE.
    state: String,
    /// Attempts so far that count against the maximum.
    attempts: u32,
    /// The next attempt begins no earlier; null: no attempt is planned.
    not_before: Option<String>,
    /// What the job brought; null: it has not succeeded.
    done: Option<PageDocument>,
    /// Why the job failed, why its resource is unavailable, or what an open job waits for.
    error: Option<String>,
}

impl From<Job> for JobDocument {
    fn from(job: Job) -> Self {
        Self {
            op_id: job.op_id.to_string(),
            run_id: job.run,
            kind: job.kind.to_string(),
            resource: job.resource,
            page: job.page,
            state: name(job.state),
            attempts: job.attempts,
            not_before: job.not_before.map(time),
            done: job.done.map(PageDocument::from),
            error: job.error,
        }
    }
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPage {
    /// May hold fewer jobs than requested although more exist.
    pub(crate) jobs: Vec<JobDocument>,
    /// Pass it as `cursor` to get the next page; null: this was the last.
    pub(crate) next_cursor: Option<String>,
}

/// Where the next run continues with a resource.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CursorDocument {
    /// The stream, such as repo_issues.
    kind: String,
    /// What was requested: user:LOGIN or repo:OWNER/NAME.
    resource: String,
    /// Id of the newest item.
    last_cursor: Option<String>,
    /// Time of the latest change.
    last_timestamp: Option<String>,
    /// The latest ETag: an unchanged resource is answered with "not modified".
    last_etag: Option<String>,
    /// Number of the run that stored the resource's last page.
    run: u64,
    /// Pages that the resource had.
    pages: u32,
    /// When the cursor was stored.
    updated_at: String,
}

impl From<(JobKind, String, Cursor)> for CursorDocument {
    fn from((kind, _, cursor): (JobKind, String, Cursor)) -> Self {
        Self {
            kind: kind.to_string(),
            resource: cursor.resource,
            last_cursor: cursor.last_cursor,
            last_timestamp: cursor.last_timestamp,
            last_etag: cursor.last_etag,
            run: cursor.run,
            pages: cursor.pages,
            updated_at: time(cursor.updated_at),
        }
    }
}

/// A page of cursors.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CursorPage {
    /// In the order of kind and resource.
    pub(crate) cursors: Vec<CursorDocument>,
    /// Pass it as `cursor` to get the next page; null: this was the last.
    pub(crate) next_cursor: Option<String>,
}

/// An account's budget according to the API's last answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BudgetDocument {
    /// Requests that the account may make in an hour.
    limit: u64,
    /// Requests that are left.
    remaining: u64,
    /// When the budget is full again.
    reset_at: String,
}

/// A token, identified by its hash.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenDocument {
    /// The hash of the token; the token itself is never shown.
    token: String,
    /// The account that the token belongs to; null: not asked yet.
    account: Option<String>,
    /// What the account may still request; null: not known yet.
    budget: Option<BudgetDocument>,
    /// The token is not used before this time.
    blocked_until: Option<String>,
    /// True: the API refuses the token.
    refused: bool,
}

impl From<TokenView> for TokenDocument {
    fn from(view: TokenView) -> Self {
        Self {
            token: view.token,
            account: view.account,
            budget: view.budget.map(|budget| BudgetDocument {
                limit: budget.limit,
                remaining: budget.remaining,
                reset_at: time(budget.reset_at),
            }),
            blocked_until: view.blocked_until.map(time),
            refused: view.refused,
        }
    }
}

/// A page of tokens.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenPage {
    /// The tokens of this process, as the configuration names them.
    pub(crate) tokens: Vec<TokenDocument>,
}

/// Empty: the path says everything.
#[derive(Debug, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForgetRequest {}

/// A user whose data was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ForgottenDocument {
    /// The user's login at GitHub.
    pub(crate) login: String,
    /// Number of deleted documents.
    pub(crate) documents: u64,
}

/// A document as GitHub sent it: one line of an export.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExportDocument {
    /// The document's id, unique among those of the user.
    id: String,
    /// Such as user, issue or commit.
    kind: String,
    /// The login of the user for whom it was collected.
    user: String,
    /// What was requested: user:LOGIN or repo:OWNER/NAME.
    resource: String,
    /// The document itself, as GitHub sent it.
    #[schema(value_type = Object)]
    document: Box<RawValue>,
}

impl TryFrom<Document> for ExportDocument {
    type Error = serde_json::Error;

    fn try_from(document: Document) -> Result<Self, serde_json::Error> {
        Ok(Self {
            id: document.id,
            kind: document.kind,
            user: document.user,
            resource: document.resource,
            document: RawValue::from_string(document.body)?,
        })
    }
}

/// A page of documents.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DocumentPage {
    /// In the order of their ids.
    pub(crate) documents: Vec<ExportDocument>,
    /// Pass it as `cursor` to get the next page; null: this was the last.
    pub(crate) next_cursor: Option<String>,
}
