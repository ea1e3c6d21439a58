//! Remote workers in any language: lease, heartbeat, checkpoint, release, report.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use clinch_core::protocol::State as Row;
use clinch_core::{
    Command, Domain, Error, ErrorKind, EventType, Invalid, LeaseToken, OpId, Payload, WorkerId,
};
use clinch_engine::{LeaseRequest, Leased, LeasedAttempt, Report};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json, op_id};
use super::body::{self, INVALID_REQUEST};
use super::caller::Caller;
use super::document::phase;
use super::outcomes::{self, OutcomeDocument, ReadOutcome};
use super::problem::{Problem, ProblemDocument};
use super::time;
use super::values::DurationValue;

/// The most deliveries of one lease.
const DELIVERIES_MAX: u64 = 1_000;
/// The most bytes that the payloads of one lease may have: a lease of long payloads has fewer
/// deliveries.
const LEASED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The name of a worker that sends no name.
const UNNAMED_WORKER: &str = "remote";

/// The attempts that a worker asks for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseDocument {
    /// The domain whose operations the worker executes.
    domain: String,
    /// By default every event type that is declared.
    event_types: Option<Vec<String>>,
    /// How many deliveries: by default 1, at most 1000, and at most as many payloads of the
    /// longest allowed length as fit into 64 MiB.
    #[schema(value_type = Option<u32>)]
    max: Option<u64>,
    /// How long to wait for the first delivery, such as "10s" or 10; by default 0, at most 60 s.
    #[schema(value_type = Option<String>)]
    wait: Option<DurationValue>,
    /// How long the lease lasts, such as "30s" or 30; by default the server's lease.
    #[schema(value_type = Option<String>)]
    lease: Option<DurationValue>,
    /// The worker's name in the ledger.
    worker: Option<String>,
}

/// Attempts that have begun for this worker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Deliveries {
    /// At most `max`; empty: there was nothing to do within `wait`.
    deliveries: Vec<DeliveryDocument>,
}

/// An attempt that has begun for this worker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryDocument {
    /// The id of the operation, a UUID.
    op_id: String,
    /// Every report of this attempt carries the fence.
    fence: u64,
    /// Every report of this attempt carries the token. The token is a secret of this worker and is
    /// not stored.
    token: String,
    /// After this time the attempt counts as lost, unless it is reported or extended before.
    lease_until: Option<String>,
    /// The number of this call, from 1.
    attempt: u32,
    /// The idempotency key for the provider: the same for every attempt.
    outbound_key: String,
    /// Make no call after this time; null: there is no deadline.
    deadline: Option<String>,
    /// The checkpoint that an earlier attempt stored.
    checkpoint: Option<Value>,
    /// The W3C traceparent of this attempt, for the provider.
    traceparent: Option<String>,
    /// What to call the provider for.
    command: CommandDocument,
}

/// The command of the operation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommandDocument {
    /// The domain: a group of operations, such as payments.
    domain: String,
    /// The type of the call within its domain, such as charge.
    event_type: String,
    /// What the call is about at the caller's side, such as the number of an order.
    biz_key: String,
    /// The caller's idempotency key: the same four keys name the same operation.
    idem_key: String,
    /// What the caller submitted: any JSON.
    #[schema(value_type = serde_json::Value)]
    payload: Payload,
    /// No attempt begins before this time; null: at once.
    run_at: Option<String>,
    /// The deadline that the caller asked for; null: that of the route.
    deadline: Option<String>,
    /// From -10 to 10; higher goes first.
    priority: i8,
    /// Names and values that the caller chose, for searching.
    labels: BTreeMap<String, String>,
}

/// The operation after a report.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeaseState {
    /// The id of the operation, a UUID.
    op_id: String,
    /// PENDING, IN_PROGRESS, COMPLETED or FAILED.
    state: &'static str,
    /// Only while IN_PROGRESS: live, waiting or held.
    phase: Option<&'static str>,
    /// The fence of the latest attempt. Another than yours: another attempt has begun.
    fence: u64,
    /// The operation was canceled: make no further call.
    cancel_requested: bool,
    /// After this time the attempt counts as lost; null: no attempt is running.
    lease_until: Option<String>,
    /// Parts of an ok that were not stored, or not completely. The ok itself was stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

