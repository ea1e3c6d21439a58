//! Errors as RFC 9457 problem documents with a stable `code`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use clinch::Error;
use clinch_core::{ErrorKind, Invalid, OpId};
use serde::Serialize;
use utoipa::ToSchema;

/// `Retry-After` in seconds, where the error has no better hint.
const COME_BACK_SECS: u64 = 1;

/// An RFC 9457 problem document.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ProblemDocument {
    /// Always `about:blank`: `code` distinguishes the problems.
    r#type: &'static str,
    /// The status in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// Which problem it is: stable, for programs.
    code: &'static str,
    /// What happened and what to do; for people.
    detail: String,
    /// The field that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The operation that the problem is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    op_id: Option<String>,
}

/// A problem, with the headers of its response.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) detail: String,
    field: Option<String>,
    op_id: Option<String>,
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            field: None,
            op_id: None,
            retry_after: None,
        }
    }

    /// 400 `invalid_request`.
    pub(crate) fn request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", detail)
    }

    /// 401 `unauthenticated`.
    pub(crate) fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
    }

    /// 403 `forbidden`.
    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 404 `not_found`.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// 409 with one of its codes.
    pub(crate) fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 413 `payload_too_large`.
    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", detail)
    }

    /// 503 `unavailable`.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        problem.retry_after(COME_BACK_SECS)
    }

    /// 500 `internal`.
    pub(crate) fn internal() -> Self {
        let detail = "internal error; the server's log has the details";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub(crate) fn op_id(mut self, op_id: OpId) -> Self {
        self.op_id = Some(op_id.to_string());
        self
    }

    pub(crate) fn retry_after(mut self, secs: u64) -> Self {
        self.retry_after = Some(secs.max(1));
        self
    }

    /// A refused value: `code` is `invalid_command` or `invalid_request`.
    pub(crate) fn invalid(code: &'static str, invalid: &Invalid) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, invalid.to_string()).field(invalid.field)
    }

    pub(crate) fn document(&self) -> ProblemDocument {
        ProblemDocument {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            code: self.code,
            detail: self.detail.clone(),
            field: self.field.clone(),
            op_id: self.op_id.clone(),
        }
    }
}

impl From<Error> for Problem {
    /// The answer to an error of the engine. The engine's messages hold neither payloads nor
    /// secrets; the cause of an internal error is logged and not sent.
    fn from(error: Error) -> Self {
        let message = error.message();
        let problem = match error.kind() {
            ErrorKind::Invalid if error.context("code") == Some("unknown_route") => {
                let detail = format!("{message}; {}", route_advice(&error));
                Self::new(StatusCode::BAD_REQUEST, "unknown_route", detail)
            }
            ErrorKind::Invalid | ErrorKind::Unsupported => Self::request(message),
            ErrorKind::Mismatch => {
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                Self::new(status, "idempotency_mismatch", message)
            }
            ErrorKind::Shed => {
                let after = error.context("retry_after_ms");
                let millis: u64 = after.and_then(|after| after.parse().ok()).unwrap_or(1_000);
                let shed = Self::new(StatusCode::TOO_MANY_REQUESTS, "shed", message);
                shed.retry_after(millis.div_ceil(1_000))
            }
            ErrorKind::NotFound => Self::not_found(message),
            // Retrying does not help: an operator has to restore a file.
            ErrorKind::Unavailable if error.context("code") == Some("store_lost") => {
                Self::unavailable(message)
            }
            ErrorKind::Unavailable | ErrorKind::Full | ErrorKind::Conflict => {
                Self::unavailable("the store cannot take the request now; try again")
            }
            ErrorKind::Ambiguous => Self::unavailable(
                "it is unknown whether the request took effect; send the same request again to learn it",
            ),
            ErrorKind::Corrupt | ErrorKind::Internal => {
                tracing::error!(target: "clinch", kind = ?error.kind(), "a request failed: {message}");
                Self::internal()
            }
        };
        match error.context("op_id").map(str::parse) {
            Some(Ok(op_id)) => problem.op_id(op_id),
            _ => problem,
        }
    }
}

/// What declares the missing route.
fn route_advice(error: &Error) -> String {
    let named = ["domain", "event_type"].map(|key| {
        let value = error.context(key)?;
        Some(format!("{key} = {value:?}"))
    });
    let remote = error.context("remote").map(|_| "remote = true".to_owned());
    let keys: Vec<String> = named.into_iter().flatten().chain(remote).collect();
    format!(
        "add a [[route]] with {} to the server's configuration file (clinch.toml) and restart the server",
        keys.join(", ")
    )
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_string(&self.document()).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if let Some(secs) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(secs));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer realm=\"clinch\"");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
            // A caller without a key loses its connection.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
