//! Working dead letters off: redrive, dismiss, reopen.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use clinch_core::ports::{LetterAction, LetterChanged, LetterState, LetterStatus, LetterView};
use clinch_core::{MESSAGE_BYTES_MAX, OpId};
use clinch_engine::Redriven;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::selection::{LetterFilterDocument, Selection};
use crate::api::app::{Answer, App, Shared, json};
use crate::api::body::{self, INVALID_REQUEST};
use crate::api::caller::Caller;
use crate::api::problem::{Problem, ProblemDocument};

/// Dead letters that one request takes at most, and by default: a request ends within seconds.
const TAKEN_MAX: usize = 10_000;
/// Redrives of one commit: the commit reads the payload of each.
const COMMIT_MAX: usize = 64;
/// Dismissals of one commit: a commit writes one ledger line for each.
const CHANGES_MAX: usize = 256;

/// Which dead letters to redrive, and whether to do it or only to plan it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedriveDocument<'a> {
    /// Which dead letters; `{}` selects every one that the key may see.
    #[serde(borrow)]
    #[schema(value_type = LetterFilterDocument)]
    filter: &'a RawValue,
    /// By default true: answer the plan and change nothing.
    dry_run: Option<bool>,
    /// Dead letters that this request takes: by default and at most 10,000.
    limit: Option<usize>,
    /// `next_cursor` of the answer before. The filter must be the same.
    cursor: Option<String>,
}

/// Which dead letters to dismiss or to reopen, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LetterChangeDocument<'a> {
    /// Which dead letters; `{}` selects every one that the key may see.
    #[serde(borrow)]
    #[schema(value_type = LetterFilterDocument)]
    filter: &'a RawValue,
    /// For the ledger of each operation.
    reason: Option<String>,
    /// By default true: answer the plan and change nothing.
    dry_run: Option<bool>,
    /// Dead letters that this request takes: by default and at most 10,000.
    limit: Option<usize>,
    /// `next_cursor` of the answer before. The filter must be the same.
    cursor: Option<String>,
}

/// What a redrive did, or would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RedriveResults {
    /// True: this is the plan, and nothing was changed.
    dry_run: bool,
    /// Dead letters that the filter selects and this answer covers.
    matched: usize,
    /// Operations that were created.
    redriven: usize,
    /// Dead letters that were redriven before.
    already: usize,
    /// Dead letters that may not be repeated.
    refused: usize,
    /// There are more: send the request again with `next_cursor`.
    truncated: bool,
    /// Send it as `cursor` to go on. Null: these were the last dead letters.
    next_cursor: Option<String>,
    /// Oldest first, in the order of acceptance.
    results: Vec<RedriveResult>,
}

/// What the redrive of one dead letter did, or would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RedriveResult {
    /// The operation that failed.
    op_id: String,
    /// redrive, already or refused.
    verdict: &'static str,
    /// The new operation that repeats it; null: none, or only planned.
    redriven_by: Option<String>,
    /// Why it was refused; null: it was not.
    reason: Option<&'static str>,
}

/// What a dismissal or a reopening did, or would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterChangeResults {
    /// True: this is the plan, and nothing was changed.
    dry_run: bool,
    /// Dead letters that the filter selects and this answer covers.
    matched: usize,
    /// Dead letters whose status changed.
    changed: usize,
    /// Dead letters that had this status.
    already: usize,
    /// Dead letters that cannot be changed in this way.
    refused: usize,
    /// Send it as `cursor` to go on. Null: these were the last dead letters.
    next_cursor: Option<String>,
    /// One entry for each dead letter, oldest first.
    results: Vec<LetterChangeResult>,
}

/// What the change of one dead letter did, or would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterChangeResult {
    /// The operation that failed.
    op_id: String,
    /// dismiss, reopen, already or refused.
    verdict: &'static str,
    /// Why it was refused; null: it was not.
    reason: Option<&'static str>,
}

fn limit_of(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(TAKEN_MAX),
        Some(limit) if (1..=TAKEN_MAX).contains(&limit) => Ok(limit),
        Some(_) => {
            let problem = "must be a whole number from 1 to 10000";
            Err(body::refuse(INVALID_REQUEST, "limit", problem))
        }
    }
}

