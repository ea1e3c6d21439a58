//! Runs and their jobs.

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use clinch::Error;
use clinch::types::ErrorKind;
use serde::Deserialize;
use utoipa::ToSchema;

use super::cost::CostDocument;
use super::documents::{
    JobDocument, JobPage, ProgressDocument, RetryDocument, RunDocument, RunPage,
};
use super::problem::{Problem, ProblemDocument};
use super::read::{Answer, Api, Pairs, body, json, run_id};
use crate::model::{Bounds, JobState, RunStatus, Selection, Space, Start, login};
use crate::streams::{JobKind, selected};
use crate::{Collector, JobFilter};

/// Maximum runs per page.
const PAGE_MAX: usize = 500;
/// Pages that are read for one answer if a filter leaves few runs of each.
const LOOKS_MAX: usize = 20;

/// Whose data to collect.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartDocument {
    /// Login of the user.
    login: String,
    /// Collect from the beginning into a shadow, to be compared.
    #[serde(default)]
    shadow: bool,
    /// Read everything, not only what changed, so that what is gone at GitHub is noticed.
    #[serde(default)]
    full: bool,
    /// Kinds of documents to collect, or "all"; left out: what the server's configuration says.
    #[serde(default)]
    streams: Vec<String>,
    /// Names of the user's repositories to read; left out: all, or those that the server's
    /// configuration names.
    #[serde(default)]
    repositories: Vec<String>,
    /// A search of GitHub: the user's public repositories that it finds are read.
    #[serde(default)]
    search: Option<String>,
    /// Collect dated documents of this time on only: RFC 3339, or a day in UTC.
    #[serde(default)]
    since: Option<String>,
    /// Collect dated documents up to this time only: RFC 3339, or a day in UTC.
    #[serde(default)]
    until: Option<String>,
    /// Begin nothing: answer what the run would cost.
    #[serde(default)]
    dry_run: bool,
}

/// The reason of an action.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasonDocument {
    /// Why, for people.
    reason: Option<String>,
}

/// Empty: the path says everything.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryRequest {}

/// A conflict that the collector reports names its run; one that the store reports does not.
fn conflict(error: Error, code: &'static str) -> Problem {
    match error.context("run") {
        Some(_) if error.kind() == ErrorKind::Conflict => Problem::conflict(code, error.message()),
        _ => error.into(),
    }
}

/// Collect a user's data.
///
/// Begins a run and answers 202 at once. With `dry_run` nothing begins, and the answer is what the
/// run would cost.
#[utoipa::path(post, path = "/v1/github/runs", tag = "github", operation_id = "start_run",
    request_body = StartDocument,
    responses(
        (status = 200, body = CostDocument, description = "With dry_run: requests that the run would make; nothing has begun"),
        (status = 202, body = RunDocument, description = "The run has begun; Location is its address"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
        (status = 409, body = ProblemDocument, content_type = "application/problem+json", description = "active_run"),
    ))]
