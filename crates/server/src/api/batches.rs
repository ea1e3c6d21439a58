//! Batches: groups of operations whose completion is one event.

use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use clinch_core::BatchId;
use clinch_core::ports::Batch;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json};
use super::body::{self, INVALID_REQUEST};
use super::caller::Caller;
use super::commands::{self, CommandContext};
use super::problem::{Problem, ProblemDocument};
use super::query::QueryParameters;
use super::submit::{BulkDocument, BulkResults, SubmitDocument};
use super::time;

/// A batch to open.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenDocument<'a> {
    /// Your own UUID: two requests with the same id open one batch. By default a new UUID.
    batch_id: Option<String>,
    /// Accepted in the commit that completes the batch. It is not a member of the batch.
    #[serde(borrow)]
    #[schema(value_type = Option<SubmitDocument>)]
    on_complete: Option<&'a RawValue>,
}

/// An empty object: the path names the batch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SealDocument {}

/// A batch: a group of operations with one end.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchDocument {
    /// The id of the batch, a UUID.
    batch_id: String,
    /// A sealed batch takes no new members but those that its members spawn.
    sealed: bool,
    /// Sealed, and every member settled.
    complete: bool,
    /// The number of members.
    total: u64,
    /// Members that are COMPLETED.
    completed: u64,
    /// Members that are FAILED.
    failed: u64,
    /// When the batch was complete; null: it is not complete yet.
    completed_at: Option<String>,
}

/// One page of batches.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchListing {
    /// May be fewer than `limit` although there are more.
    batches: Vec<BatchDocument>,
    /// Pass it as `cursor` to get the next page; null: this is the last page.
    next_cursor: Option<String>,
}

fn document(batch: &Batch) -> BatchDocument {
    BatchDocument {
        batch_id: batch.batch_id.to_string(),
        sealed: batch.sealed,
        complete: batch.is_complete(),
        total: batch.total,
        completed: batch.completed,
        failed: batch.failed,
        completed_at: batch.completed_at.map(time::write),
    }
}

fn batch_id(text: &str) -> Result<BatchId, Problem> {
    text.parse()
        .map_err(|_| Problem::not_found("there is no such batch"))
}

impl App {
    async fn show_batch(&self, caller: &Caller, id: BatchId) -> Answer {
        let batch = self.own_batch(caller, id).await?;
        json(StatusCode::OK, &document(&batch))
    }
}

/// List batches, newest first.
///
/// A restricted key sees the batches that it may read.
#[utoipa::path(get, path = "/v1/batches", tag = "batches", operation_id = "list_batches",
    params(
        ("limit" = Option<u32>, Query, description = "By default 50, at most 1000"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the previous page"),
    ),
    responses(
        (status = 200, body = BatchListing, description = "The batches that the key may read, by falling id: of ids that the server drew, the newest first"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    /// Pages that a request looks through for the first batch of a restricted key.
    const SEARCHES_MAX: usize = 20;
    let mut query = QueryParameters::new(pairs)?;
    let limit = query.limit()?;
    let mut cursor = query.take("cursor");
    query.finish()?;
    let (orchestrator, of) = (app.orchestrator(), caller.restriction());
    let mut batches = Vec::new();
    for _ in 0..SEARCHES_MAX {
        let page = orchestrator.batches(of, cursor.as_deref(), limit).await?;
        cursor = page.next_cursor;
        batches = page.items.iter().map(document).collect();
        if !batches.is_empty() || cursor.is_none() {
            break;
        }
    }
    let listing = BatchListing {
        batches,
        next_cursor: cursor,
    };
    json(StatusCode::OK, &listing)
}

/// Open a batch.
///
/// A batch is a group of operations with one end: it is complete when it is sealed and every member
/// is settled. `on_complete` is an operation that is accepted in that same commit.
#[utoipa::path(post, path = "/v1/batches", tag = "batches", operation_id = "open_batch",
    request_body = Option<OpenDocument>,
    responses(
        (status = 200, body = BatchDocument, description = "The batch is open, also if it was opened before"),
        (status = "4XX", body = ProblemDocument, description = "invalid_command, invalid_request, unknown_route, not_found"),
    ))]
pub(crate) async fn open(State(app): State<Shared>, caller: Caller, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let text = app.optional_body(&parts.headers, body).await?;
    let document: OpenDocument<'_> = body::read(&text, INVALID_REQUEST)?;
    let id = document
        .batch_id
        .map(|id| id.parse::<BatchId>())
        .transpose();
    let id = id.map_err(|invalid| Problem::invalid(INVALID_REQUEST, &invalid))?;
    let context = CommandContext {
        trace: commands::trace(&parts.headers),
        payload_max: app.payload_max(),
        ..CommandContext::default()
    };
    let on_complete = document
        .on_complete
        .map(|raw| app.command(&caller, raw.get(), &context))
        .transpose()?;
    let orchestrator = app.orchestrator();
    let id = id.unwrap_or_else(|| orchestrator.batch_id());
    let owner = caller.restriction().clone();
    orchestrator.open_batch_for(id, on_complete, owner).await?;
    // An id that another caller's batch has is refused here.
    app.show_batch(&caller, id).await
}

/// Read a batch.
///
/// How many members it has and how many of them have ended. `GET /v1/operations?batch_id=` lists
/// the members.
#[utoipa::path(get, path = "/v1/batches/{batch_id}", tag = "batches", operation_id = "get_batch",
    params(("batch_id" = String, Path)),
    responses(
        (status = 200, body = BatchDocument, description = "The batch; its members are /v1/operations?batch_id="),
        (status = "4XX", body = ProblemDocument, description = "not_found"),
    ))]
pub(crate) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    app.show_batch(&caller, batch_id(&id)?).await
}

/// Submit members of a batch.
///
/// As a bulk submit. An operation whose keys are known already does not become a member.
#[utoipa::path(post, path = "/v1/batches/{batch_id}/operations", tag = "batches", operation_id = "add_to_batch",
    params(("batch_id" = String, Path)),
    request_body = BulkDocument,
    responses(
        (status = 200, body = BulkResults, description = "One result for each operation, in order; an operation with a known key does not become a member"),
        (status = "4XX", body = ProblemDocument, description = "not_found"),
    ))]
pub(crate) async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let id = batch_id(&id)?;
    let (parts, body) = request.into_parts();
    let text = app.bulk_body(&parts.headers, body).await?;
    app.own_batch(&caller, id).await?;
    app.submit_many(&caller, text, Some(id), commands::trace(&parts.headers))
        .await
}

/// Seal a batch.
///
/// It takes no more members, other than those that its members spawn. Sealing it again changes
/// nothing.
#[utoipa::path(post, path = "/v1/batches/{batch_id}/seal", tag = "batches", operation_id = "seal_batch",
    params(("batch_id" = String, Path)),
    request_body = Option<SealDocument>,
    responses(
        (status = 200, body = BatchDocument, description = "The batch is sealed; sealing it again changes nothing"),
        (status = "4XX", body = ProblemDocument, description = "not_found"),
    ))]
pub(crate) async fn seal(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let id = batch_id(&id)?;
    let (parts, body) = request.into_parts();
    let text = app.optional_body(&parts.headers, body).await?;
    let SealDocument {} = body::read(&text, INVALID_REQUEST)?;
    app.own_batch(&caller, id).await?;
    app.orchestrator().seal_batch(id).await?;
    app.show_batch(&caller, id).await
}
