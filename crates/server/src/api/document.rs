//! The operation as callers see it.

use std::collections::BTreeMap;

use clinch_core::ports::Known;
use clinch_core::protocol::LastError;
use clinch_core::{Effect, Failure, Keys, Payload, Status};
use clinch_engine::Snapshot;
use serde::Serialize;
use utoipa::ToSchema;

use super::app::App;
use super::caller::Caller;
use super::hold::Holds;
use super::time;

/// An operation: one call that ends exactly one way.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct OperationDocument {
    /// The id of the operation, a UUID.
    op_id: String,
    /// The domain: a group of operations, such as payments.
    domain: String,
    /// The type of the call within its domain, such as charge.
    event_type: String,
    /// What the call is about at the caller's side, such as the number of an order.
    biz_key: String,
    /// The caller's idempotency key: the same four keys name the same operation.
    idem_key: String,
    /// PENDING, IN_PROGRESS, COMPLETED or FAILED.
    pub(crate) state: &'static str,
    /// Only while IN_PROGRESS: live, waiting or held.
    phase: Option<&'static str>,
    /// The number of calls that may have been sent.
    attempts: u32,
    /// Increases within a domain and biz_key.
    seq: Option<u64>,
    /// Increases with every change.
    version: Option<u64>,
    /// From -10 to 10; higher goes first.
    priority: i8,
    /// Names and values that the caller chose, for searching.
    labels: BTreeMap<String, String>,
    /// No attempt begins before this time; null: at once.
    run_at: Option<String>,
    /// No attempt begins after this time; null: the deadline of its route.
    deadline: Option<String>,
    /// When the operation was stored.
    accepted_at: Option<String>,
    /// When its first attempt began; null: none began.
    started_at: Option<String>,
    /// When it became COMPLETED or FAILED; null: it is open.
    finished_at: Option<String>,
    /// When the next attempt is due; null: none is planned.
    next_attempt_at: Option<String>,
    /// Whether a call may have had its effect: none or unknown.
    effect: &'static str,
    /// Only when FAILED: a late answer says that the call was applied.
    late_ok: bool,
    /// A cancel waits for a call that may have had its effect.
    cancel_requested: bool,
    /// Why the operation is not running now.
    pub(crate) hold: Option<HoldDocument>,
    /// The failed operation that this one repeats.
    redrive_of: Option<String>,
    /// The operation that repeats this failed one.
    redriven_by: Option<String>,
    /// The batch of which it is a member.
    batch_id: Option<String>,
    /// The W3C trace id under which it was accepted.
    trace_id: Option<String>,
    /// Only when COMPLETED: what the provider answered.
    result: Option<ResultDocument>,
    /// Only when FAILED: why.
    failure: Option<FailureDocument>,
    /// The last error of an operation that has not completed.
    last_error: Option<LastErrorDocument>,
    /// The idempotency key that the provider sees.
    outbound_key: Option<String>,
    /// The destination that the operation's route calls; null: remote workers make the calls, or
    /// this server has no such route.
    destination: Option<String>,
    /// The operation was pruned: only its keys and its final state are left.
    #[serde(skip_serializing_if = "is_false")]
    #[schema(required = false)]
    pruned: bool,
}

/// Why an operation is not running now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct HoldDocument {
    /// effect_unknown, paused, breaker_open, rate_limited, bulkhead_full, key_order,
    /// no_executor, backoff or delayed.
    pub(crate) reason: &'static str,
    /// When this reason ends, as far as is known; null: not known.
    pub(crate) until: Option<String>,
}

/// The provider's successful answer.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ResultDocument {
    /// The provider's own id of the transaction.
    provider_txn_id: Option<String>,
    /// What the provider answered: any JSON.
    #[schema(value_type = serde_json::Value)]
    payload: Payload,
}

/// Why an operation is FAILED.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct FailureDocument {
    /// A short name for programs: the provider's, or one of Clinch's, such as retry_exhausted.
    code: String,
    /// What happened, for people; shortened and redacted.
    message: String,
    /// What was behind it, such as the provider's own code.
    cause: Option<String>,
    /// none or unknown.
    effect: &'static str,
}

/// The last error of an operation.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct LastErrorDocument {
    /// The provider's code, or not_called, not_applied, effect_unknown, attempt_lost or
    /// probe_inconclusive.
    code: String,
    /// Shortened and redacted.
    message: String,
    /// When it happened.
    at: String,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

pub(crate) fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "none",
        Effect::Unknown => "unknown",
    }
}

pub(crate) fn failure(failure: &Failure) -> FailureDocument {
    FailureDocument {
        code: failure.code.clone(),
        message: failure.message.clone(),
        cause: failure.cause.clone(),
        effect: effect(failure.effect),
    }
}

fn last_error(error: &LastError) -> LastErrorDocument {
    LastErrorDocument {
        code: error.code.clone(),
        message: error.message.clone(),
        at: time::write(error.at),
    }
}

