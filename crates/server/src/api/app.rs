//! The state that every handler shares.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use clinch::Clinch;
use clinch_core::OpId;
use clinch_core::ports::{Clock, Domains, Inspect, Recovery};
use clinch_engine::Orchestrator;
use futures_util::StreamExt;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::events::Hub;
use super::guard::Authenticator;
use super::in_flight::InFlight;
use super::problem::Problem;
use super::system::Readiness;
use crate::config::Config;
use crate::console::Console;
use crate::disk::Disks;
use crate::gauges::Gauges;
use crate::history::History;
use crate::nodes::Nodes;
use crate::routes::Table;

/// Room around a payload in a body: keys, labels and times need far less.
pub(crate) const ENVELOPE_BYTES: usize = 64 * 1024;
/// A body that is too large is read and dropped up to this length, so that the sender can read the
/// answer.
pub(crate) const DROPPED_BYTES_MAX: usize = 32 * 1024 * 1024;

pub(crate) struct App {
    pub(crate) clinch: Clinch,
    pub(crate) inspect: Arc<dyn Inspect>,
    pub(crate) recovery: Arc<dyn Recovery>,
    pub(crate) domains: Arc<dyn Domains>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Arc<Config>,
    pub(crate) routes: Table,
    pub(crate) hub: Hub,
    pub(crate) in_flight: InFlight,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) console: Console,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) readiness: Readiness,
    pub(crate) gauges: Vec<Arc<dyn Gauges>>,
    /// The last hour of this process.
    pub(crate) history: History,
    /// The processes of the store; `None`: the store has no records.
    pub(crate) nodes: Option<Nodes>,
    pub(crate) disks: Disks,
    /// The domains of the applications in this process.
    pub(crate) applications: Vec<&'static str>,
    /// Cancelled when the server stops: long polls and streams end.
    pub(crate) stop: CancellationToken,
}

pub(crate) type Shared = Arc<App>;
pub(crate) type Answer = Result<Response, Problem>;

impl App {
    pub(crate) fn orchestrator(&self) -> &Orchestrator {
        self.clinch.orchestrator()
    }

    pub(crate) fn payload_max(&self) -> usize {
        self.config.server.payload_max.0
    }

    /// The body of a request with at most one command, as JSON text.
    pub(crate) async fn body(&self, headers: &HeaderMap, body: Body) -> Result<String, Problem> {
        let max = self.payload_max().saturating_add(ENVELOPE_BYTES);
        self.read(headers, body, max).await
    }

    /// The body of a request whose headers the handler does not need.
    pub(crate) async fn text(&self, request: Request) -> Result<String, Problem> {
        let (parts, body) = request.into_parts();
        self.body(&parts.headers, body).await
    }

    /// The body of a request with many commands, as JSON text.
    pub(crate) async fn bulk_body(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<String, Problem> {
        self.read(headers, body, self.config.server.bulk_max.0)
            .await
    }

    /// The body of a request that may have none: `{}` then.
    pub(crate) async fn optional_body(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<String, Problem> {
        let is_empty = headers.get(header::CONTENT_TYPE).is_none()
            && axum::body::HttpBody::is_end_stream(&body);
        if is_empty {
            return Ok("{}".to_owned());
        }
        let text = self.body(headers, body).await?;
        let is_nothing = matches!(text.trim(), "" | "null");
        Ok(if is_nothing { "{}".to_owned() } else { text })
    }

    async fn read(&self, headers: &HeaderMap, body: Body, max: usize) -> Result<String, Problem> {
        if !is_json(headers) {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            let detail = "the body must be application/json";
            return Err(Problem::new(status, "unsupported_media_type", detail));
        }
        let late = || {
            let status = StatusCode::REQUEST_TIMEOUT;
            Problem::new(status, "request_timeout", "the body did not arrive in time")
        };
        let limit = self.config.server.body_timeout.0;
        let read = tokio::time::timeout(limit, collect(body, max)).await;
        let bytes = read.map_err(|_| late())??;
        String::from_utf8(bytes).map_err(|_| Problem::request("the body is not UTF-8"))
    }

    /// Waits for `wait`, or until the server stops.
    pub(crate) async fn unless_stopped<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = wait => Some(done),
            () = self.stop.cancelled() => None,
        }
    }
}

async fn collect(body: Body, max: usize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let mut dropped = 0;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::request("the body ended early"))?;
        if dropped == 0 && bytes.len() + chunk.len() <= max {
            bytes.extend_from_slice(&chunk);
        } else {
            dropped += chunk.len();
        }
        if dropped > DROPPED_BYTES_MAX {
            break;
        }
    }
    if dropped > 0 {
        return Err(Problem::too_large(format!(
            "the body is longer than {max} bytes"
        )));
    }
    Ok(bytes)
}

/// Reads the body of a refused caller and drops it, up to `bytes_max` bytes and for at most `wait`:
/// a connection that is closed with unread bytes may lose the answer.
pub(crate) async fn drop_body(body: Body, bytes_max: usize, wait: Duration) {
    let dropped = async {
        let mut left = bytes_max;
        let mut chunks = body.into_data_stream();
        while let Some(Ok(chunk)) = chunks.next().await {
            match left.checked_sub(chunk.len()) {
                Some(less) => left = less,
                None => break,
            }
        }
    };
    let _ = tokio::time::timeout(wait, dropped).await;
}

/// `application/json`, with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = content_type
        .and_then(|value| value.split(';').next())
        .unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    let body = serde_json::to_string(document).map_err(|_| Problem::internal())?;
    let mut response = (status, body).into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

/// An operation id from the path of a report. Text that is not an id is answered as an unknown id:
/// 404. Other routes take the beginning of an id too: see [`App::op_id`].
pub(crate) fn op_id(text: &str) -> Result<OpId, Problem> {
    text.parse()
        .map_err(|_| Problem::not_found("there is no such operation"))
}

/// Coverage seconds, at least one.
pub(crate) fn secs(duration: Duration) -> u64 {
    let up = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(up).max(1)
}
