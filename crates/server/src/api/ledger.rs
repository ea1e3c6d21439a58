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
    op_id: String,
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
    fence: u64,
    worker: Option<String>,
    started_at: String,
    ended_at: Option<String>,
    /// ok, retry, fail, not_called or lost; null: the attempt is running.
    outcome: Option<&'static str>,
    latency_ms: Option<u64>,
    /// Shortened and redacted.
    error: Option<String>,
    #[serde(skip)]
    started: Timestamp,
}

/// An answer that arrived too late.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct LateDocument {
    at: String,
    /// ok, retry or fail.
    outcome: &'static str,
    worker: Option<String>,
    provider_txn_id: Option<String>,
    /// Why the answer changed nothing, if it did not.
    refused: Option<String>,
}

/// One line of the ledger.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LineDocument {
    at: String,
    event: String,
    /// The state of the operation after this line.
    state: &'static str,
    phase: Option<&'static str>,
    fence: u64,
    version: u64,
    by: Option<String>,
    /// Why this line changed nothing, if it did not.
    refused: Option<String>,
    note: String,
}

#[utoipa::path(get, path = "/v1/operations/{op_id}/attempts", tag = "operations",
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
