//! Errors as problem documents (RFC 9457) with a stable `code`.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use clinch::types::{Effect, ErrorKind, Failure, OpId, Status};
use serde_json::{Map, Value, json};

/// `Retry-After` of a refusal that names no better moment.
const COME_BACK: Duration = Duration::from_secs(1);

/// Codes of failures that Clinch itself decides on: the provider refused nothing.
const OWN_CODES: [&str; 6] = [
    "attempt_lost",
    "deadline",
    "effect_unknown",
    "integrity",
    "poison",
    "retry_exhausted",
];

/// A problem document: `type`, `title`, `status`, `code`, `detail`, and where they are known
/// `op_id`, `state`, `effect` and `field`. It shows no payload.
///
/// Converting a [`clinch::Error`] gives the status that fits:
///
/// | error | answer |
/// | --- | --- |
/// | the keys or the input are not valid | 400 `invalid_request`, with the field |
/// | there is no such operation | 404 `not_found` |
/// | another input under the same keys | 422 `idempotency_mismatch`, with the operation |
/// | shed: too much due work waits | 429 `shed`, `Retry-After` |
/// | the store is away or full, or the engine has stopped | 503 `unavailable`, `Retry-After` |
/// | it is unknown whether the request was accepted | 503 `ambiguous`, `Retry-After`: the same request again tells |
/// | the route is not declared; anything else | 500 `unknown_route`, `internal` |
///
/// The response of a converted error carries the [`clinch::Error`] as an extension, for a
/// middleware that logs it.
///
/// ```
/// use axum::http::StatusCode;
/// use axum::response::IntoResponse;
/// use clinch_axum::Problem;
///
/// let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", "send an API key");
/// assert_eq!(problem.into_response().status(), 401);
/// ```
#[derive(Debug, Clone)]
pub struct Problem(Box<Document>);

#[derive(Debug, Clone)]
struct Document {
    status: StatusCode,
    code: String,
    detail: String,
    members: Map<String, Value>,
    retry_after: Option<Duration>,
    error: Option<clinch::Error>,
}

impl Problem {
    /// A problem. `code` is for programs and never changes; `detail` says what happened and what to
    /// do.
    pub fn new(status: StatusCode, code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self(Box::new(Document {
            status,
            code: code.into(),
            detail: detail.into(),
            members: Map::new(),
            retry_after: None,
            error: None,
        }))
    }

    /// Sets when the same request may succeed.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.0.retry_after = Some(delay);
        self
    }

    /// Adds a member to the document. Never a payload or a secret.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        let value = Value::String(value.into());
        self.0.members.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn bad_request(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// There is no operation of this kind for this caller.
    pub(crate) fn not_found() -> Self {
        let detail = "there is no such operation";
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// The operation is FAILED. `cause`, which may quote the provider, is left out.
    pub(crate) fn failed(op_id: OpId, failure: &Failure, status: StatusCode) -> Self {
        let effect = match failure.effect {
            Effect::None => "none",
            Effect::Unknown => "unknown",
        };
        Self::new(status, &failure.code, &failure.message)
            .with("op_id", op_id.to_string())
            .with("state", Status::Failed.as_str())
            .with("effect", effect)
    }

    /// The operation ended, and its result cannot be shown.
    pub(crate) fn gone(op_id: OpId, state: Status, code: &str, detail: &str) -> Self {
        Self::new(StatusCode::GONE, code, detail)
            .with("op_id", op_id.to_string())
            .with("state", state.as_str())
    }
}

/// The status of a FAILED operation, unless its endpoint chooses another: 422 if the provider
/// refused, 409 if somebody canceled, 502 if the provider never gave an answer or the effect is
/// unknown.
pub(crate) fn status_of(failure: &Failure) -> StatusCode {
    let is_own = OWN_CODES.contains(&failure.code.as_str());
    match failure.effect {
        Effect::Unknown => StatusCode::BAD_GATEWAY,
        Effect::None if is_own => StatusCode::BAD_GATEWAY,
        Effect::None if failure.code == "canceled" => StatusCode::CONFLICT,
        Effect::None => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

impl From<clinch::Error> for Problem {
    fn from(error: clinch::Error) -> Self {
        let message = error.message();
        let come_back = |problem: Self| problem.retry_after(COME_BACK);
        let mut problem = match error.kind() {
            ErrorKind::Invalid if error.context("code") == Some("unknown_route") => {
                let detail = "this service does not declare the route of this endpoint";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unknown_route", detail)
            }
            ErrorKind::Invalid => {
                let problem = Self::bad_request("invalid_request", message);
                match error.context("field") {
                    Some(field) => problem.with("field", field),
                    None => problem,
                }
            }
            ErrorKind::Mismatch => {
                let detail = "the same Idempotency-Key was used with another request; use a fresh \
                              key for a new request";
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                Self::new(status, "idempotency_mismatch", detail)
            }
            ErrorKind::NotFound => Self::not_found(),
            ErrorKind::Shed => {
                let after = error.context("retry_after_ms").map(str::parse);
                let after = after.and_then(Result::ok).map(Duration::from_millis);
                Self::new(StatusCode::TOO_MANY_REQUESTS, "shed", message)
                    .retry_after(after.unwrap_or(COME_BACK))
            }
            ErrorKind::Unavailable | ErrorKind::Full | ErrorKind::Conflict => {
                let detail = "the request cannot be accepted now; nothing was done, send it again";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                come_back(Self::new(status, "unavailable", detail))
            }
            ErrorKind::Ambiguous => {
                let detail = "it is unknown whether the request was accepted; send the same \
                              request with the same Idempotency-Key to learn it";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                come_back(Self::new(status, "ambiguous", detail))
            }
            ErrorKind::Unsupported | ErrorKind::Corrupt | ErrorKind::Internal => {
                let detail = "the service made a mistake; its log has the details";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
            }
        };
        if let Some(op_id) = error.context("op_id") {
            problem = problem.with("op_id", op_id);
        }
        problem.0.error = Some(error);
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Document {
            status,
            code,
            detail,
            members,
            retry_after,
            error,
        } = *self.0;
        let mut document = json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or("Error"),
            "status": status.as_u16(),
            "code": code,
            "detail": detail,
        });
        if let Some(document) = document.as_object_mut() {
            document.extend(members);
        }
        let mut response = (status, document.to_string()).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if let Some(delay) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds(delay));
        }
        if let Some(error) = error {
            response.extensions_mut().insert(Arc::new(error));
        }
        response
    }
}

