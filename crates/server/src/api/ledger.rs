//! The ledger of an operation, and its attempts.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use clinch_core::Timestamp;
use clinch_core::ports::LedgerLine;
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{Answer, Shared, json};
use super::caller::Caller;
use super::document::phase;
use super::problem::ProblemDocument;
use super::time;

/// The attempts of an operation, and every line of its ledger.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttemptsDocument {
    /// The id of the operation, a UUID.
    op_id: String,
    /// Every attempt, the first one first.
    attempts: Vec<AttemptDocument>,
    /// Answers that arrived when their attempt was no longer the current one.
    late_answers: Vec<LateDocument>,
    /// Every line of the ledger, in order.
    ledger: Vec<LineDocument>,
}

/// One attempt, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct AttemptDocument {
    /// The number of the attempt, from 1.
    number: u32,
    /// The number under which the attempt writes: it rises with each attempt.
    fence: u64,
    /// The process or remote worker that ran the attempt.
    worker: Option<String>,
    /// When the attempt began.
    started_at: String,
    /// When the attempt ended; null: it is running.
    ended_at: Option<String>,
    /// ok, retry, fail, not_called or lost; null: the attempt is running.
    outcome: Option<&'static str>,
    /// From the begin of the attempt to its end, in milliseconds; null: it is running.
    latency_ms: Option<u64>,
    /// Shortened and redacted.
    error: Option<String>,
    #[serde(skip)]
    started: Timestamp,
}

/// An answer that arrived too late.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct LateDocument {
    /// When the answer arrived.
    at: String,
    /// ok, retry or fail.
    outcome: &'static str,
    /// The process or remote worker that reported the answer.
    worker: Option<String>,
    /// The provider's own id of the transaction.
    provider_txn_id: Option<String>,
    /// Why the answer changed nothing, if it did not.
    refused: Option<String>,
}

/// One line of the ledger.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LineDocument {
    /// When the line was written.
    at: String,
    /// What happened, such as Accept, Begin, Ok or Retry.
    event: String,
    /// The state of the operation after this line.
    state: &'static str,
    /// The phase after this line: live, waiting or held; null: not IN_PROGRESS.
    phase: Option<&'static str>,
    /// The fence of the attempt that the line is about.
    fence: u64,
    /// The version of the operation after this line.
    version: u64,
    /// Who acted: an API key, `local`, a process or a remote worker; null: nobody in particular.
    by: Option<String>,
    /// Why this line changed nothing, if it did not.
    refused: Option<String>,
    /// More about the event, such as an operator's reason; may be empty.
    note: String,
}

/// Read what happened to an operation.
///
/// Every attempt and how it ended, answers that came late, and every line of the ledger: who did
/// what and when.
#[utoipa::path(get, path = "/v1/operations/{op_id}/attempts", tag = "operations", operation_id = "list_attempts",
    params(("op_id" = String, Path)),
    responses(
        (status = 200, body = AttemptsDocument, description = "The ledger"),
        (status = "4XX", body = ProblemDocument, description = "not_found, ambiguous_id"),
    ))]
pub(crate) async fn attempts(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    let id = app.op_id(&caller, &id).await?;
    app.visible(&caller, id).await?;
    let lines = app.inspect.ledger(id).await?;
    let (attempts, late_answers) = read(&lines);
    let document = AttemptsDocument {
        op_id: id.to_string(),
        attempts,
        late_answers,
        ledger: lines.iter().map(line).collect(),
    };
    json(StatusCode::OK, &document)
}

fn outcome(event: &str) -> Option<&'static str> {
    match event {
        "Ok" => Some("ok"),
        "Fail" => Some("fail"),
        "Retry" => Some("retry"),
        "NotCalled" => Some("not_called"),
        "AttemptLost" | "ProcessDied" => Some("lost"),
        _ => None,
    }
}

/// An attempt begins where the fence increases, and ends with the first answer that was accepted.
fn read(lines: &[LedgerLine]) -> (Vec<AttemptDocument>, Vec<LateDocument>) {
    let mut attempts: Vec<AttemptDocument> = Vec::new();
    let mut late = Vec::new();
    let mut fence = 0;
    for line in lines {
        let by = line.by.as_ref().map(ToString::to_string);
        if line.refused.is_none() && line.fence > fence {
            fence = line.fence;
            attempts.push(AttemptDocument {
                number: u32::try_from(attempts.len())
                    .unwrap_or(u32::MAX)
                    .saturating_add(1),
                fence,
                worker: by.clone(),
                started_at: time::write(line.at),
                ended_at: None,
                outcome: None,
                latency_ms: None,
                error: None,
                started: line.at,
            });
        }
        let Some(outcome) = outcome(&line.event) else {
            continue;
        };
        let open = attempts
            .last_mut()
            .filter(|attempt| attempt.outcome.is_none());
        match open {
            Some(attempt) if line.refused.is_none() => {
                let took = line.at.since(attempt.started).as_millis();
                attempt.outcome = Some(outcome);
                attempt.ended_at = Some(time::write(line.at));
                attempt.latency_ms = u64::try_from(took).ok();
                attempt.error = (!line.note.is_empty()).then(|| line.note.clone());
                attempt.worker = attempt.worker.take().or(by.filter(|_| outcome != "lost"));
            }
            _ => late.push(LateDocument {
                at: time::write(line.at),
                outcome,
                worker: by,
                provider_txn_id: line
                    .late
                    .as_ref()
                    .and_then(|late| late.provider_txn_id.clone()),
                refused: line.refused.clone(),
            }),
        }
    }
    (attempts, late)
}

fn line(line: &LedgerLine) -> LineDocument {
    LineDocument {
        at: time::write(line.at),
        event: line.event.clone(),
        state: line.status.as_str(),
        phase: line.phase.map(phase),
        fence: line.fence,
        version: line.version,
        by: line.by.as_ref().map(ToString::to_string),
        refused: line.refused.clone(),
        note: line.note.clone(),
    }
}
