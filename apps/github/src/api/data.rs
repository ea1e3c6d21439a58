//! Endpoints that read collected data: cursors, tokens, statistics and documents.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use clinch::ports::{DOCUMENTS_MAX, Document, DocumentFilter, PAGE_BYTES_MAX};

use super::documents::{
    ComparisonDocument, CursorDocument, CursorPage, DocumentPage, ExportDocument,
    StatisticsDocument, TokenDocument, TokenPage,
};
use super::problem::{Problem, ProblemDocument};
use super::read::{Answer, Pairs, json};
use crate::Collector;
use crate::model::{JobKind, Space};

/// Maximum cursors per page.
const PAGE_MAX: usize = 500;
/// Documents that are read at once, with their bodies.
const STEP: usize = 32;

fn space(is_shadow: bool) -> Space {
    match is_shadow {
        true => Space::Shadow,
        false => Space::Main,
    }
}

/// Refuses a user without any run: an empty list would look like an answer.
async fn known(collector: &Collector, user: &str, space: Space) -> Result<(), Problem> {
    match collector.latest(user, space).await? {
        Some(_) => Ok(()),
        None => Err(Problem::not_found(format!("there is no run of {user:?}"))),
    }
}

fn document_kind(text: &str) -> Result<String, String> {
    let kinds = JobKind::ALL.map(JobKind::document);
    match kinds.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("must be one of {}", kinds.join(", "))),
    }
}

#[utoipa::path(get, path = "/v1/github/cursors", tag = "github",
    params(
        ("login" = String, Query),
        ("limit" = Option<u32>, Query, description = "Default 50; at most 500"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the previous page"),
    ),
    responses(
        (status = 200, body = CursorPage, description = "Where the next run continues"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn cursors(
    State(collector): State<Collector>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let mut query = Pairs::new(pairs)?;
    let user = query.required_login()?;
    let limit = query.limit(PAGE_MAX)?;
    let after = query.take("cursor");
    query.finish()?;
    let is_first = after.is_none();
    let found = collector.cursors(&user, after, limit).await?;
    if found.is_empty() && is_first {
        known(&collector, &user, Space::Main).await?;
    }
    let is_full = found.len() == limit;
    let last = found.last().filter(|_| is_full);
    let next_cursor = last.map(|(kind, resource, _)| format!("{kind}/{resource}"));
    let cursors = found.into_iter().map(CursorDocument::from).collect();
    let page = CursorPage {
        cursors,
        next_cursor,
    };
    json(StatusCode::OK, &page)
}

#[utoipa::path(get, path = "/v1/github/tokens", tag = "github",
    responses((status = 200, body = TokenPage, description = "Every token of this process, by its hash")))]
pub(crate) async fn tokens(State(collector): State<Collector>) -> Answer {
    let views = collector.tokens().await?;
    let tokens = views.into_iter().map(TokenDocument::from).collect();
    json(StatusCode::OK, &TokenPage { tokens })
}

#[utoipa::path(get, path = "/v1/github/statistics", tag = "github",
    params(
        ("login" = Option<String>, Query, description = "By default all users"),
        ("shadow" = Option<bool>, Query),
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
    let space = space(query.flag("shadow")?);
    query.finish()?;
    let missing = || Problem::not_found("no statistics have been computed yet");
    let figures = collector.figures(user.as_deref(), space).await?;
    let figures = figures.ok_or_else(missing)?;
    json(StatusCode::OK, &StatisticsDocument::new(user, figures))
}

#[utoipa::path(get, path = "/v1/github/comparison", tag = "github",
    params(("login" = String, Query)),
    responses(
        (status = 200, body = ComparisonDocument, description = "Comparison of the shadow with the real documents"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn comparison(
    State(collector): State<Collector>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let mut query = Pairs::new(pairs)?;
    let user = query.required_login()?;
    query.finish()?;
    if collector.latest(&user, Space::Shadow).await?.is_none() {
        let detail = format!("there is no shadow run of {user:?}");
        return Err(Problem::not_found(detail));
    }
    let comparison = collector.compare(&user).await?;
    json(StatusCode::OK, &ComparisonDocument::new(user, comparison))
}

#[utoipa::path(get, path = "/v1/github/documents", tag = "github",
    params(
        ("login" = Option<String>, Query),
        ("kind" = Option<String>, Query, description = "user, event, repository, issue, pull_request or commit"),
        ("resource" = Option<String>, Query, description = "user:LOGIN or repo:OWNER/NAME"),
        ("shadow" = Option<bool>, Query),
        ("limit" = Option<u32>, Query, description = "Default 50; at most 1000"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the previous page"),
    ),
    responses(
        (status = 200, body = DocumentPage, description = "In order of their ids"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn documents(
    State(collector): State<Collector>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let mut query = Pairs::new(pairs)?;
    let filter = DocumentFilter {
        user: query.login()?,
        kind: query.parsed("kind", document_kind)?,
        resource: query.take("resource"),
    };
    let space = space(query.flag("shadow")?);
    let limit = query.limit(DOCUMENTS_MAX)?;
    let after = query.take("cursor");
    query.finish()?;
    let is_first = after.is_none();
    let (found, next_cursor) = page(&collector, space, &filter, after, limit).await?;
    if let (true, true, Some(user)) = (found.is_empty(), is_first, &filter.user) {
        known(&collector, user, space).await?;
    }
    let lines: Result<Vec<_>, _> = found.into_iter().map(ExportDocument::try_from).collect();
    let broken = |_| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Problem::new(status, "internal", "a stored document is not JSON")
    };
    let page = DocumentPage {
        documents: lines.map_err(broken)?,
        next_cursor,
    };
    json(StatusCode::OK, &page)
}

/// At most `limit` documents, read in steps until they hold as many bytes as a page may. There is a
/// cursor if there may be more.
async fn page(
    collector: &Collector,
    space: Space,
    filter: &DocumentFilter,
    mut after: Option<String>,
    limit: usize,
) -> Result<(Vec<Document>, Option<String>), Problem> {
    let (mut found, mut bytes): (Vec<Document>, usize) = (Vec::new(), 0);
    loop {
        let step = (limit - found.len()).min(STEP);
        let read = collector.documents(space, filter, after.as_deref(), step);
        let read = read.await?;
        let is_last = read.len() < step;
        bytes += read
            .iter()
            .map(|document| document.body.len())
            .sum::<usize>();
        found.extend(read);
        after = found
            .last()
            .filter(|_| !is_last)
            .map(|last| last.id.clone());
        if is_last || found.len() >= limit || bytes >= PAGE_BYTES_MAX {
            return Ok((found, after));
        }
    }
}
