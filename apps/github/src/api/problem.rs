//! Errors as RFC 9457 problem documents with a stable `code`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use clinch::Error;
use clinch::types::ErrorKind;
use serde::Serialize;
use utoipa::ToSchema;

/// `Retry-After` of a refused request, in seconds.
const COME_BACK_SECS: u64 = 1;

/// An RFC 9457 problem document.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ProblemDocument {
    /// Always `about:blank`: `code` tells problems apart.
    r#type: &'static str,
    /// The status in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// Stable identifier, for programs.
    code: &'static str,
    /// What happened and what to do, for people.
    detail: String,
    /// The name of the invalid field.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The operation that the problem is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    op_id: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    field: Option<&'static str>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            field: None,
        }
    }

    /// 400 `invalid_request`.
    pub(crate) fn request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", detail)
    }

    /// 400 `invalid_request` about one field.
    pub(crate) fn field(name: &'static str, detail: impl AsRef<str>) -> Self {
        let detail = format!("{name}: {}", detail.as_ref());
        Self {
            field: Some(name),
            ..Self::request(detail)
        }
    }

    /// 404 `not_found`.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// 409: the run conflicts with another run, or has ended.
    pub(crate) fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 503 `unavailable`: the same request may succeed later.
    pub(crate) fn unavailable(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }
}

impl From<Error> for Problem {
    /// The cause of an internal error is only written to the log.
    fn from(error: Error) -> Self {
        let message = error.message();
        match error.kind() {
            ErrorKind::Invalid | ErrorKind::Unsupported => Self::request(message),
            ErrorKind::NotFound => Self::not_found(message),
            ErrorKind::Shed => Self::new(StatusCode::TOO_MANY_REQUESTS, "shed", message),
            ErrorKind::Ambiguous => Self::unavailable(
                "it is not known whether this happened; send the same request again to find out",
            ),
            ErrorKind::Corrupt | ErrorKind::Internal | ErrorKind::Mismatch => {
                tracing::error!(target: "clinch::github", kind = ?error.kind(), "a request failed: {message}");
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                let detail = "internal error; see the server's log";
                Self::new(status, "internal", detail)
            }
            ErrorKind::Unavailable | ErrorKind::Full | ErrorKind::Conflict => {
                Self::unavailable("the store is unavailable; try again")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = ProblemDocument {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            code: self.code,
            detail: self.detail,
            field: self.field.map(str::to_owned),
            op_id: None,
        };
        let body = serde_json::to_string(&document).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if matches!(self.status.as_u16(), 429 | 503) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(COME_BACK_SECS));
        }
        response
    }
}
