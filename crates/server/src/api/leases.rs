//! Remote workers in any language: lease, heartbeat, report.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use clinch::engine::LeaseRequest;
use clinch_core::protocol::State as Row;
use clinch_core::{
    Applied, Command, Domain, Envelope, Error, ErrorKind, EventType, Fail, OpId, Outcome, Payload,
    Retry, Success, WorkerId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json, op_id};
use super::caller::Caller;
use super::commands::{Around, payload_of};
use super::document::phase;
use super::fields::Fields;
use super::problem::{Problem, ProblemDocument};
use super::time;

/// Deliveries of one lease, unless the worker asks for fewer.
const DELIVERIES_MAX: u64 = 1_000;
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
    /// 1 unless said; at most 1000.
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
}

/// Moves the lease.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatDocument {
    fence: u64,
    /// From now, such as "30s" or 30; the server's lease unless said.
    lease: Option<String>,
}

/// Gives an attempt back that sent nothing.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseDocument {
    fence: u64,
    worker: Option<String>,
}

/// Keeps something for the next attempt.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointDocument {
    fence: u64,
    checkpoint: Value,
}

/// How an attempt ended. The outcome's fields may also stand in `outcome`.
#[expect(dead_code, reason = "documents the request")]
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutcomeDocument {
    fence: u64,
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
        max: usize::try_from(max.min(DELIVERIES_MAX)).unwrap_or(1),
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

fn delivery(envelope: Envelope) -> DeliveryDocument {
    let Command {
        keys,
        payload,
        options,
    } = envelope.command;
    let labels = options.labels.iter();
    DeliveryDocument {
        op_id: envelope.op_id.to_string(),
        fence: envelope.fence,
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

fn worker(fields: &mut Fields<'_>) -> Result<WorkerId, Problem> {
    let name = fields
        .text("worker")?
        .unwrap_or_else(|| NAMELESS.to_owned());
    WorkerId::new(name).map_err(|invalid| fields.invalid(&invalid))
}

fn fence(fields: &mut Fields<'_>) -> Result<u64, Problem> {
    let fence = fields.number("fence")?;
    fence.ok_or_else(|| fields.refuse("fence", "is missing; the lease names it"))
}

fn state(id: OpId, row: &Row) -> LeaseState {
    LeaseState {
        op_id: id.to_string(),
        state: row.status.as_str(),
        phase: row.phase.map(phase),
        fence: row.fence,
        cancel_requested: row.cancel_requested,
        lease_until: row.lease_until.map(time::write),
    }
}

/// A report that was refused: its attempt is no longer the current one.
fn reported(id: OpId, row: Result<Row, Error>) -> Answer {
    match row {
        Ok(row) => json(StatusCode::OK, &state(id, &row)),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            Err(Problem::conflict("stale_fence", error.message()).op_id(id))
        }
        Err(error) => Err(error.into()),
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
    let fence = fence(&mut fields)?;
    let lease = app.lease_of(&mut fields)?;
    fields.finish()?;
    app.reportable(&caller, id).await?;
    reported(id, app.orchestrator().heartbeat(id, fence, lease).await)
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
    let fence = fence(&mut fields)?;
    let worker = worker(&mut fields)?;
    fields.text("reason")?;
    fields.finish()?;
    app.reportable(&caller, id).await?;
    reported(id, app.orchestrator().release(id, fence, worker).await)
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
    let fence = fence(&mut fields)?;
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
    reported(id, app.orchestrator().checkpoint(id, fence, bytes).await)
}

#[utoipa::path(post, path = "/v1/leases/{op_id}/outcome", tag = "remote workers",
    params(("op_id" = String, Path)),
    request_body = OutcomeDocument,
    responses(
        (status = 200, body = LeaseState, description = "Taken; the same again is 200 too"),
        (status = "4XX", body = ProblemDocument, description = "not_found, stale_fence, invalid_command"),
    ))]
pub(crate) async fn outcome(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let id = op_id(&id)?;
    let (parts, body) = request.into_parts();
    let text = app.bulk_body(&parts.headers, body).await?;
    let mut fields = Fields::parse(&text, "invalid_request")?;
    let fence = fence(&mut fields)?;
    let worker = worker(&mut fields)?;
    let outcome = match fields.has("outcome") {
        true => {
            let inner = fields.object("outcome")?;
            fields.finish()?;
            read(
                inner.ok_or_else(|| Problem::request("outcome is missing").field("outcome"))?,
                &app,
                &caller,
            )?
        }
        false => read(fields, &app, &caller)?,
    };
    app.reportable(&caller, id).await?;
    reported(
        id,
        app.orchestrator().report(id, fence, worker, outcome).await,
    )
}

fn read(mut fields: Fields<'_>, app: &App, caller: &Caller) -> Result<Outcome, Problem> {
    let outcome = match fields.required("type")?.as_str() {
        "ok" => ok(&mut fields, app, caller)?,
        "retry" => retry(&mut fields)?,
        "fail" => {
            let code = fields.required("code")?;
            let message = fields.text("message")?.unwrap_or_default();
            let fail = Fail::new(code, message);
            let cause = fields.text("cause")?;
            Outcome::Fail(match cause {
                Some(cause) => fail.because(cause),
                None => fail,
            })
        }
        _ => return Err(fields.refuse("type", "must be ok, retry or fail")),
    };
    fields.finish()?;
    Ok(outcome)
}

fn ok(fields: &mut Fields<'_>, app: &App, caller: &Caller) -> Result<Outcome, Problem> {
    let payload = fields.raw("payload");
    let payload = payload.map(|raw| payload_of(raw, app.config.server.response_max.0));
    let around = Around {
        payload_max: app.payload_max(),
        ..Around::default()
    };
    let spawn = fields.list("spawn")?.unwrap_or_default();
    let spawn: Result<Vec<Command>, Problem> = spawn
        .iter()
        .map(|one| app.command(caller, one.get(), &around))
        .collect();
    let spawn = spawn?;
    if spawn.len() > clinch_core::SPAWN_MAX {
        return Err(fields.refuse("spawn", "holds more than 1000 operations"));
    }
    Ok(Outcome::Ok(Success {
        provider_txn_id: fields.text("provider_txn_id")?,
        payload: payload.transpose()?.unwrap_or_else(Payload::null),
        spawn,
    }))
}

fn retry(fields: &mut Fields<'_>) -> Result<Outcome, Problem> {
    let reason = fields.text("reason")?.unwrap_or_default();
    let mut retry = match fields.text("applied")?.as_deref() {
        Some("no") => Retry::not_applied(reason),
        None | Some("unknown") => Retry::unknown(reason),
        Some(_) => return Err(fields.refuse("applied", "must be no or unknown")),
    };
    debug_assert_ne!(retry.applied, Applied::NotCalled);
    retry.after = fields.number("after_ms")?.map(Duration::from_millis);
    Ok(Outcome::Retry(retry))
}
