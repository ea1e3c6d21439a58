//! Calls of the API's own handlers: a form does exactly what the same call of the API does.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use serde_json::Value;

use crate::api::{Answer, Problem};

/// The longest answer that a page reads: a page of the API.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A request with a JSON body.
pub(super) fn with(body: &Value) -> Request {
    let mut request = Request::new(Body::from(body.to_string()));
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json);
    request
}

/// The document of a successful answer.
pub(super) async fn document(answer: Answer) -> Result<Value, Problem> {
    let body = answer?.into_body();
    let bytes = axum::body::to_bytes(body, ANSWER_BYTES_MAX).await;
    let bytes = bytes.map_err(|_| Problem::internal())?;
    serde_json::from_slice(&bytes).map_err(|_| Problem::internal())
}
