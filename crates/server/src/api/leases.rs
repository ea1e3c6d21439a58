//! Remote workers in any language: lease, heartbeat, report.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use clinch::engine::{LeaseRequest, Leased, LeasedAttempt, Report};
use clinch_core::protocol::State as Row;
use clinch_core::{
    Command, Domain, Error, ErrorKind, EventType, LeaseToken, OpId, Payload, WorkerId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json, op_id};
use super::caller::Caller;
use super::document::phase;
use super::fields::Fields;
use super::outcomes::{self, Heard};
use super::problem::{Problem, ProblemDocument};
use super::time;

/// Deliveries of one lease, unless the worker asks for fewer.
const DELIVERIES_MAX: u64 = 1_000;
/// What their payloads may hold together: a lease of long ones has fewer.
const LEASED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Who reports, if nobody says.
const NAMELESS: &str = "remote";

/// What a worker asks for.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseDocument {
    domain: String,
    /// Left out: all that are declared.
    event_types: Option<Vec<String>>,
    /// 1 unless said; at most 1000, and as many of the longest payloads as 64 MiB hold.
    max: Option<u32>,
    /// How long to wait for the first, such as "10s" or 10; 0 unless said, at most 60 s.
    wait: Option<String>,
    /// For how long, such as "30s" or 30; the server's lease unless said.
    lease: Option<String>,
    /// Who asks, for the ledger.
    worker: Option<String>,
}

/// Attempts that have begun for this worker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Deliveries {
    deliveries: Vec<DeliveryDocument>,
}

/// One attempt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryDocument {
    op_id: String,
    /// Carried by every report of this attempt.
    fence: u64,
    /// Carried by every report of this attempt. A secret of this worker: it is stored nowhere.
    token: String,
    /// When the attempt counts as lost unless it is reported on or extended.
    lease_until: Option<String>,
    /// Which call this is, from 1.
    attempt: u32,
    /// What the provider is to see: the same for every attempt.
    outbound_key: String,
    deadline: Option<String>,
    /// What an earlier attempt left.
    checkpoint: Option<Value>,
    /// W3C traceparent.
    traceparent: Option<String>,
    command: CommandDocument,
}

/// What was asked for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommandDocument {
    domain: String,
    event_type: String,
    biz_key: String,
    idem_key: String,
    #[schema(value_type = serde_json::Value)]
    payload: Payload,
    run_at: Option<String>,
    deadline: Option<String>,
    priority: i8,
    labels: BTreeMap<String, String>,
}

/// The operation after a report.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeaseState {
    op_id: String,
    state: &'static str,
    phase: Option<&'static str>,
    fence: u64,
    /// No further call is wanted.
    cancel_requested: bool,
    lease_until: Option<String>,
    /// Parts of an ok that were not stored, or not as a whole. The yes was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

/// Moves the lease.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatDocument {
    fence: u64,
    /// As the delivery named it.
    token: String,
    /// From now, such as "30s" or 30; the server's lease unless said.
    lease: Option<String>,
}

/// Gives an attempt back that sent nothing.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseDocument {
    fence: u64,
    /// As the delivery named it.
    token: String,
    worker: Option<String>,
}

/// Keeps something for the next attempt.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointDocument {
    fence: u64,
    /// As the delivery named it.
    token: String,
    checkpoint: Value,
}

/// How an attempt ended. The outcome's fields may also stand in `outcome`.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutcomeDocument {
    fence: u64,
    /// As the delivery named it.
    token: String,
    worker: Option<String>,
    /// ok, retry or fail.
    r#type: String,
    /// Of ok.
    provider_txn_id: Option<String>,
    /// Of ok.
    payload: Option<Value>,
    /// Of ok: operations to accept in the commit that settles this one.
    spawn: Option<Vec<Value>>,
    /// Of retry.
    reason: Option<String>,
    /// Of retry: not again before.
    after_ms: Option<u64>,
    /// Of retry: no or unknown; left out means unknown.
    applied: Option<String>,
    /// Of fail.
    code: Option<String>,
    /// Of fail.
    message: Option<String>,
    /// Of fail.
    cause: Option<String>,
}

#[utoipa::path(post, path = "/v1/leases", tag = "remote workers",
    request_body = LeaseDocument,
    responses(
        (status = 200, body = Deliveries, description = "As many as there were in time"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request, unknown_route"),
    ))]
pub(crate) async fn lease(State(app): State<Shared>, caller: Caller, request: Request) -> Answer {
    let text = app.text(request).await?;
    let mut fields = Fields::parse(&text, "invalid_request")?;
    let domain = fields.required("domain")?;
    let types = fields.texts("event_types")?.unwrap_or_default();
    let types: Result<Vec<_>, _> = types.into_iter().map(EventType::new).collect();
    let max = fields.number("max")?.unwrap_or(1);
    if max == 0 {
        return Err(fields.refuse("max", "must be at least 1"));
    }
    let wait = fields.span("wait")?.unwrap_or_default();
    let lease = app.lease_of(&mut fields)?;
    let domain = Domain::new(domain).map_err(|invalid| fields.invalid(&invalid))?;
    let types = types.map_err(|invalid| fields.invalid(&invalid))?;
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
        worker: worker(&mut fields)?,
    };
    fields.finish()?;
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

