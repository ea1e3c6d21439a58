//! Compares a user's shadow with the real documents, and their runs.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::documents::{JobsDocument, PagesDocument};
use super::problem::ProblemDocument;
use super::read::{Answer, Pairs, json};
use crate::compare::took;
use crate::model::Run;
use crate::{Collector, CompareLimits, Comparison, Difference, RunComparison};

/// A run that was compared.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ComparedRun {
    /// The run: LOGIN.NUMBER, or LOGIN.shadow.NUMBER.
    run_id: String,
    /// Everything was read, not only what changed.
    full: bool,
    /// From its begin to its end.
    seconds: f64,
    /// Its jobs, by how they ended.
    jobs: JobsDocument,
    /// Jobs by stream.
    kinds: BTreeMap<String, JobsDocument>,
    /// What its requests brought.
    pages: PagesDocument,
    /// Failed jobs by the code of their error.
    errors: BTreeMap<String, u64>,
}

impl From<Run> for ComparedRun {
    fn from(run: Run) -> Self {
        let kinds = run.kinds.iter();
        let kinds = kinds.map(|(kind, jobs)| (kind.to_string(), (*jobs).into()));
        Self {
            run_id: run.run_id.to_string(),
            full: run.is_full,
            seconds: took(&run).as_secs_f64(),
            jobs: run.jobs.into(),
            kinds: kinds.collect(),
            pages: run.pages.into(),
            errors: run.errors,
        }
    }
}

/// A number that differs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DifferenceDocument {
    /// Such as jobs.repo_issues.total, pages.fetched, errors.http_500, statistics.issue or seconds.
    name: String,
    /// The number of the real run.
    main: f64,
    /// The number of the shadow run.
    shadow: f64,
    /// Beyond the limits.
    beyond: bool,
}

impl From<Difference> for DifferenceDocument {
    fn from(difference: Difference) -> Self {
        Self {
            name: difference.name,
            main: difference.main,
            shadow: difference.shadow,
            beyond: difference.is_beyond,
        }
    }
}

/// The latest completed runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ComparedRuns {
    /// The latest completed run of the real documents.
    main: ComparedRun,
    /// The latest completed run of the shadow.
    shadow: ComparedRun,
    /// Both read everything, of the same streams. Otherwise numbers of jobs and times differ for
    /// that reason, and are not judged.
    comparable: bool,
    /// How many times as long the shadow run took.
    time_ratio: Option<f64>,
    /// Every number that differs.
    differences: Vec<DifferenceDocument>,
}

/// Comparison of a user's shadow with the real documents, and of their runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ComparisonDocument {
    /// The user's login at GitHub.
    login: String,
    /// Documents that both have, with the same content.
    equal: u64,
    /// Documents that both have, with different content.
    different: u64,
    /// Documents that only the real collection has.
    missing: u64,
    /// Documents that only the shadow has.
    extra: u64,
    /// Ids of some documents that differ.
    examples: Vec<String>,
    /// The two runs behind the documents, with every number that differs.
    runs: ComparedRuns,
    /// No document differs, and no number of the runs is beyond the limits.
    passed: bool,
}

impl ComparisonDocument {
    fn new(login: String, documents: Comparison, runs: RunComparison) -> Self {
        let passed = documents.is_equal() && runs.is_within_limits();
        let differences = runs.differences.into_iter();
        Self {
            login,
            equal: documents.equal,
            different: documents.different,
            missing: documents.missing,
            extra: documents.extra,
            examples: documents.examples,
            runs: ComparedRuns {
                main: runs.main.into(),
                shadow: runs.shadow.into(),
                comparable: runs.is_comparable,
                time_ratio: runs.time_ratio,
                differences: differences.map(DifferenceDocument::from).collect(),
            },
            passed,
        }
    }
}

fn ratio(text: &str) -> Result<f64, &'static str> {
    let wrong = "must be a number of at least 1, such as 2.0";
    let ratio: f64 = text.parse().map_err(|_| wrong)?;
    match ratio.is_finite() && ratio >= 1.0 {
        true => Ok(ratio),
        false => Err(wrong),
    }
}

/// Compare a user's shadow with the real documents.
///
/// Document by document, and the latest completed runs of both with every number that differs.
/// `passed` says whether all is within the limits.
#[utoipa::path(get, path = "/v1/github/comparison", tag = "github", operation_id = "compare_shadow",
    params(
        ("login" = String, Query),
        ("max_time_ratio" = Option<f64>, Query, description = "How many times as long the shadow run may take; default 2"),
        ("max_failed" = Option<u64>, Query, description = "How many jobs of the shadow run may fail; default: as many as of the real run"),
    ),
    responses(
        (status = 200, body = ComparisonDocument, description = "Comparison of the shadow with the real documents, and of their latest completed runs"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn comparison(
    State(collector): State<Collector>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let mut query = Pairs::new(pairs)?;
    let user = query.required_login()?;
    let default = CompareLimits::default();
    let max_time_ratio = query.parsed("max_time_ratio", ratio)?;
    let whole = |text: &str| text.parse::<u64>().map_err(|_| "must be a whole number");
    let limits = CompareLimits {
        max_time_ratio: max_time_ratio.unwrap_or(default.max_time_ratio),
        max_failed: query.parsed("max_failed", whole)?,
    };
    query.finish()?;
    // Refuses a user without runs before any document is read.
    let runs = collector.compare_runs(&user, &limits).await?;
    let documents = collector.compare(&user).await?;
    json(
        StatusCode::OK,
        &ComparisonDocument::new(user, documents, runs),
    )
}