/// Extends the lease of an attempt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatDocument {
    /// The fence of the delivery.
    fence: u64,
    /// The token of the delivery.
    token: String,
    /// How long from now, such as "30s" or 30; by default the server's lease.
    #[schema(value_type = Option<String>)]
    lease: Option<DurationValue>,
}

/// Gives back an attempt that made no call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseDocument {
    /// The fence of the delivery.
    fence: u64,
    /// The token of the delivery.
    token: String,
    /// The worker's name in the ledger.
    worker: Option<String>,
    /// Why; not stored.
    #[serde(rename = "reason")]
    _reason: Option<String>,
}

/// Stores progress for the next attempt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointDocument<'a> {
    /// The fence of the delivery.
    fence: u64,
    /// The token of the delivery.
    token: String,
    /// Any JSON value. Stored as it was sent.
    #[serde(borrow)]
    #[schema(value_type = Value)]
    checkpoint: &'a RawValue,
}

/// Lease operations for a remote worker.
///
/// Begins attempts of routes with `remote = true` and hands them to the caller, who makes the calls
/// and reports how they ended. An empty list means that there was nothing to do within `wait`.
#[utoipa::path(post, path = "/v1/leases", tag = "remote workers", operation_id = "lease_operations",
    request_body = LeaseDocument,
    responses(
        (status = 200, body = Deliveries, description = "The deliveries that were available within `wait`"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request, unknown_route"),
    ))]
pub(crate) async fn lease(State(app): State<Shared>, caller: Caller, request: Request) -> Answer {
    let text = app.text(request).await?;
    let document: LeaseDocument = body::read(&text, INVALID_REQUEST)?;
    let max = document.max.unwrap_or(1);
    if max == 0 {
        return Err(body::refuse(INVALID_REQUEST, "max", "must be at least 1"));
    }
    let wait = document.wait.map_or(Duration::ZERO, |wait| wait.0);
    let lease = app.lease_of(document.lease)?;
    let domain = Domain::new(document.domain).map_err(invalid)?;
    let types = document.event_types.unwrap_or_default().into_iter();
    let types: Result<Vec<_>, _> = types.map(EventType::new).collect();
    let types = types.map_err(invalid)?;
    let request = LeaseRequest {
        event_types: app.leasable(&caller, &domain, types)?,
        domain,
        max: deliveries_max(max, app.payload_max()),
        wait: if app.stop.is_cancelled() {
            Duration::ZERO
        } else {
            wait
        },
        lease,
        worker: worker(document.worker)?,
    };
    let leased = app.orchestrator().lease(&request).await?;
    let deliveries = leased.into_iter().map(delivery).collect();
    json(StatusCode::OK, &Deliveries { deliveries })
}

fn deliveries_max(asked: u64, payload_max: usize) -> usize {
    let held = (LEASED_BYTES_MAX / payload_max.max(1)).max(1);
    usize::try_from(asked.min(DELIVERIES_MAX)).map_or(1, |asked| asked.min(held))
}

fn delivery(leased: Leased) -> DeliveryDocument {
    let Leased {
        envelope,
        token,
        lease_until,
    } = leased;
    let Command {
        keys,
        payload,
        options,
    } = envelope.command;
    let labels = options.labels.iter();
    DeliveryDocument {
        op_id: envelope.op_id.to_string(),
        fence: envelope.fence,
        token: token.to_string(),
        lease_until: lease_until.map(time::write),
        attempt: envelope.attempt,
        outbound_key: envelope.outbound_key.as_str().to_owned(),
        deadline: envelope.deadline.map(time::write),
        checkpoint: envelope.checkpoint.map(|bytes| checkpoint_of(&bytes)),
        traceparent: envelope.trace,
        command: CommandDocument {
            labels: labels.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            domain: keys.domain.into(),
            event_type: keys.event_type.into(),
            biz_key: keys.biz_key.into(),
            idem_key: keys.idem_key.into(),
            payload,
            run_at: options.run_at.map(time::write),
            deadline: options.deadline.map(time::write),
            priority: options.priority.get(),
        },
    }
}

