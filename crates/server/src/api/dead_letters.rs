//! Dead letters: operations that ended FAILED other than by cancel, and what becomes of them.

mod actions;
mod selection;

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use clinch_core::ports::{LetterOrder, LetterStatus, LetterView, PAGE_MAX};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json};
use super::caller::Caller;
use super::document::{FailureDocument, failure};
use super::problem::{Problem, ProblemDocument};
use super::query::QueryParameters;
use super::time;
use selection::Selection;

pub(crate) use actions::{__path_dismiss, __path_redrive, __path_reopen, dismiss, redrive, reopen};

/// An operation that ended FAILED other than by cancel, without its payload.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterDocument {
    /// The operation that failed.
    op_id: String,
    /// The domain: a group of operations, such as payments.
    domain: String,
    /// The type of the call within its domain, such as charge.
    event_type: String,
    /// What the call is about at the caller's side, such as the number of an order.
    biz_key: String,
    /// The caller's idempotency key: the same four keys name the same operation.
    idem_key: String,
    /// Why the operation is FAILED.
    failure: FailureDocument,
    /// The number of calls that may have been sent.
    attempts: u32,
    /// When the operation ended.
    failed_at: String,
    /// A late answer says that the call was applied: the operation is not redriven.
    late_ok: bool,
    /// open, redriven or dismissed.
    status: &'static str,
    /// The operation that redrives it.
    redriven_by: Option<String>,
    /// Set if an operator dismissed it.
    dismissed: Option<DismissalDocument>,
    /// The same for errors that differ only in numbers.
    fingerprint: String,
}

/// Why a dead letter needs no more work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DismissalDocument {
    /// When it was dismissed.
    at: String,
    /// The API key, or the person or program behind it.
    by: String,
    /// What the operator gave as the reason.
    reason: String,
}

/// One page of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterPage {
    /// Newest first, unless the request asks for the oldest.
    dead_letters: Vec<LetterDocument>,
    /// Pass it as `cursor` to get the next page; null: this is the last page.
    next_cursor: Option<String>,
}

/// Dead letters with the same fingerprint.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterGroup {
    /// Names the group: the same for errors that differ only in numbers.
    fingerprint: String,
    /// The domain: a group of operations, such as payments.
    domain: String,
    /// The type of the call within its domain, such as charge.
    event_type: String,
    /// The code of the failure.
    code: String,
    /// The message of the newest dead letter.
    message: String,
    /// Dead letters of the group in this answer.
    count: u64,
    /// When the oldest of them failed.
    first_failed_at: String,
    /// When the newest of them failed.
    last_failed_at: String,
    /// The newest dead letter.
    example_op_id: String,
}

/// Dead letters by fingerprint, the most frequent first. One answer covers at most 20,000 of them,
/// the newest; the same fingerprint can be in several answers, and its counts add up.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterGroups {
    /// The most frequent first.
    groups: Vec<LetterGroup>,
    /// How many dead letters were counted for this answer.
    counted: usize,
    /// There are older ones: send the request again with `next_cursor`.
    truncated: bool,
    /// Null: the groups cover the last dead letter that matches.
    next_cursor: Option<String>,
}

/// A page, or groups with `group=true`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum LetterListing {
    Page(LetterPage),
    Groups(LetterGroups),
}

fn document(letter: &LetterView) -> LetterDocument {
    let (redriven_by, dismissed) = match &letter.status {
        LetterStatus::Open => (None, None),
        LetterStatus::Redriven { by } => (Some(by.to_string()), None),
        LetterStatus::Dismissed { at, by, reason } => {
            let dismissed = DismissalDocument {
                at: time::write(*at),
                by: by.to_string(),
                reason: reason.clone(),
            };
            (None, Some(dismissed))
        }
    };
    LetterDocument {
        op_id: letter.op_id.to_string(),
        domain: letter.keys.domain.to_string(),
        event_type: letter.keys.event_type.to_string(),
        biz_key: letter.keys.biz_key.to_string(),
        idem_key: letter.keys.idem_key.to_string(),
        failure: failure(&letter.failure),
        attempts: letter.attempts,
        failed_at: time::write(letter.failed_at),
        late_ok: letter.late_ok,
        status: letter.status.state().name(),
        redriven_by,
        dismissed,
        fingerprint: letter.fingerprint.clone(),
    }
}

fn order(query: &mut QueryParameters) -> Result<LetterOrder, Problem> {
    match query.take("order").as_deref() {
        None | Some("newest") => Ok(LetterOrder::NewestFirst),
        Some("oldest") => Ok(LetterOrder::OldestFirst),
        Some(_) => Err(Problem::request("order must be newest or oldest").field("order")),
    }
}

