//! Endpoints that read collected data: cursors, tokens and documents.

use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use clinch::ports::{DOCUMENTS_MAX, Document, DocumentFilter, PAGE_BYTES_MAX};
use clinch::types::ErrorKind;

use super::documents::{
    CursorDocument, CursorPage, DocumentPage, ExportDocument, ForgetRequest, ForgottenDocument,
    TokenDocument, TokenPage,
};
use super::problem::{Problem, ProblemDocument};
use super::read::{Answer, Api, Pairs, body, json};
use crate::Collector;
use crate::model::{Space, login};
use crate::streams::JobKind;

/// Maximum cursors per page.
const PAGE_MAX: usize = 500;
/// Documents that are read at once, with their bodies.
const STEP: usize = 32;

/// The documents that `shadow` of a request asks for; left out: those that are live.
pub(super) async fn space(
    collector: &Collector,
    is_shadow: Option<bool>,
) -> Result<Space, Problem> {
    Ok(match is_shadow {
        Some(true) => Space::Shadow,
        Some(false) => Space::Main,
        None => collector.switch().await?.live,
    })
}

/// Refuses a user without any run: an empty list would look like an answer.
pub(super) async fn known(collector: &Collector, user: &str, space: Space) -> Result<(), Problem> {
    match collector.latest(user, space).await? {
        Some(_) => Ok(()),
        None => Err(Problem::not_found(format!("there is no run of {user:?}"))),
    }
}

fn document_kind(text: &str) -> Result<String, String> {
    let kinds: Vec<&str> = JobKind::all().map(JobKind::document).collect();
    match kinds.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("must be one of {}", kinds.join(", "))),
    }
}

/// List where the next run continues.
///
/// For each stream and resource of a user, what the last run saw last.
#[utoipa::path(get, path = "/v1/github/cursors", tag = "github", operation_id = "list_cursors",
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
        let live = space(&collector, None).await?;
        known(&collector, &user, live).await?;
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

/// List the tokens of this process.
///
/// By hash, with account, budget and pauses. Tokens themselves are never shown.
#[utoipa::path(get, path = "/v1/github/tokens", tag = "github", operation_id = "list_tokens",
    responses((status = 200, body = TokenPage, description = "Every token of this process, by its hash")))]
pub(crate) async fn tokens(State(collector): State<Collector>) -> Answer {
    let views = collector.tokens().await?;
    let tokens = views.into_iter().map(TokenDocument::from).collect();
    json(StatusCode::OK, &TokenPage { tokens })
}

/// Delete everything that was collected of a user.
///
/// The documents, the cursors, the runs and the user's own tokens. Refused while a run of the user
/// is active.
#[utoipa::path(post, path = "/v1/github/users/{login}/forget", tag = "github", operation_id = "forget_user",
    params(("login" = String, Path)),
    request_body = Option<ForgetRequest>,
    responses(
        (status = 200, body = ForgottenDocument, description = "Everything that was collected of the user is deleted"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
        (status = 409, body = ProblemDocument, content_type = "application/problem+json", description = "active_run"),
    ))]
pub(crate) async fn forget(
    State(api): State<Api>,
    Path(user): Path<String>,
    request: Request,
) -> Answer {
    let ForgetRequest {} = body(&api, request, "{}", true).await?;
    let user = login(&user).map_err(|error| Problem::field("login", error.to_string()))?;
    let forgotten = api.collector.forget(&user).await;
    let documents = forgotten.map_err(|error| match error.kind() {
        ErrorKind::Conflict => Problem::conflict("active_run", error.message()),
        ErrorKind::NotFound => Problem::not_found(error.message()),
        _ => error.into(),
    })?;
    let forgotten = ForgottenDocument {
        login: user,
        documents,
    };
    json(StatusCode::OK, &forgotten)
}

/// List collected documents.
///
/// In the order of their ids, as GitHub sent them. `kind`, `resource` and `login` narrow the list.
#[utoipa::path(get, path = "/v1/github/documents", tag = "github", operation_id = "list_documents",
    params(
        ("login" = Option<String>, Query),
        ("kind" = Option<String>, Query, description = "Such as issue or pull_request"),
        ("resource" = Option<String>, Query, description = "user:LOGIN or repo:OWNER/NAME"),
        ("shadow" = Option<bool>, Query, description = "Left out: the documents that are live"),
        ("removed" = Option<bool>, Query, description = "Documents that are gone at GitHub, as they were last seen"),
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
    let is_shadow = query.choice("shadow")?;
    let is_removed = query.flag("removed")?;
    let limit = query.limit(DOCUMENTS_MAX)?;
    let after = query.take("cursor");
    query.finish()?;
    let space = space(&collector, is_shadow).await?;
    let is_first = after.is_none();
    let of = (space, is_removed);
    let (found, next_cursor) = page(&collector, of, &filter, after, limit).await?;
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
    (space, is_removed): (Space, bool),
    filter: &DocumentFilter,
    mut after: Option<String>,
    limit: usize,
) -> Result<(Vec<Document>, Option<String>), Problem> {
    let (mut found, mut bytes): (Vec<Document>, usize) = (Vec::new(), 0);
    loop {
        let step = (limit - found.len()).min(STEP);
        let after_id = after.as_deref();
        let read = match is_removed {
            true => collector.removed(space, filter, after_id, step).await?,
            false => collector.documents(space, filter, after_id, step).await?,
        };
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