pub(crate) fn phase(phase: clinch_core::protocol::Phase) -> &'static str {
    use clinch_core::protocol::Phase;
    match phase {
        Phase::Live => "live",
        Phase::Waiting => "waiting",
        Phase::Held => "held",
    }
}

impl OperationDocument {
    /// The document of a row, with the reason why the operation is not running.
    fn of(snapshot: Snapshot, hold: Option<HoldDocument>, destination: Option<String>) -> Self {
        let Snapshot { operation, result } = snapshot;
        let state = &operation.state;
        let is_completed = state.status == Status::Completed;
        let record = operation.result.as_ref();
        let result = is_completed.then(|| ResultDocument {
            provider_txn_id: record.and_then(|record| record.provider_txn_id.clone()),
            payload: result.unwrap_or_else(Payload::null),
        });
        let failed = state.failure.as_ref().filter(|_| state.is_terminal());
        let labels = operation.options.labels.iter();
        let trace = operation.trace.as_deref();
        Self {
            state: state.status.as_str(),
            phase: state.phase.map(phase),
            attempts: state.attempts,
            seq: Some(operation.seq),
            version: Some(state.version),
            priority: operation.options.priority.get(),
            labels: labels.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            run_at: operation.options.run_at.map(time::write),
            deadline: operation.options.deadline.map(time::write),
            accepted_at: Some(time::write(operation.accepted_at)),
            started_at: operation.started_at.map(time::write),
            finished_at: operation.finished_at.map(time::write),
            next_attempt_at: state.next_attempt_at.map(time::write),
            effect: effect(state.effect),
            late_ok: state.late_ok,
            cancel_requested: state.cancel_requested,
            hold,
            redrive_of: operation.redrive_of.map(|op_id| op_id.to_string()),
            redriven_by: operation.redriven_by.map(|op_id| op_id.to_string()),
            batch_id: operation.batch_id.map(|batch_id| batch_id.to_string()),
            trace_id: trace
                .and_then(|trace| trace.split('-').nth(1))
                .map(str::to_owned),
            result,
            failure: failed.map(failure),
            last_error: state.last_error.as_deref().map(last_error),
            outbound_key: Some(operation.outbound_key.to_string()),
            destination,
            ..Self::known(
                &operation.keys,
                &Known {
                    op_id: operation.op_id,
                    status: state.status,
                    pruned: false,
                },
            )
        }
    }

    /// The document without the row, which was pruned or cannot be read now.
    pub(crate) fn known(keys: &Keys, known: &Known) -> Self {
        Self {
            op_id: known.op_id.to_string(),
            domain: keys.domain.to_string(),
            event_type: keys.event_type.to_string(),
            biz_key: keys.biz_key.to_string(),
            idem_key: keys.idem_key.to_string(),
            state: known.status.as_str(),
            phase: None,
            attempts: 0,
            seq: None,
            version: None,
            priority: 0,
            labels: BTreeMap::new(),
            run_at: None,
            deadline: None,
            accepted_at: None,
            started_at: None,
            finished_at: None,
            next_attempt_at: None,
            effect: "none",
            late_ok: false,
            cancel_requested: false,
            hold: None,
            redrive_of: None,
            redriven_by: None,
            batch_id: None,
            trace_id: None,
            result: None,
            failure: None,
            last_error: None,
            outbound_key: None,
            destination: None,
            pruned: known.pruned,
        }
    }

    /// The length of the result: no other part of the document can be long.
    pub(crate) fn result_bytes(&self) -> usize {
        let result = self.result.as_ref();
        result.map_or(0, |result| result.payload.as_bytes().len())
    }

    /// Whether the caller may touch the operation.
    pub(super) fn is_for(&self, caller: &Caller) -> bool {
        caller.restriction().allows(&self.domain, &self.event_type)
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.state, "COMPLETED" | "FAILED")
    }
}

impl App {
    /// The documents of rows, in the order of the rows.
    pub(crate) async fn documents(&self, snapshots: Vec<Snapshot>) -> Vec<OperationDocument> {
        let mut holds = Holds::new(self);
        let mut documents = Vec::with_capacity(snapshots.len());
        for snapshot in snapshots {
            let hold = holds.of(&snapshot.operation).await;
            let destination = self.destination_of(&snapshot);
            documents.push(OperationDocument::of(snapshot, hold, destination));
        }
        documents
    }

    pub(crate) async fn document(&self, snapshot: Snapshot) -> OperationDocument {
        let hold = Holds::new(self).of(&snapshot.operation).await;
        let destination = self.destination_of(&snapshot);
        OperationDocument::of(snapshot, hold, destination)
    }

    /// The destination that the operation's route calls.
    fn destination_of(&self, snapshot: &Snapshot) -> Option<String> {
        let keys = &snapshot.operation.keys;
        let route = self.routes.find(&keys.domain, &keys.event_type)?;
        route.destination.clone()
    }
}
