//! Reading, canceling and resolving operations.

use std::time::Duration;

use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use clinch_core::ports::{Changed, Filter, Operation, Page, Refused};
use clinch_core::protocol::{Phase, Resolution, Why};
use clinch_core::{
    BatchId, BizKey, Domain, Effect, EventType, Fail, IdemKey, Invalid, OpId, Payload, Sealed,
    Status, Success, code,
};
use clinch_engine::Snapshot;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json};
use super::body::{self, INVALID_REQUEST, Members};
use super::caller::Caller;
use super::commands::payload_of;
use super::document::{HoldDocument, OperationDocument};
use super::hold::Holds;
use super::problem::{Problem, ProblemDocument};
use super::query::QueryParameters;
use super::wait::Wait;

/// Pages that a request looks through for the first item of a search.
const SEARCHES_MAX: usize = 20;

/// One page of operations.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OperationPage {
    /// May be fewer than `limit` although there are more: a page of long results ends earlier, and
    /// so does a search through many operations.
    operations: Vec<OperationDocument>,
    /// Pass it as `cursor` to get the next page; null: this is the last page.
    next_cursor: Option<String>,
}

/// Why the request was made. A cancel keeps it in the ledger.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasonDocument {
    /// Why, for people.
    pub(super) reason: Option<String>,
}

/// How an operator settles a held operation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveDocument<'a> {
    /// completed (the call was applied), failed (it never will be) or retry (it was not applied
    /// and is called again).
    #[schema(value_type = String)]
    r#as: ResolveAs,
    /// How the operator learned it; kept in the ledger.
    reason: Option<String>,
    /// Only with completed: the provider's own id of the transaction.
    provider_txn_id: Option<String>,
    /// Only with completed: the result for the caller, any JSON.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// Only with failed: a short name for programs.
    code: Option<String>,
    /// Only with failed: what happened, for people.
    message: Option<String>,
    /// Only with failed: none or unknown.
    #[schema(value_type = Option<String>)]
    effect: Option<ResolveEffect>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ResolveAs {
    Completed,
    Failed,
    Retry,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ResolveEffect {
    None,
    Unknown,
}

/// Read an operation.
///
/// Waits for its end as long as `wait` or `Prefer: wait` say, 60 s at most; otherwise answers at
/// once. The first 8 or more digits of the id are enough if no other operation begins so.
#[utoipa::path(get, path = "/v1/operations/{op_id}", tag = "operations", operation_id = "get_operation",
    params(
        ("op_id" = String, Path),
        ("wait" = Option<String>, Query, description = "How long to wait until the operation is settled, such as 10s"),
        ("Prefer" = Option<String>, Header, description = "wait=N (RFC 7240)"),
    ),
    responses(
        (status = 200, body = OperationDocument, description = "The operation"),
        (status = "4XX", body = ProblemDocument, description = "not_found, ambiguous_id, invalid_request"),
    ))]
pub(crate) async fn get(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
    request: Request,
) -> Answer {
    let id = app.op_id(&caller, &id).await?;
    let mut query = QueryParameters::new(pairs)?;
    let asked = query.take("wait");
    query.finish()?;
    let wait = Wait::of(request.headers(), asked.as_deref(), Duration::ZERO)?;
    let found = app.visible(&caller, id).await?;
    let orchestrator = app.orchestrator();
    let is_settled = found.operation.state.is_terminal();
    let waited = match wait.budget.is_zero() || is_settled {
        true => Some(Ok(found)),
        false => {
            app.unless_stopped(orchestrator.await_settled(id, wait.budget))
                .await
        }
    };
    let snapshot = match waited {
        Some(snapshot) => snapshot?,
        None => orchestrator.status(id).await?,
    };
    let mut response = json(StatusCode::OK, &app.document(snapshot).await)?;
    wait.tell(response.headers_mut());
    Ok(response)
}

