//! The time by which old data is deleted.

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

/// The time by which retention is counted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetentionDocument {
    /// What the store's clock shows.
    now: String,
    /// The latest time that the processes vouch for; null before the first prune.
    seen_at: Option<String>,
    /// The clock jumped ahead: nothing is deleted by it until it is confirmed, or until real time
    /// catches up.
    held_back: bool,
    /// By how much the clock is ahead.
    ahead_ms: u64,
}

impl RetentionDocument {
    fn of(time: SeenTime, jump_max: Duration) -> Self {
        Self {
            now: time::write(time.now),
            seen_at: Some(time::write(time.seen_at)),
            // Between two looks the seen time is a little behind.
            held_back: time.ahead() > jump_max,
            ahead_ms: u64::try_from(time.ahead().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

#[utoipa::path(get, path = "/v1/retention", tag = "system",
    responses(
        (status = 200, body = RetentionDocument, description = "The time by which old data is deleted"),
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

#[utoipa::path(post, path = "/v1/retention/confirm", tag = "system",
    responses(
        (status = 200, body = RetentionDocument, description = "Old data is deleted by the clock as it is now"),
        (status = "4XX", body = ProblemDocument, description = "unavailable"),
    ))]
pub(crate) async fn confirm(State(app): State<Shared>, caller: Caller) -> Answer {
    caller.everything()?;
    let time = app.orchestrator().confirm_time().await?;
    let by = caller.name();
    tracing::info!(target: "clinch", by, "the store's clock was confirmed: retention goes by it");
    let jump_max = app.config.retention.clock_jump_max.0;
    json(StatusCode::OK, &RetentionDocument::of(time, jump_max))
}