/// The JSON that a remote worker left; bytes of another kind of worker as hexadecimal digits.
fn checkpoint_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        serde_json::json!({ "hex": hex })
    })
}

pub(super) fn nameless() -> Result<WorkerId, Problem> {
    WorkerId::new(NAMELESS).map_err(|_| Problem::internal())
}

pub(super) fn worker(fields: &mut Fields<'_>) -> Result<WorkerId, Problem> {
    match fields.text("worker")? {
        Some(name) => WorkerId::new(name).map_err(|invalid| fields.invalid(&invalid)),
        None => nameless(),
    }
}

/// The attempt that a report is about, as its delivery named it.
fn attempt(op_id: OpId, fields: &mut Fields<'_>) -> Result<LeasedAttempt, Problem> {
    let fence = fields.number("fence")?;
    let fence = fence.ok_or_else(|| fields.refuse("fence", "is missing; the lease names it"))?;
    let token = fields.text("token")?;
    let missing = "is missing; send the token that the lease gave out with this delivery";
    let token = token.ok_or_else(|| fields.refuse("token", missing))?;
    let token: Result<LeaseToken, _> = token.parse();
    let token = token.map_err(|invalid| fields.invalid(&invalid))?;
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

/// A report that was refused: no lease gave its pair of fence and token out, or its attempt is
/// no longer the current one.
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
    fn lease_of(&self, fields: &mut Fields<'_>) -> Result<Duration, Problem> {
        /// Longer than that a lost worker is not waited for.
        const LEASE_MAX: Duration = Duration::from_secs(3_600);
        let lease = fields.span("lease")?.unwrap_or(self.config.worker.lease.0);
        if lease.is_zero() {
            return Err(fields.refuse("lease", "must be longer than 0"));
        }
        Ok(lease.min(LEASE_MAX))
    }
}

#[utoipa::path(post, path = "/v1/leases/{op_id}/heartbeat", tag = "remote workers",
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
    let mut fields = Fields::parse(&text, "invalid_request")?;
    let attempt = attempt(id, &mut fields)?;
    let lease = app.lease_of(&mut fields)?;
    fields.finish()?;
    app.reportable(&caller, id).await?;
    reported(id, app.orchestrator().heartbeat(attempt, lease).await)
}

#[utoipa::path(post, path = "/v1/leases/{op_id}/release", tag = "remote workers",
    params(("op_id" = String, Path)),
    request_body = ReleaseDocument,
    responses(
        (status = 200, body = LeaseState, description = "Not called; someone else may"),
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
    let mut fields = Fields::parse(&text, "invalid_request")?;
    let attempt = attempt(id, &mut fields)?;
    let worker = worker(&mut fields)?;
    fields.text("reason")?;
    fields.finish()?;
    app.reportable(&caller, id).await?;
    reported(id, app.orchestrator().release(attempt, worker).await)
}

#[utoipa::path(post, path = "/v1/leases/{op_id}/checkpoint", tag = "remote workers",
    params(("op_id" = String, Path)),
    request_body = CheckpointDocument,
    responses(
        (status = 200, body = LeaseState, description = "Kept for the next attempt"),
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
    let mut fields = Fields::parse(&text, "invalid_request")?;
    let attempt = attempt(id, &mut fields)?;
    let kept: Option<&RawValue> = fields.raw("checkpoint");
    let kept = kept.ok_or_else(|| fields.refuse("checkpoint", "is missing"))?;
    fields.finish()?;
    let max = app.config.worker.checkpoint_max.0;
    if kept.get().len() > max {
        let detail = format!("checkpoint is longer than {max} bytes");
        return Err(Problem::too_large(detail).field("checkpoint"));
    }
    let bytes = kept.get().as_bytes();
    app.reportable(&caller, id).await?;
    reported(id, app.orchestrator().checkpoint(attempt, bytes).await)
}

#[utoipa::path(post, path = "/v1/leases/{op_id}/outcome", tag = "remote workers",
    params(("op_id" = String, Path)),
    request_body = OutcomeDocument,
    responses(
        (status = 200, body = LeaseState, description = "Taken; the same again is 200 too. An ok is kept whatever else is wrong with it: left_out says which parts were not stored"),
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
    let mut fields = Fields::parse(&text, "invalid_request")?;
    let attempt = attempt(id, &mut fields)?;
    let Heard {
        worker,
        outcome,
        truncated,
        left_out,
    } = outcomes::read(fields, &app, &caller)?;
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