pub(crate) async fn start(State(api): State<Api>, request: Request) -> Answer {
    let shape = "{\"login\":\"…\"}, with \"shadow\":true for a trial run, \"full\":true to read \
                 everything, \"streams\":[\"issue\",…], \"repositories\":[\"…\"] or \
                 \"search\":\"…\", \"since\":\"…\", \"until\":\"…\", \
                 and \"dry_run\":true";
    let asked: StartDocument = body(&api, request, shape, false).await?;
    let user = login(&asked.login).map_err(|error| Problem::field("login", error.to_string()))?;
    let space = match asked.shadow {
        true => Space::Shadow,
        false => Space::Main,
    };
    let streams = match asked.streams.is_empty() {
        true => Vec::new(),
        false => selected(&asked.streams)
            .map_err(|wrong| Problem::field("streams", wrong.to_string()))?,
    };
    let selection = Selection::new(&user, &asked.repositories, asked.search.as_deref());
    let field = match asked.search {
        Some(_) => "search",
        None => "repositories",
    };
    let selection = selection.map_err(|wrong| Problem::field(field, wrong.to_string()))?;
    let bounds = Bounds::new(asked.since.as_deref(), asked.until.as_deref());
    let field = match Bounds::new(asked.since.as_deref(), None) {
        Err(_) => "since",
        Ok(_) => "until",
    };
    let bounds = bounds.map_err(|wrong| Problem::field(field, wrong.to_string()))?;
    let start = Start {
        selection,
        bounds,
        space,
        is_full: asked.full,
        streams,
        ..Start::default()
    };
    if asked.dry_run {
        let cost = api.collector.cost(&user, &start).await?;
        return json(StatusCode::OK, &CostDocument::from(cost));
    }
    let started = api.collector.start_with(&user, &start).await;
    let run = started.map_err(|error| conflict(error, "active_run"))?;
    let location = format!("/v1/github/runs/{}", run.run_id);
    let mut response = json(StatusCode::ACCEPTED, &RunDocument::from(run))?;
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// List runs, newest first.
///
/// Of all users or of one. A page may hold fewer runs than `limit` although there are
/// more.
#[utoipa::path(get, path = "/v1/github/runs", tag = "github", operation_id = "list_runs",
    params(
        ("login" = Option<String>, Query),
        ("status" = Option<String>, Query, description = "Such as RUNNING or COMPLETED"),
        ("limit" = Option<u32>, Query, description = "Default 50; at most 500"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the previous page"),
    ),
    responses(
        (status = 200, body = RunPage, description = "Newest first; may hold fewer runs than requested although more exist"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn list(
    State(collector): State<Collector>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let mut query = Pairs::new(pairs)?;
    let user = query.login()?;
    let status: Option<RunStatus> = query.parsed("status", str::parse)?;
    let limit = query.limit(PAGE_MAX)?;
    let mut cursor = query.take("cursor");
    query.finish()?;
    let mut runs = Vec::new();
    for _ in 0..LOOKS_MAX {
        let (page, next) = collector.runs(cursor, limit - runs.len()).await?;
        let wanted = page.into_iter().filter(|run| {
            user.as_ref().is_none_or(|user| *user == run.run_id.login)
                && status.is_none_or(|status| status == run.status)
        });
        runs.extend(wanted.map(RunDocument::from));
        cursor = next;
        if cursor.is_none() || runs.len() >= limit {
            break;
        }
    }
    let next_cursor = cursor;
    json(StatusCode::OK, &RunPage { runs, next_cursor })
}

/// Read a run.
///
/// Its jobs by stream, the requests so far, what its jobs wait for, and the resources that GitHub
/// does not give.
#[utoipa::path(get, path = "/v1/github/runs/{run_id}", tag = "github", operation_id = "get_run",
    params(("run_id" = String, Path)),
    responses(
        (status = 200, body = ProgressDocument, description = "The run with its current jobs by kind"),
        (status = "4XX", body = ProblemDocument, description = "not_found"),
    ))]
pub(crate) async fn get(State(collector): State<Collector>, Path(id): Path<String>) -> Answer {
    let progress = collector.progress(&run_id(&id)?).await?;
    json(StatusCode::OK, &ProgressDocument::from(progress))
}

/// List the jobs of a run.
///
/// Each job is one page of one resource. `state` and `kind` narrow the list; `repair` selects the
/// jobs of a retry.
#[utoipa::path(get, path = "/v1/github/runs/{run_id}/jobs", tag = "github", operation_id = "list_jobs",
    params(
        ("run_id" = String, Path),
        ("state" = Option<String>, Query, description = "READY, ENQUEUED, RUNNING, SUCCEEDED, FAILED or UNAVAILABLE"),
        ("kind" = Option<String>, Query, description = "Such as repo_issues"),
        ("repair" = Option<u32>, Query, description = "Of this repair instead of the run itself"),
        ("limit" = Option<u32>, Query, description = "Default 50; at most 500"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the previous page"),
    ),
    responses(
        (status = 200, body = JobPage, description = "Newest first"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn jobs(
    State(collector): State<Collector>,
    Path(id): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let id = run_id(&id)?;
    let mut query = Pairs::new(pairs)?;
    let filter = JobFilter {
        state: query.parsed("state", job_state)?,
        kind: query.parsed("kind", job_kind)?,
        repair: query.parsed("repair", number)?.unwrap_or(0),
    };
    let limit = query.limit(PAGE_MAX)?;
    let mut cursor = query.take("cursor");
    query.finish()?;
    let mut jobs: Vec<JobDocument> = Vec::new();
    for _ in 0..LOOKS_MAX {
        let left = limit - jobs.len();
        let (page, next) = collector
            .jobs(&id, &filter, cursor.as_deref(), left)
            .await?;
        jobs.extend(page.into_iter().map(JobDocument::from));
        cursor = next;
        if cursor.is_none() || jobs.len() >= limit {
            break;
        }
    }
    let next_cursor = cursor;
    json(StatusCode::OK, &JobPage { jobs, next_cursor })
}

/// Cancel a run.
///
/// No further request is made for it. What it stored so far stays.
#[utoipa::path(post, path = "/v1/github/runs/{run_id}/cancel", tag = "github", operation_id = "cancel_run",
    params(("run_id" = String, Path)),
    request_body = Option<ReasonDocument>,
    responses(
        (status = 200, body = RunDocument, description = "Canceled: no further request is made for it"),
        (status = "4XX", body = ProblemDocument, description = "not_found, terminal"),
    ))]
pub(crate) async fn cancel(
    State(api): State<Api>,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let asked: ReasonDocument = body(&api, request, "{\"reason\":\"…\"}", true).await?;
    let id = run_id(&id)?;
    let reason = asked
        .reason
        .unwrap_or_else(|| "canceled by an operator".to_owned());
    let canceled = api.collector.cancel(&id, &reason).await;
    let run = canceled.map_err(|error| conflict(error, "terminal"))?;
    json(StatusCode::OK, &RunDocument::from(run))
}

/// Retry the failed jobs of a run.
///
/// For a run that has completed with failed jobs. They are tried again as a repair of that run.
#[utoipa::path(post, path = "/v1/github/runs/{run_id}/retry", tag = "github", operation_id = "retry_run",
    params(("run_id" = String, Path)),
    request_body = Option<RetryRequest>,
    responses(
        (status = 200, body = RetryDocument, description = "Its failed jobs are being retried; retried is 0 if no job had failed"),
        (status = "4XX", body = ProblemDocument, description = "not_found"),
        (status = 409, body = ProblemDocument, content_type = "application/problem+json", description = "terminal, active_run"),
    ))]
pub(crate) async fn retry(
    State(api): State<Api>,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let RetryRequest {} = body(&api, request, "{}", true).await?;
    let id = run_id(&id)?;
    let is_over = api.collector.run(&id).await?.status.is_terminal();
    let code = match is_over {
        true => "terminal",
        false => "active_run",
    };
    let retried = api.collector.retry(&id).await;
    let (run, retried) = retried.map_err(|error| conflict(error, code))?;
    let run = RunDocument::from(run);
    json(StatusCode::OK, &RetryDocument { run, retried })
}

fn job_state(text: &str) -> Result<JobState, &'static str> {
    let value = serde_json::Value::from(text.to_ascii_uppercase());
    let wrong = "must be READY, ENQUEUED, RUNNING, SUCCEEDED, FAILED or UNAVAILABLE";
    serde_json::from_value(value).map_err(|_| wrong)
}

fn job_kind(text: &str) -> Result<JobKind, String> {
    let named = |kind: &JobKind| kind.as_str() == text;
    let names = || JobKind::all().map(JobKind::as_str).collect::<Vec<_>>();
    let found = JobKind::all().find(named);
    found.ok_or_else(|| format!("must be one of {}", names().join(", ")))
}

fn number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "must be a whole number")
}
