//! The endpoint of the statistics, and its response document.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::data::{known, space};
use super::documents::time;
use super::problem::{Problem, ProblemDocument};
use super::read::{Answer, Pairs, json};
use crate::statistics::WEEKS_MAX;
use crate::{Activity, Collector, Durations, Figures, Week, WeeklyStatistics};

/// Weeks that are shown unless the request says otherwise.
const WEEKS: usize = 12;

/// Durations in minutes.
#[derive(Debug, Serialize, ToSchema)]
struct DurationsDocument {
    /// How many durations were measured.
    count: u64,
    /// Their mean, in minutes.
    mean_minutes: u64,
    /// Exact for one or two durations, otherwise at most 1/16 off.
    median_minutes: u64,
}

impl DurationsDocument {
    fn new(durations: &Durations) -> Option<Self> {
        Some(Self {
            count: durations.count(),
            mean_minutes: durations.mean()?,
            median_minutes: durations.median()?,
        })
    }
}

/// What happened in a week, or in several.
#[derive(Debug, Serialize, ToSchema)]
struct ActivityDocument {
    /// Commits of everybody, by the date of the committer.
    commits: u64,
    /// Commits whose author is the user.
    own_commits: u64,
    /// Issues that were opened.
    issues_opened: u64,
    /// Issues that were closed.
    issues_closed: u64,
    /// Pull requests that were opened.
    pull_requests_opened: u64,
    /// Pull requests that were merged.
    pull_requests_merged: u64,
    /// Closed without a merge.
    pull_requests_closed: u64,
    /// From the opening to the merge; null: none was merged.
    lead_time: Option<DurationsDocument>,
    /// From the opening to the first review by another person; null: none, or reviews are not
    /// collected.
    review_time: Option<DurationsDocument>,
    /// The user's events by type; a repository has none.
    events: BTreeMap<String, u64>,
}

impl From<Activity> for ActivityDocument {
    fn from(activity: Activity) -> Self {
        Self {
            commits: activity.commits,
            own_commits: activity.own_commits,
            issues_opened: activity.issues_opened,
            issues_closed: activity.issues_closed,
            pull_requests_opened: activity.pull_requests_opened,
            pull_requests_merged: activity.pull_requests_merged,
            pull_requests_closed: activity.pull_requests_closed,
            lead_time: DurationsDocument::new(&activity.lead_time),
            review_time: DurationsDocument::new(&activity.review_time),
            events: activity.events,
        }
    }
}

/// What happened in one week.
#[derive(Debug, Serialize, ToSchema)]
struct WeekDocument {
    /// The date of its Monday, in UTC.
    week: String,
    #[serde(flatten)]
    activity: ActivityDocument,
}

impl From<(Week, Activity)> for WeekDocument {
    fn from((week, activity): (Week, Activity)) -> Self {
        Self {
            week: week.to_string(),
            activity: activity.into(),
        }
    }
}

/// The figures of a user's repositories by week.
#[derive(Debug, Serialize, ToSchema)]
struct WeeklyDocument {
    /// The latest weeks up to the present one, oldest first.
    weeks: Vec<WeekDocument>,
    /// The sum of these weeks.
    total: ActivityDocument,
    /// The sum of all weeks.
    all_time: ActivityDocument,
    /// Bytes of code by language; empty if languages are not collected.
    languages: BTreeMap<String, u64>,
    /// Number of repositories with documents.
    repositories: u64,
    /// Repositories, or the user, whose documents changed since their figures were computed. They
    /// are computed after the next run.
    stale: u64,
}

impl From<WeeklyStatistics> for WeeklyDocument {
    fn from(weekly: WeeklyStatistics) -> Self {
        Self {
            weeks: weekly.weeks.into_iter().map(WeekDocument::from).collect(),
            total: weekly.total.into(),
            all_time: weekly.all_time.into(),
            languages: weekly.languages,
            repositories: weekly.repositories,
            stale: weekly.stale,
        }
    }
}

/// Statistics of one user, or of all users.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatisticsDocument {
    /// The user; null: all users.
    login: Option<String>,
    /// The repository that the weekly figures are of; null: all repositories of the user.
    repository: Option<String>,
    /// Number of documents by kind.
    documents: BTreeMap<String, u64>,
    /// The run or repair that they were last computed for.
    made_for: String,
    /// Number of runs and repairs that they were computed for.
    runs: u64,
    /// When the figures were computed.
    updated_at: String,
    /// The figures of one user by week; null for all users.
    weekly: Option<WeeklyDocument>,
}

impl StatisticsDocument {
    fn new(login: Option<String>, figures: Figures) -> Self {
        Self {
            login,
            repository: None,
            documents: figures.documents,
            made_for: figures.made_for,
            runs: figures.runs,
            updated_at: time(figures.updated_at),
            weekly: None,
        }
    }
}

fn weeks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(weeks) if (1..=WEEKS_MAX).contains(&weeks) => Ok(weeks),
        _ => Err(format!("must be a whole number from 1 to {WEEKS_MAX}")),
    }
}

/// Read the statistics.
///
/// Documents by kind, as they were counted after the last run. With `login` also the user's figures
/// by week.
#[utoipa::path(get, path = "/v1/github/statistics", tag = "github", operation_id = "get_statistics",
    params(
        ("login" = Option<String>, Query, description = "By default all users, without weekly figures"),
        ("repository" = Option<String>, Query, description = "OWNER/NAME or NAME: weekly figures of this repository only"),
        ("weeks" = Option<u32>, Query, description = "Number of weeks up to the present one; default 12, at most 520"),
        ("shadow" = Option<bool>, Query, description = "Left out: the documents that are live"),
    ),
    responses(
        (status = 200, body = StatisticsDocument, description = "As computed after the last run"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn statistics(
    State(collector): State<Collector>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let mut query = Pairs::new(pairs)?;
    let user = query.login()?;
    let is_shadow = query.choice("shadow")?;
    let repository = query.take("repository");
    let weeks = query.parsed("weeks", weeks)?;
    query.finish()?;
    if user.is_none() && (repository.is_some() || weeks.is_some()) {
        let detail = "is missing; weekly figures are those of a user";
        return Err(Problem::field("login", detail));
    }
    let space = space(&collector, is_shadow).await?;
    let figures = collector.figures(user.as_deref(), space).await?;
    if let (None, Some(user)) = (&figures, &user) {
        known(&collector, user, space).await?;
    }
    let missing = || Problem::not_found("no statistics have been computed yet");
    let mut document = StatisticsDocument::new(user.clone(), figures.ok_or_else(missing)?);
    if let Some(user) = user {
        let weeks = weeks.unwrap_or(WEEKS);
        let weekly = collector.weekly(&user, space, repository.as_deref(), weeks);
        let missing = || Problem::not_found(format!("{user:?} has no such repository"));
        document.weekly = Some(weekly.await?.ok_or_else(missing)?.into());
        document.repository = repository;
    }
    json(StatusCode::OK, &document)
}