/// A remote worker's checkpoint is JSON; a checkpoint of another kind is shown as hexadecimal
/// digits.
fn checkpoint_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        serde_json::json!({ "hex": hex })
    })
}

fn invalid(invalid: Invalid) -> Problem {
    Problem::invalid(INVALID_REQUEST, &invalid)
}

/// The worker of this name, or the one for requests without a name.
pub(super) fn worker(name: Option<String>) -> Result<WorkerId, Problem> {
    match name {
        Some(name) => WorkerId::claimed(name).map_err(invalid),
        None => WorkerId::new(UNNAMED_WORKER).map_err(|_| Problem::internal()),
    }
}

/// The attempt that a report is about, by the fence and the token of its delivery.
fn attempt(op_id: OpId, fence: u64, token: &str) -> Result<LeasedAttempt, Problem> {
    let token: LeaseToken = token.parse().map_err(invalid)?;
    Ok(LeasedAttempt {
        op_id,
        fence,
        token,
    })
}

fn state(id: OpId, row: &Row) -> LeaseState {
    LeaseState {
        op_id: id.to_string(),
        state: row.status.as_str(),
        phase: row.phase.map(phase),
        fence: row.fence,
        cancel_requested: row.cancel_requested,
        lease_until: row.lease_until.map(time::write),
        left_out: Vec::new(),
    }
}

/// The answer to a refused report: no lease gave out this pair of fence and token, or the attempt
/// is no longer the current one.
fn refused(id: OpId, error: Error) -> Problem {
    match error.kind() {
        ErrorKind::Conflict => Problem::conflict("stale_fence", error.message()).op_id(id),
        _ => error.into(),
    }
}

fn reported(id: OpId, row: Result<Row, Error>) -> Answer {
    match row {
        Ok(row) => json(StatusCode::OK, &state(id, &row)),
        Err(error) => Err(refused(id, error)),
    }
}

impl App {
    /// The lease that a worker asks for, within bounds.
    fn lease_of(&self, asked: Option<DurationValue>) -> Result<Duration, Problem> {
        /// An hour after a worker crashed, its operation is free again at the latest.
        const LEASE_MAX: Duration = Duration::from_secs(3_600);
        let lease = asked.map_or(self.config.worker.lease.0, |lease| lease.0);
        if lease.is_zero() {
            let problem = "must be longer than 0";
            return Err(body::refuse(INVALID_REQUEST, "lease", problem));
        }
        Ok(lease.min(LEASE_MAX))
    }
}

/// Extend a lease.
///
/// The attempt stays the worker's for `lease` from now. The answer says whether a cancel was
/// requested.
#[utoipa::path(post, path = "/v1/leases/{op_id}/heartbeat", tag = "remote workers", operation_id = "extend_lease",
    params(("op_id" = String, Path)),
    request_body = HeartbeatDocument,
    responses(
        (status = 200, body = LeaseState, description = "cancel_requested says whether to stop"),
        (status = "4XX", body = ProblemDocument, description = "not_found, stale_fence"),
    ))]
pub(crate) async fn heartbeat(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let id = op_id(&id)?;
    let text = app.text(request).await?;
    let document: HeartbeatDocument = body::read(&text, INVALID_REQUEST)?;
    let attempt = attempt(id, document.fence, &document.token)?;
    let lease = app.lease_of(document.lease)?;
    app.reportable(&caller, id).await?;
    reported(id, app.orchestrator().heartbeat(attempt, lease).await)
}

/// Give an attempt back without a call.
///
/// For a worker that stops before it called the provider. The attempt does not count, and another
/// worker may lease the operation at once.
#[utoipa::path(post, path = "/v1/leases/{op_id}/release", tag = "remote workers", operation_id = "release_lease",
    params(("op_id" = String, Path)),
    request_body = ReleaseDocument,
    responses(
        (status = 200, body = LeaseState, description = "The attempt is released; another worker may lease the operation"),
        (status = "4XX", body = ProblemDocument, description = "not_found, stale_fence"),
    ))]