/// Repeat failed operations.
///
/// Accepts a new operation for each open dead letter that the filter selects, in the order in which
/// the failed ones were accepted. Without `"dry_run": false` the answer is only the plan.
#[utoipa::path(post, path = "/v1/dead-letters/redrive", tag = "dead letters", operation_id = "redrive_dead_letters",
    request_body = RedriveDocument,
    responses(
        (status = 200, body = RedriveResults, description = "The plan, or the result"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn redrive(State(app): State<Shared>, caller: Caller, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let text = app.bulk_body(&parts.headers, body).await?;
    let document: RedriveDocument<'_> = body::read(&text, INVALID_REQUEST)?;
    let dry_run = document.dry_run.unwrap_or(true);
    let limit = limit_of(document.limit)?;
    let selection = Selection::of_body(&caller, document.filter)?;
    let cursor = document.cursor.as_deref();
    let open = LetterState::Open;
    let selected = app
        .select(&selection, "redrive", open, cursor, limit)
        .await?;
    let ops: Vec<OpId> = selected.letters.iter().map(|letter| letter.op_id).collect();
    let mut results = Vec::with_capacity(ops.len());
    let by = caller.actor();
    // One commit after the other: letters of one lane are redriven in the order of the lane.
    for ops in ops.chunks(COMMIT_MAX) {
        let verdicts = app.orchestrator().redrive(ops, dry_run, &by).await?;
        let told = ops.iter().zip(verdicts);
        results.extend(told.map(|(id, verdict)| result(*id, &verdict)));
    }
    let count = |verdict: &str| results.iter().filter(|one| one.verdict == verdict).count();
    let results = RedriveResults {
        dry_run,
        matched: results.len(),
        redriven: count("redrive"),
        already: count("already"),
        refused: count("refused"),
        truncated: selected.next_cursor.is_some(),
        next_cursor: selected.next_cursor,
        results,
    };
    json(StatusCode::OK, &results)
}

fn result(id: OpId, verdict: &Redriven) -> RedriveResult {
    let (verdict, by, reason) = match verdict {
        Redriven::New(by) => ("redrive", *by, None),
        Redriven::Before(by) => ("already", Some(*by), None),
        Redriven::Refused(reason) => ("refused", None, Some(*reason)),
    };
    RedriveResult {
        op_id: id.to_string(),
        verdict,
        redriven_by: by.map(|by| by.to_string()),
        reason,
    }
}

/// Mark dead letters as dealt with.
///
/// Nothing more is to be done for them. Who dismissed them and why stays in the ledger. Without
/// `"dry_run": false` the answer is only the plan.
#[utoipa::path(post, path = "/v1/dead-letters/dismiss", tag = "dead letters", operation_id = "dismiss_dead_letters",
    request_body = LetterChangeDocument,
    responses(
        (status = 200, body = LetterChangeResults, description = "The plan, or the result"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn dismiss(State(app): State<Shared>, caller: Caller, request: Request) -> Answer {
    change(&app, &caller, request, LetterAction::Dismiss).await
}

/// Undo a dismissal.
///
/// The dead letters are open again and can be redriven. Without `"dry_run": false` the answer is
/// only the plan.
#[utoipa::path(post, path = "/v1/dead-letters/reopen", tag = "dead letters", operation_id = "reopen_dead_letters",
    request_body = LetterChangeDocument,
    responses(
        (status = 200, body = LetterChangeResults, description = "The plan, or the result"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn reopen(State(app): State<Shared>, caller: Caller, request: Request) -> Answer {
    change(&app, &caller, request, LetterAction::Reopen).await
}

async fn change(app: &App, caller: &Caller, request: Request, action: LetterAction) -> Answer {
    let (parts, body) = request.into_parts();
    let text = app.bulk_body(&parts.headers, body).await?;
    let document: LetterChangeDocument<'_> = body::read(&text, INVALID_REQUEST)?;
    let dry_run = document.dry_run.unwrap_or(true);
    let limit = limit_of(document.limit)?;
    let reason = reason_of(document.reason)?;
    let selection = Selection::of_body(caller, document.filter)?;
    let state = match action {
        LetterAction::Dismiss => LetterState::Open,
        LetterAction::Reopen => LetterState::Dismissed,
    };
    let cursor = document.cursor.as_deref();
    let name = verdict_of(action);
    let selected = app.select(&selection, name, state, cursor, limit).await?;
    let mut results = Vec::with_capacity(selected.letters.len());
    for letters in selected.letters.chunks(CHANGES_MAX) {
        let told = match dry_run {
            true => letters
                .iter()
                .map(|letter| planned(action, letter))
                .collect(),
            false => {
                let ops: Vec<OpId> = letters.iter().map(|letter| letter.op_id).collect();
                let by = caller.actor().name().clone();
                let engine = app.orchestrator();
                engine.change_letters(&ops, action, &by, &reason).await?
            }
        };
        let told = letters.iter().zip(told);
        results.extend(told.map(|(letter, told)| changed(letter.op_id, action, told)));
    }
    let count = |verdict: &str| results.iter().filter(|one| one.verdict == verdict).count();
    let results = LetterChangeResults {
        dry_run,
        matched: results.len(),
        changed: count(name),
        already: count("already"),
        refused: count("refused"),
        next_cursor: selected.next_cursor,
        results,
    };
    json(StatusCode::OK, &results)
}

fn reason_of(reason: Option<String>) -> Result<String, Problem> {
    let reason = reason.map(|reason| reason.trim().to_owned());
    match reason {
        Some(reason) if !reason.is_empty() && reason.len() <= MESSAGE_BYTES_MAX => Ok(reason),
        _ => {
            let problem = "must say why, in 1 to 500 bytes";
            Err(body::refuse(INVALID_REQUEST, "reason", problem))
        }
    }
}

fn verdict_of(action: LetterAction) -> &'static str {
    match action {
        LetterAction::Dismiss => "dismiss",
        LetterAction::Reopen => "reopen",
    }
}

/// What the change would do.
fn planned(action: LetterAction, letter: &LetterView) -> LetterChanged {
    match (action, &letter.status) {
        (_, LetterStatus::Redriven { .. }) => LetterChanged::Redriven,
        (LetterAction::Dismiss, LetterStatus::Open)
        | (LetterAction::Reopen, LetterStatus::Dismissed { .. }) => LetterChanged::Changed,
        (LetterAction::Dismiss, LetterStatus::Dismissed { .. })
        | (LetterAction::Reopen, LetterStatus::Open) => LetterChanged::Already,
    }
}

fn changed(op_id: OpId, action: LetterAction, told: LetterChanged) -> LetterChangeResult {
    let (verdict, reason) = match told {
        LetterChanged::Changed => (verdict_of(action), None),
        LetterChanged::Already => ("already", None),
        LetterChanged::Redriven => ("refused", Some("it was redriven")),
        LetterChanged::NotFound => ("refused", Some("there is no such dead letter")),
    };
    LetterChangeResult {
        op_id: op_id.to_string(),
        verdict,
        reason,
    }
}
