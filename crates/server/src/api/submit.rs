//! Submitting operations: one, or many.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use clinch_core::ports::Known;
use clinch_core::{BatchId, Keys, TimeBudget, Timestamp};
use clinch_engine::Acceptance;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json, secs};
use super::body::{self, INVALID_REQUEST};
use super::caller::Caller;
use super::commands::{self, CommandContext};
use super::document::OperationDocument;
use super::problem::{Problem, ProblemDocument};
use super::query::QueryParameters;
use super::time;
use super::values::{RawList, TimeValue};
use super::wait::Wait;

/// Operations of one bulk request: one commit must not block the store for long.
const BULK_MAX: usize = 10_000;
/// The longest `Retry-After` of a 202.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// An operation to submit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitDocument<'a> {
    /// The domain: a group of operations, such as payments.
    #[schema(max_length = 128, pattern = "^[A-Za-z0-9._:-]+$")]
    pub(super) domain: String,
    /// The type of the call within its domain, such as charge. Together with the domain it selects
    /// the route.
    #[schema(max_length = 128, pattern = "^[A-Za-z0-9._:-]+$")]
    pub(super) event_type: String,
    /// What the call is about at the caller's side, such as the number of an order.
    #[schema(min_length = 1, max_length = 255)]
    pub(super) biz_key: String,
    /// Required here or as the `Idempotency-Key` header.
    #[schema(min_length = 1, max_length = 255)]
    pub(super) idem_key: Option<String>,
    /// Any JSON value, with integers up to 2^53 - 1 and without duplicate member names.
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value)]
    pub(super) payload: &'a RawValue,
    /// No attempt begins before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) run_at: Option<TimeValue>,
    /// No attempt begins after this time, which must be later than `run_at`. By default the
    /// route's deadline, counted from accept or from `run_at`, whichever is later.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) deadline: Option<TimeValue>,
    /// From -10 to 10; higher goes first. By default 0.
    #[schema(minimum = -10, maximum = 10)]
    pub(super) priority: Option<i8>,
    /// Names and values for searching, such as team: shop.
    pub(super) labels: Option<BTreeMap<String, String>>,
}

/// Operations to submit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkDocument<'a> {
    /// Each operation is read, accepted or refused alone.
    #[serde(borrow)]
    #[schema(value_type = Vec<SubmitDocument>, max_items = 10_000)]
    operations: RawList<'a>,
}

/// One result for each operation, in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkResults {
    /// As many as the request has operations, in the same order.
    results: Vec<BulkResult>,
}

/// The result of one operation: an operation, or an error.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkResult {
    /// The status that a request with this operation alone would have.
    status: u16,
    /// The operation; null: it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    op_id: Option<String>,
    /// PENDING, IN_PROGRESS, COMPLETED or FAILED.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// An operation with the same keys was accepted before.
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
    /// True: the operation ended long ago, and only its keys and its final state are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pruned: Option<bool>,
    /// Why the operation was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemDocument>,
}

/// Submit an operation.
///
/// Stores the operation and waits until it is settled: for the time of `Prefer: wait`, otherwise of
/// `wait`, otherwise for 2 s. 200 means COMPLETED or FAILED, 202 that Clinch goes on working. The
/// same four keys again are the same operation, whose answer carries `Idempotency-Replayed: true`.
#[utoipa::path(post, path = "/v1/operations", tag = "operations", operation_id = "submit_operation",
    params(
        ("wait" = Option<String>, Query, description = "How long to wait until the operation is settled, such as 2s"),
        ("Idempotency-Key" = Option<String>, Header, description = "The idem_key, bare or quoted"),
        ("Prefer" = Option<String>, Header, description = "wait=N, respond-async (RFC 7240)"),
    ),
    request_body = SubmitDocument,
    responses(
        (status = 200, description = "Settled within the time budget", body = OperationDocument),
        (status = 202, description = "Accepted, not settled yet", body = OperationDocument),
        (status = "4XX", body = ProblemDocument, description = "invalid_command, invalid_request, unknown_route, idempotency_mismatch, shed"),
    ))]
pub(crate) async fn submit(
    State(app): State<Shared>,
    caller: Caller,
    Query(pairs): Query<Vec<(String, String)>>,
    request: Request,
) -> Answer {
    let mut query = QueryParameters::new(pairs)?;
    let asked = query.take("wait");
    query.finish()?;
    let wait = Wait::of(
        request.headers(),
        asked.as_deref(),
        TimeBudget::DEFAULT.get(),
    )?;
    let (parts, body) = request.into_parts();
    let context = CommandContext {
        idem_key: commands::idempotency_key(&parts.headers)?,
        trace: commands::trace(&parts.headers),
        payload_max: app.payload_max(),
    };
    let text = app.body(&parts.headers, body).await?;
    let command = app.command(&caller, &text, &context)?;
    drop(text);
    let keys = command.keys.clone();
    let from = app.clock.monotonic();
    let shed = app
        .orchestrator()
        .shed(std::slice::from_ref(&command))
        .await;
    if let Some(error) = shed.into_iter().flatten().next() {
        return Err(error.into());
    }
    let accepted = app.orchestrator().accept(command).await?;
    let (known, replayed) = (accepted.known.clone(), accepted.replayed);
    let waited = app.clock.monotonic().saturating_sub(from);
    let left = wait.budget.saturating_sub(waited);
    let document = app.settled(&keys, accepted, left).await;
    let mut response = shown(&document, &known, app.clock.now())?;
    wait.tell(response.headers_mut());
    if replayed {
        let replayed = HeaderValue::from_static("true");
        response
            .headers_mut()
            .insert("idempotency-replayed", replayed);
    }
    Ok(response)
}