/// List operations, newest first.
///
/// Every parameter narrows the list. A page may hold fewer operations than `limit`
/// although there are more: follow `next_cursor` until it is null.
#[utoipa::path(get, path = "/v1/operations", tag = "operations", operation_id = "list_operations",
    params(
        ("domain" = Option<String>, Query), ("event_type" = Option<String>, Query),
        ("biz_key" = Option<String>, Query), ("idem_key" = Option<String>, Query),
        ("provider_txn_id" = Option<String>, Query),
        ("state" = Option<String>, Query, description = "PENDING, IN_PROGRESS, COMPLETED or FAILED"),
        ("phase" = Option<String>, Query, description = "live, waiting or held"),
        ("label" = Option<String>, Query, description = "name=value or name:value"),
        ("batch_id" = Option<String>, Query),
        ("destination" = Option<String>, Query, description = "Of the routes that call this destination"),
        ("code" = Option<String>, Query, description = "The code of its failure, of what it is held for, or of its last error"),
        ("from" = Option<String>, Query, description = "Accepted at or after this time"),
        ("to" = Option<String>, Query, description = "Accepted before this time"),
        ("limit" = Option<u32>, Query, description = "By default 50, at most 1000"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the previous page"),
    ),
    responses(
        (status = 200, body = OperationPage, description = "Newest first"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer {
    let mut query = QueryParameters::new(pairs)?;
    let limit = query.limit()?;
    let cursor = query.take("cursor");
    let destination = query.take("destination");
    let mut filter = filter(&mut query)?;
    query.finish()?;
    let calls = destination.map(|name| app.routes.calling(&name));
    // No route calls it: no operation can match.
    let is_called = calls.as_ref().is_none_or(|routes| !routes.is_empty());
    filter.routes = calls.unwrap_or_default();
    let page = match caller.narrow(filter).filter(|_| is_called) {
        Some(filter) => search(&app, &filter, cursor, limit).await?,
        None => Page {
            items: Vec::new(),
            next_cursor: None,
        },
    };
    let orchestrator = app.orchestrator();
    // A result that cannot be decrypted must not hide the other operations. Payloads are not shown.
    let open = |mut operation: Operation| {
        operation.payload = Sealed::new(Vec::new());
        let opened = orchestrator.snapshot(operation.clone());
        opened.unwrap_or(Snapshot {
            operation,
            result: None,
        })
    };
    let snapshots = page.items.into_iter().map(open).collect();
    let page = OperationPage {
        operations: app.documents(snapshots).await,
        next_cursor: page.next_cursor,
    };
    json(StatusCode::OK, &page)
}

/// One page for the console: rows without their payloads, and why each is not running.
pub(crate) async fn find(
    app: &App,
    caller: &Caller,
    pairs: Vec<(String, String)>,
    cursor: Option<String>,
    limit: usize,
) -> Result<Page<(Operation, Option<HoldDocument>)>, Problem> {
    let mut query = QueryParameters::new(pairs)?;
    let filter = filter(&mut query)?;
    query.finish()?;
    let Some(filter) = caller.narrow(filter) else {
        return Ok(Page {
            items: Vec::new(),
            next_cursor: None,
        });
    };
    let page = search(app, &filter, cursor, limit).await?;
    let mut holds = Holds::new(app);
    let mut items = Vec::with_capacity(page.items.len());
    for mut row in page.items {
        row.payload = Sealed::new(Vec::new());
        let hold = holds.of(&row).await;
        items.push((row, hold));
    }
    Ok(Page {
        items,
        next_cursor: page.next_cursor,
    })
}

/// One page. A search that finds nothing goes on for a while, so that most callers need not follow
/// empty pages.
async fn search(
    app: &App,
    filter: &Filter,
    mut cursor: Option<String>,
    limit: usize,
) -> clinch_core::Result<Page<Operation>> {
    for _ in 1..SEARCHES_MAX {
        let page = app.inspect.list(filter, cursor.as_deref(), limit).await?;
        if !page.items.is_empty() || page.next_cursor.is_none() {
            return Ok(page);
        }
        cursor = page.next_cursor;
    }
    app.inspect.list(filter, cursor.as_deref(), limit).await
}

fn filter(query: &mut QueryParameters) -> Result<Filter, Problem> {
    let label = query.take("label").map(|label| {
        let parts = label.split_once('=').or_else(|| label.split_once(':'));
        let (name, value) = parts.unwrap_or((&label, ""));
        (name.to_owned(), value.to_owned())
    });
    Ok(Filter {
        domains: Vec::from_iter(query.parsed("domain", Domain::new)?),
        event_types: Vec::from_iter(query.parsed("event_type", EventType::new)?),
        biz_key: query.parsed("biz_key", BizKey::new)?,
        idem_key: query.parsed("idem_key", IdemKey::new)?,
        provider_txn_id: query.take("provider_txn_id"),
        status: query.parsed("state", status)?,
        phase: query.parsed("phase", phase)?,
        label,
        batch_id: query.parsed("batch_id", |id| id.parse::<BatchId>())?,
        from: query.time("from")?,
        to: query.time("to")?,
        code: query.take("code"),
        routes: Vec::new(),
    })
}

fn status(text: String) -> Result<Status, Invalid> {
    let all = [
        Status::Pending,
        Status::InProgress,
        Status::Completed,
        Status::Failed,
    ];
    let known = all.into_iter().find(|status| status.as_str() == text);
    known.ok_or_else(|| Invalid::new("state", "must be PENDING, IN_PROGRESS, COMPLETED or FAILED"))
}

fn phase(text: String) -> Result<Phase, Invalid> {
    match text.as_str() {
        "live" => Ok(Phase::Live),
        "waiting" => Ok(Phase::Waiting),
        "held" => Ok(Phase::Held),
        _ => Err(Invalid::new("phase", "must be live, waiting or held")),
    }
}

impl App {
    pub(super) async fn show(&self, id: OpId) -> Result<OperationDocument, Problem> {
        let snapshot = self.orchestrator().status(id).await?;
        Ok(self.document(snapshot).await)
    }
}

pub(super) fn illegal(refused: &Refused) -> Option<Why> {
    match refused {
        Refused::Illegal(illegal) => Some(illegal.why),
        _ => None,
    }
}

/// The answer to a change that was refused for a reason other than the operation's state.
pub(super) fn not_about_the_state(id: OpId, refused: &Refused) -> Problem {
    match refused {
        Refused::NotFound => Problem::not_found("there is no such operation"),
        _ => Problem::unavailable("the operation is being settled; try again").op_id(id),
    }
}

/// Cancel an operation.
///
/// No further call is made. 200 means canceled. 202 means that a call is running or that its effect
/// is unknown: the answer of that call decides.
#[utoipa::path(post, path = "/v1/operations/{op_id}/cancel", tag = "operations", operation_id = "cancel_operation",
    params(("op_id" = String, Path)),
    request_body = Option<ReasonDocument>,
    responses(
        (status = 200, body = OperationDocument, description = "The operation is canceled"),
        (status = 202, body = OperationDocument, description = "The cancel is requested: an attempt is running, or the effect is unknown"),
        (status = "4XX", body = ProblemDocument, description = "not_found, ambiguous_id, terminal"),
    ))]
pub(crate) async fn cancel(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let id = app.op_id(&caller, &id).await?;
    let (parts, body) = request.into_parts();
    let text = app.optional_body(&parts.headers, body).await?;
    let ReasonDocument { reason } = body::read(&text, INVALID_REQUEST)?;
    let reason = reason.unwrap_or_default();
    app.visible(&caller, id).await?;
    let refused = match app
        .orchestrator()
        .cancel(id, &caller.actor(), &reason)
        .await?
    {
        Ok(changed) => {
            let canceled = changed.state.is_terminal();
            let status = if canceled {
                StatusCode::OK
            } else {
                StatusCode::ACCEPTED
            };
            return json(status, &app.show(id).await?);
        }
        Err(refused) => refused,
    };
    match illegal(&refused) {
        Some(Why::Terminal) => {
            let row = app.orchestrator().status(id).await?;
            let failure = row.operation.state.failure.as_ref();
            if failure.is_some_and(|failure| failure.code == code::CANCELED) {
                return json(StatusCode::OK, &app.document(row).await);
            }
            let state = row.operation.state.status.as_str();
            let detail = format!("the operation is {state} and cannot be canceled");
            Err(Problem::conflict("terminal", detail).op_id(id))
        }
        Some(Why::CancelRequested) => json(StatusCode::ACCEPTED, &app.show(id).await?),
        _ => Err(not_about_the_state(id, &refused)),
    }
}

/// Settle a held operation.
///
/// For an operator who looked the call up at the provider: it was applied (`completed`), it never
/// will be (`failed`), or it was not and is called again (`retry`). A provider's answer that
/// arrives later is still kept.
#[utoipa::path(post, path = "/v1/operations/{op_id}/resolve", tag = "operations", operation_id = "resolve_operation",
    params(("op_id" = String, Path)),
    request_body = ResolveDocument,
    responses(
        (status = 200, body = OperationDocument, description = "The operation after the resolution"),
        (status = "4XX", body = ProblemDocument, description = "not_found, ambiguous_id, not_held, invalid_command"),
    ))]
