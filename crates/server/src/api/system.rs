//! Liveness, readiness, metrics and the description of the API.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{Answer, Shared, json};
use super::problem::{Problem, ProblemDocument};

/// A store that takes longer does not answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// It is there.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthDocument {
    status: &'static str,
}

#[utoipa::path(get, path = "/healthz", tag = "system",
    responses((status = 200, body = HealthDocument, description = "The process answers")))]
pub(crate) async fn healthz() -> Answer {
    json(StatusCode::OK, &HealthDocument { status: "ok" })
}

#[utoipa::path(get, path = "/readyz", tag = "system",
    responses(
        (status = 200, body = HealthDocument, description = "The store answers"),
        (status = 503, body = ProblemDocument, content_type = "application/problem+json", description = "unavailable"),
    ))]
pub(crate) async fn readyz(State(app): State<Shared>) -> Answer {
    if app.stop.is_cancelled() {
        return Err(Problem::unavailable("the server is stopping"));
    }
    let answered = tokio::time::timeout(STORE_TIMEOUT, app.inspect.now()).await;
    match answered {
        Ok(Ok(_)) => json(StatusCode::OK, &HealthDocument { status: "ok" }),
        _ => Err(Problem::unavailable("the store does not answer")),
    }
}

#[utoipa::path(get, path = "/metrics", tag = "system",
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "Prometheus text"),
        (status = "4XX", body = ProblemDocument, content_type = "application/problem+json", description = "401, 403"),
    ))]
pub(crate) async fn metrics(State(app): State<Shared>) -> Response {
    // Gauges that cannot be read anew keep their last value; counters are told all the same.
    let measured = tokio::time::timeout(STORE_TIMEOUT, app.clinch.measure()).await;
    if !matches!(measured, Ok(Ok(()))) {
        tracing::warn!(target: "clinch", "the gauges could not be read anew");
    }
    let mut response = app.metrics.render().into_response();
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}