/// Whole seconds, rounded up, at least one: zero would make a caller spin.
pub(crate) fn seconds(delay: Duration) -> HeaderValue {
    let secs = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    HeaderValue::from(secs.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(kind: ErrorKind) -> (u16, String) {
        let secret = "password=hunter2";
        let error =
            clinch::Error::new(kind, "what happened").caused_by(std::io::Error::other(secret));
        let problem = Problem::from(error);
        assert!(!problem.0.detail.contains("hunter2"));
        (problem.0.status.as_u16(), problem.0.code)
    }

    #[test]
    fn every_kind_of_error_has_its_status_and_code() {
        let cases = [
            (ErrorKind::Invalid, 400, "invalid_request"),
            (ErrorKind::NotFound, 404, "not_found"),
            (ErrorKind::Mismatch, 422, "idempotency_mismatch"),
            (ErrorKind::Shed, 429, "shed"),
            (ErrorKind::Unavailable, 503, "unavailable"),
            (ErrorKind::Full, 503, "unavailable"),
            (ErrorKind::Conflict, 503, "unavailable"),
            (ErrorKind::Ambiguous, 503, "ambiguous"),
            (ErrorKind::Unsupported, 500, "internal"),
            (ErrorKind::Corrupt, 500, "internal"),
            (ErrorKind::Internal, 500, "internal"),
        ];
        for (kind, expected, code) in cases {
            assert_eq!(status(kind), (expected, code.to_owned()), "{kind:?}");
        }
    }

    #[test]
    fn a_delay_is_rounded_up_and_never_zero() {
        assert_eq!(seconds(Duration::ZERO), "1");
        assert_eq!(seconds(Duration::from_millis(1_001)), "2");
    }

    /// The codes are written here because the facade does not export them.
    #[test]
    fn the_codes_of_the_engine_are_known() {
        use clinch_core::code;
        let own = [
            code::ATTEMPT_LOST,
            code::DEADLINE,
            code::EFFECT_UNKNOWN,
            code::INTEGRITY,
            code::POISON,
            code::RETRY_EXHAUSTED,
        ];
        assert_eq!(own, OWN_CODES);
        let failed = |code, effect| status_of(&Failure::own(code, "", effect)).as_u16();
        assert_eq!(failed(code::CANCELED, Effect::None), 409);
        assert_eq!(failed(code::CANCELED, Effect::Unknown), 502);
        assert_eq!(failed("card_declined", Effect::None), 422);
        assert_eq!(failed(code::DEADLINE, Effect::None), 502);
    }
}