pub(crate) async fn resolve(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let id = app.op_id(&caller, &id).await?;
    let text = app.text(request).await?;
    let mut members = Members::parse(&text)?;
    let given = members.clone();
    let mut document: ResolveDocument<'_> = members.take(INVALID_REQUEST)?;
    given.refuse_all_but(document.allowed(), INVALID_REQUEST)?;
    let reason = document.reason.take().unwrap_or_default();
    let (resolution, result) = document.resolution(app.payload_max())?;
    app.visible(&caller, id).await?;
    let resolved: Result<Changed, Refused> = app
        .orchestrator()
        .resolve(id, resolution, result, &caller.actor(), &reason)
        .await?;
    match resolved {
        Ok(_) => json(StatusCode::OK, &app.show(id).await?),
        Err(refused) if illegal(&refused).is_some() => {
            let row = app.orchestrator().status(id).await?;
            let state = row.operation.state.status.as_str();
            let detail = format!("only a held operation can be resolved; this one is {state}");
            Err(Problem::conflict("not_held", detail).op_id(id))
        }
        Err(refused) => Err(not_about_the_state(id, &refused)),
    }
}

impl ResolveDocument<'_> {
    /// The members that are allowed with this `as`.
    fn allowed(&self) -> &'static [&'static str] {
        match self.r#as {
            ResolveAs::Completed => &["as", "reason", "provider_txn_id", "payload"],
            ResolveAs::Failed => &["as", "reason", "code", "message", "effect"],
            ResolveAs::Retry => &["as", "reason"],
        }
    }

    fn resolution(self, payload_max: usize) -> Result<(Resolution, Option<Success>), Problem> {
        match self.r#as {
            ResolveAs::Completed => {
                let payload = self.payload.map(|raw| payload_of(raw, payload_max));
                let success = Success {
                    provider_txn_id: self.provider_txn_id,
                    ..Success::new(payload.transpose()?.unwrap_or_else(Payload::null))
                };
                Ok((Resolution::Completed, Some(success)))
            }
            ResolveAs::Failed => {
                let code = self.code.unwrap_or_else(|| "resolved_failed".to_owned());
                let message = self
                    .message
                    .unwrap_or_else(|| "settled by an operator".to_owned());
                let effect = self.effect.map(|effect| match effect {
                    ResolveEffect::None => Effect::None,
                    ResolveEffect::Unknown => Effect::Unknown,
                });
                let fail = Fail::new(code, message);
                Ok((Resolution::Failed { fail, effect }, None))
            }
            ResolveAs::Retry => Ok((Resolution::Retry, None)),
        }
    }
}
