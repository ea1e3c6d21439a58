//! Liveness, readiness, metrics and the description of the API.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use clinch_core::WorkerId;
use clinch_core::ports::LockManager;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use super::app::{Answer, App, Shared, json};
use super::problem::{Problem, ProblemDocument};
use super::time;

/// A store that takes longer does not answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// What was found is good for so long: whoever asks often causes no more writes than that.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// The lock, and its owner.
const LOCK: &str = "ready";

/// Whether the store takes writes: a lock that nobody else wants is written.
pub(crate) struct Readiness {
    locks: Option<Arc<dyn LockManager>>,
    /// One look at a time; the others wait for what it finds.
    found: Mutex<Option<(Duration, bool)>>,
}

impl Readiness {
    /// Without locks only reading is tried.
    pub(crate) fn new(locks: Option<Arc<dyn LockManager>>) -> Self {
        Self {
            locks,
            found: Mutex::new(None),
        }
    }

    async fn is_writable(&self) -> bool {
        let Some(locks) = &self.locks else {
            return true;
        };
        // The same owner in every process: it is always ours, so it is always written.
        let Ok(owner) = WorkerId::new(LOCK) else {
            return false;
        };
        let taken = locks.take(LOCK, &owner, GOOD_FOR);
        matches!(tokio::time::timeout(STORE_TIMEOUT, taken).await, Ok(Ok(_)))
    }
}

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

/// It works; what an operator should look at all the same.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadyDocument {
    status: &'static str,
    warnings: Vec<WarningDocument>,
}

/// Something to look at.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WarningDocument {
    /// clock_ahead or undeclared_routes.
    code: &'static str,
    message: String,
}

/// What this process found. Anyone may ask, so no domain is named.
fn warnings(app: &App) -> Vec<WarningDocument> {
    let (time, undeclared) = app.orchestrator().concerns();
    let jumped = time.filter(|time| time.is_held_back());
    let jumped = jumped.map(|jumped| WarningDocument {
        code: "clock_ahead",
        message: format!(
            "the store's clock shows {} and {} was the last time seen: nothing is pruned; if the \
             clock is right, run `clinch retention confirm`",
            time::write(jumped.now),
            time::write(jumped.seen_at)
        ),
    });
    let open: u64 = undeclared.values().sum();
    let undeclared = (open > 0).then(|| WarningDocument {
        code: "undeclared_routes",
        message: format!(
            "{open} open operations have no route in this configuration; the metric \
             orchestrator.undeclared names their domains"
        ),
    });
    jumped.into_iter().chain(undeclared).collect()
}

#[utoipa::path(get, path = "/readyz", tag = "system",
    responses(
        (status = 200, body = ReadyDocument, description = "The store answers and takes writes"),
        (status = "4XX", body = ProblemDocument, description = "unavailable"),
    ))]
pub(crate) async fn readyz(State(app): State<Shared>) -> Answer {
    if app.stop.is_cancelled() {
        return Err(Problem::unavailable("the server is stopping"));
    }
    let now = app.clock.monotonic();
    let mut found = app.readiness.found.lock().await;
    let fresh = found.filter(|(at, _)| now.saturating_sub(*at) < GOOD_FOR);
    let is_ready = match fresh {
        Some((_, is_ready)) => is_ready,
        None => {
            let read = tokio::time::timeout(STORE_TIMEOUT, app.inspect.now()).await;
            matches!(read, Ok(Ok(_))) && app.readiness.is_writable().await
        }
    };
    *found = fresh.or(Some((now, is_ready)));
    match is_ready {
        true => {
            let warnings = warnings(&app);
            let status = "ok";
            json(StatusCode::OK, &ReadyDocument { status, warnings })
        }
        false => Err(Problem::unavailable(
            "the store does not answer, or takes no writes",
        )),
    }
}

#[utoipa::path(get, path = "/metrics", tag = "system",
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "Prometheus text"),
    ))]
pub(crate) async fn metrics(State(app): State<Shared>) -> Response {
    // Gauges that cannot be read anew keep their last value; counters are told all the same.
    let measure = async {
        app.clinch.measure().await?;
        for gauges in &app.gauges {
            gauges.measure().await?;
        }
        Ok::<(), clinch::Error>(())
    };
    let measured = tokio::time::timeout(STORE_TIMEOUT, measure).await;
    if !matches!(measured, Ok(Ok(()))) {
        tracing::warn!(target: "clinch", "the gauges could not be read anew");
    }
    let mut response = app.metrics.render().into_response();
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}