/// 200 for a settled operation, 202 for any other.
fn shown(document: &OperationDocument, known: &Known, now: Timestamp) -> Result<Response, Problem> {
    let settled = document.is_terminal();
    let status = if settled {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    let mut response = json(status, document)?;
    let headers = response.headers_mut();
    let location = HeaderValue::from_str(&format!("/v1/operations/{}", known.op_id));
    if let Ok(location) = location {
        headers.insert(header::LOCATION, location);
    }
    if !settled {
        let until = document
            .hold
            .as_ref()
            .and_then(|hold| hold.until.as_deref());
        let until = until.and_then(time::read).unwrap_or(now);
        let after = secs(until.since(now).min(RETRY_AFTER_MAX));
        headers.insert(header::RETRY_AFTER, HeaderValue::from(after));
    }
    Ok(response)
}

impl App {
    /// The accepted operation, settled or after `wait`. An error here is not an error of the
    /// request: the operation is accepted, and the caller can read it later.
    async fn settled(
        &self,
        keys: &Keys,
        accepted: Acceptance,
        wait: Duration,
    ) -> OperationDocument {
        let known = accepted.known.clone();
        if known.pruned {
            return OperationDocument::known(keys, &known);
        }
        let orchestrator = self.orchestrator();
        let waited = self
            .unless_stopped(orchestrator.end_of(accepted, wait))
            .await;
        let snapshot = match waited {
            Some(snapshot) => snapshot,
            None => orchestrator.status(known.op_id).await,
        };
        match snapshot {
            Ok(snapshot) => self.document(snapshot).await,
            Err(_) => OperationDocument::known(keys, &known),
        }
    }

    /// Submits many operations in one commit. An invalid operation is refused alone.
    pub(super) async fn submit_many(
        &self,
        caller: &Caller,
        text: String,
        batch_id: Option<BatchId>,
        trace: Option<String>,
    ) -> Answer {
        let BulkDocument {
            operations: RawList(items),
        } = body::read(&text, INVALID_REQUEST)?;
        if items.len() > BULK_MAX {
            let problem = "holds more than 10000 operations";
            return Err(body::refuse(INVALID_REQUEST, "operations", problem));
        }
        let context = CommandContext {
            idem_key: None,
            trace,
            payload_max: self.payload_max(),
        };
        let mut valid = Vec::with_capacity(items.len());
        let mut read: Vec<Result<(), Problem>> = items
            .iter()
            .map(|item| {
                let command = self.command(caller, item.get(), &context)?;
                valid.push(command);
                Ok(())
            })
            .collect();
        // The commands own what they need of the text.
        drop(items);
        drop(text);
        let shed = self.orchestrator().shed(&valid).await;
        let mut is_kept = shed.iter().map(Option::is_none);
        valid.retain(|_| is_kept.next().unwrap_or(true));
        let mut shed = shed.into_iter();
        for item in read.iter_mut().filter(|item| item.is_ok()) {
            if let Some(error) = shed.next().flatten() {
                *item = Err(error.into());
            }
        }
        let accepted = match valid.is_empty() {
            true => Vec::new(),
            false => self.orchestrator().submit_all(valid, batch_id).await?,
        };
        let mut accepted = accepted.into_iter();
        let result = |item: Result<(), Problem>| match item {
            Err(problem) => refused(&problem),
            Ok(()) => match accepted.next() {
                Some(Ok((known, replayed))) => taken(&known, replayed),
                Some(Err(error)) => refused(&in_bulk(error)),
                None => refused(&Problem::internal()),
            },
        };
        let results = read.into_iter().map(result).collect();
        json(StatusCode::OK, &BulkResults { results })
    }
}

/// A sealed batch is an error of the command, not of the request.
fn in_bulk(error: clinch::Error) -> Problem {
    let mut problem = Problem::from(error);
    if problem.code == "invalid_request" {
        problem.code = commands::INVALID;
        problem = problem.field("batch_id");
    }
    problem
}

fn taken(known: &Known, replayed: bool) -> BulkResult {
    let settled = known.status.is_terminal();
    BulkResult {
        status: if settled { 200 } else { 202 },
        op_id: Some(known.op_id.to_string()),
        state: Some(known.status.as_str()),
        replayed: Some(replayed),
        pruned: known.pruned.then_some(true),
        error: None,
    }
}

fn refused(problem: &Problem) -> BulkResult {
    BulkResult {
        status: problem.status.as_u16(),
        op_id: None,
        state: None,
        replayed: None,
        pruned: None,
        error: Some(problem.document()),
    }
}

/// Submit up to 10,000 operations in one commit.
///
/// Each operation is read, accepted or refused alone, and has a result of its own. The answer does
/// not wait for any of them to settle.
#[utoipa::path(post, path = "/v1/operations/bulk", tag = "operations", operation_id = "submit_operations",
    request_body = BulkDocument,
    responses(
        (status = 200, description = "One result for each operation, in order", body = BulkResults),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn bulk(State(app): State<Shared>, caller: Caller, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let text = app.bulk_body(&parts.headers, body).await?;
    app.submit_many(&caller, text, None, commands::trace(&parts.headers))
        .await
}
