//! The clock that retention uses.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use clinch_core::policy::SeenTime;
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{Answer, Shared, json};
use super::caller::Caller;
use super::problem::ProblemDocument;
use super::time;

/// The clock that retention uses.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetentionDocument {
    /// The time that the store's clock shows.
    now: String,
    /// The latest time that the processes have seen pass; null before the first prune.
    seen_at: Option<String>,
    /// The clock jumped ahead: nothing is pruned until the clock is confirmed or real time catches
    /// up.
    held_back: bool,
    /// How far the clock is ahead.
    ahead_ms: u64,
}

impl RetentionDocument {
    fn of(time: SeenTime, jump_max: Duration) -> Self {
        Self {
            now: time::write(time.now),
            seen_at: Some(time::write(time.seen_at)),
            // Between two checks the seen time is a little behind.
            held_back: time.ahead() > jump_max,
            ahead_ms: u64::try_from(time.ahead().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Read the clock of the retention.
///
/// Old operations are deleted by the time that the processes have seen pass. The answer says
/// whether a clock that jumped ahead holds this back.
#[utoipa::path(get, path = "/v1/retention", tag = "system", operation_id = "get_retention",
    responses(
        (status = 200, body = RetentionDocument, description = "The clock that retention uses"),
    ))]
pub(crate) async fn get(State(app): State<Shared>, caller: Caller) -> Answer {
    caller.everything()?;
    let jump_max = app.config.retention.clock_jump_max.0;
    let document = match app.recovery.seen_time().await? {
        Some(time) => RetentionDocument::of(time, jump_max),
        None => RetentionDocument {
            now: time::write(app.inspect.now().await?),
            seen_at: None,
            held_back: false,
            ahead_ms: 0,
        },
    };
    json(StatusCode::OK, &document)
}

/// Confirm the store's clock.
///
/// The clock is right as it is now: deleting continues by it. Use this after the clock was set on
/// purpose.
#[utoipa::path(post, path = "/v1/retention/confirm", tag = "system", operation_id = "confirm_clock",
    responses(
        (status = 200, body = RetentionDocument, description = "The store's clock is confirmed: retention uses it"),
        (status = "4XX", body = ProblemDocument, description = "unavailable"),
    ))]
pub(crate) async fn confirm(State(app): State<Shared>, caller: Caller) -> Answer {
    caller.everything()?;
    let time = app.orchestrator().confirm_time().await?;
    let by = caller.name();
    tracing::info!(target: "clinch", by, "store clock confirmed; retention uses it");
    let jump_max = app.config.retention.clock_jump_max.0;
    json(StatusCode::OK, &RetentionDocument::of(time, jump_max))
}