/// List dead letters, or count them by error.
///
/// Operations that ended FAILED other than by cancel, and that nobody has dealt with yet, unless
/// `status` asks for others. With `group=true` they are counted by the fingerprint of their error.
#[utoipa::path(get, path = "/v1/dead-letters", tag = "dead letters", operation_id = "list_dead_letters",
    params(
        ("status" = Option<String>, Query, description = "open (by default), redriven, dismissed or all"),
        ("domain" = Option<String>, Query), ("event_type" = Option<String>, Query),
        ("biz_key" = Option<String>, Query), ("idem_key" = Option<String>, Query),
        ("code" = Option<String>, Query), ("fingerprint" = Option<String>, Query),
        ("from" = Option<String>, Query), ("to" = Option<String>, Query),
        ("order" = Option<String>, Query, description = "newest (by default) or oldest first"),
        ("group" = Option<bool>, Query, description = "Group by error fingerprint"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query),
    ),
    responses(
        (status = 200, body = LetterListing, description = "Newest first; with group=true by fingerprint, up to 20,000 dead letters an answer"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let mut query = QueryParameters::new(pairs)?;
    let group = query.flag("group")?;
    let limit = query.limit()?;
    let cursor = query.take("cursor");
    let order = order(&mut query)?;
    let selection = Selection::of_query(&caller, &mut query)?;
    query.finish()?;
    if group {
        return groups(&app, &selection, cursor).await;
    }
    let mut page = LetterPage {
        dead_letters: Vec::new(),
        next_cursor: None,
    };
    if let Some(filter) = selection.filter() {
        let letters = &app.recovery;
        let found = letters.dead_letters(filter, order, cursor.as_deref(), limit);
        let found = found.await?;
        page.dead_letters = found.items.iter().map(document).collect();
        page.next_cursor = found.next_cursor;
    }
    json(StatusCode::OK, &LetterListing::Page(page))
}

/// Pages that are read for one answer with groups: it takes a fraction of a second.
const GROUPED_PAGES: usize = 20;

/// Counts the letters that match, page by page: a letter has no payload here, and letters of
/// another status are not read.
async fn groups(app: &App, selection: &Selection, mut cursor: Option<String>) -> Answer {
    let mut groups: BTreeMap<String, LetterGroup> = BTreeMap::new();
    let (mut counted, mut pages) = (0, 0);
    while let Some(filter) = selection.filter() {
        let newest = LetterOrder::NewestFirst;
        let page = app
            .recovery
            .dead_letters(filter, newest, cursor.as_deref(), PAGE_MAX)
            .await?;
        for letter in &page.items {
            let failed_at = time::write(letter.failed_at);
            let print = letter.fingerprint.clone();
            // The first of a group is its newest.
            let group = groups.entry(print.clone()).or_insert_with(|| LetterGroup {
                fingerprint: print,
                domain: letter.keys.domain.to_string(),
                event_type: letter.keys.event_type.to_string(),
                code: letter.failure.code.clone(),
                message: letter.failure.message.clone(),
                count: 0,
                first_failed_at: failed_at.clone(),
                last_failed_at: failed_at.clone(),
                example_op_id: letter.op_id.to_string(),
            });
            group.count += 1;
            group.first_failed_at = failed_at;
        }
        (counted, pages) = (counted + page.items.len(), pages + 1);
        cursor = page.next_cursor;
        if cursor.is_none() || pages == GROUPED_PAGES {
            break;
        }
    }
    let mut groups: Vec<LetterGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    let groups = LetterGroups {
        groups,
        counted,
        truncated: cursor.is_some(),
        next_cursor: cursor,
    };
    json(StatusCode::OK, &LetterListing::Groups(groups))
}

/// Read a dead letter.
///
/// Its failure, its status, and who dealt with it. The first 8 or more digits of the id are enough.
#[utoipa::path(get, path = "/v1/dead-letters/{op_id}", tag = "dead letters", operation_id = "get_dead_letter",
    params(("op_id" = String, Path)),
    responses(
        (status = 200, body = LetterDocument, description = "The dead letter, whatever its status"),
        (status = "4XX", body = ProblemDocument, description = "not_found, ambiguous_id"),
    ))]
pub(crate) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    let id = app.op_id(&caller, &id).await?;
    let found = app.recovery.letters(&[id]).await?;
    let letter = found.into_iter().next().flatten();
    let letter = letter.filter(|letter| selection::may_touch(&caller, letter));
    let letter = letter.ok_or_else(|| Problem::not_found("there is no such dead letter"))?;
    json(StatusCode::OK, &document(&letter))
}