pub(crate) async fn release(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let id = op_id(&id)?;
    let text = app.text(request).await?;
    let document: ReleaseDocument = body::read(&text, INVALID_REQUEST)?;
    let attempt = attempt(id, document.fence, &document.token)?;
    let worker = worker(document.worker)?;
    app.reportable(&caller, id).await?;
    reported(id, app.orchestrator().release(attempt, worker).await)
}

/// Keep progress for the next attempt.
///
/// The next attempt gets the checkpoint with its delivery. A later checkpoint replaces an earlier
/// one.
#[utoipa::path(post, path = "/v1/leases/{op_id}/checkpoint", tag = "remote workers", operation_id = "store_checkpoint",
    params(("op_id" = String, Path)),
    request_body = CheckpointDocument,
    responses(
        (status = 200, body = LeaseState, description = "The checkpoint is stored for the next attempt"),
        (status = "4XX", body = ProblemDocument, description = "not_found, stale_fence"),
    ))]
pub(crate) async fn checkpoint(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let id = op_id(&id)?;
    let text = app.text(request).await?;
    let document: CheckpointDocument<'_> = body::read(&text, INVALID_REQUEST)?;
    let attempt = attempt(id, document.fence, &document.token)?;
    let bytes = document.checkpoint.get().as_bytes();
    let max = app.config.worker.checkpoint_max.0;
    if bytes.len() > max {
        let detail = format!("checkpoint is longer than {max} bytes");
        return Err(Problem::too_large(detail).field("checkpoint"));
    }
    app.reportable(&caller, id).await?;
    reported(id, app.orchestrator().checkpoint(attempt, bytes).await)
}

/// Report how an attempt ended.
///
/// `ok`: the provider applied the call. `retry`: it did not (`applied: no`), or nobody knows
/// (`applied: unknown`). `fail`: it refused for good. An ok is always taken, also after the lease
/// has ended.
#[utoipa::path(post, path = "/v1/leases/{op_id}/outcome", tag = "remote workers", operation_id = "report_outcome",
    params(("op_id" = String, Path)),
    request_body = OutcomeDocument,
    responses(
        (status = 200, body = LeaseState, description = "The report is stored; the same report again is answered 200 too. An ok is kept whatever else is wrong with it: left_out says which parts were not stored"),
        (status = "4XX", body = ProblemDocument, description = "not_found, stale_fence, invalid_request, payload_too_large"),
    ))]
pub(crate) async fn outcome(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let id = op_id(&id)?;
    let (parts, body) = request.into_parts();
    let text = app.bulk_body(&parts.headers, body).await;
    let text = text.map_err(outcomes::say_how_to_send_less)?;
    let report = outcomes::Report::parse(&text)?;
    let attempt = attempt(id, report.document.fence, &report.document.token)?;
    let ReadOutcome {
        worker,
        outcome,
        truncated,
        left_out,
    } = report.outcome(&app, &caller)?;
    app.reportable(&caller, id).await?;
    let report = Report {
        attempt,
        worker,
        outcome,
        left_out,
    };
    let taken = app.orchestrator().report(report).await;
    let taken = taken.map_err(|error| refused(id, error))?;
    let left_out = truncated.into_iter().chain(taken.left_out).collect();
    let document = LeaseState {
        left_out,
        ..state(id, &taken.state)
    };
    json(StatusCode::OK, &document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_20_a_lease_holds_a_bounded_amount_of_payloads() {
        const KIB: usize = 1_024;
        assert_eq!(deliveries_max(1, 256 * KIB), 1);
        assert_eq!(deliveries_max(1_000, 256 * KIB), 256);
        assert_eq!(deliveries_max(u64::MAX, KIB), 1_000);
        assert_eq!(deliveries_max(1_000, usize::MAX), 1);
    }
}
