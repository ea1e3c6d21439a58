//! Requests and what comes back.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use clinch::types::OpId;
use serde_json::Value;
use tower::ServiceExt as _;

/// A response, read to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// The code of a problem document, after a look at everything else that such a document must
    /// have.
    pub(crate) fn problem(&self) -> String {
        let document = self.json();
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(document["status"], self.status.as_u16(), "{document}");
        let detail = document["detail"].as_str().expect("a detail");
        assert!(!detail.is_empty());
        document["code"].as_str().expect("a code").to_owned()
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.headers.contains_key("idempotency-replayed")
    }

    /// The operation and the status URL of a 202.
    pub(crate) fn accepted(&self) -> (OpId, String) {
        assert_eq!(self.status, StatusCode::ACCEPTED, "{}", self.text());
        assert!(self.headers.contains_key("retry-after"));
        let document = self.json();
        let op_id = document["op_id"].as_str().expect("an id");
        let url = self.headers["location"].to_str().expect("a path");
        assert_eq!(document["status_url"], url);
        (op_id.parse().expect("an id"), url.to_owned())
    }
}

pub(crate) async fn send(app: &Router, request: Request<Body>) -> Seen {
    let response = app.clone().oneshot(request).await.expect("infallible");
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 4 * 1024 * 1024).await.expect("a body");
    Seen {
        status: parts.status,
        headers: parts.headers,
        body: body.to_vec(),
    }
}

pub(crate) fn request(method: Method, path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    with_body(method, path, headers, Body::empty())
}

pub(crate) fn with_body(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).expect("a request")
}

pub(crate) async fn get(app: &Router, path: &str) -> Seen {
    send(app, request(Method::GET, path, &[])).await
}

/// Says that the key is that of the user in `x-user`.
pub(crate) fn user(parts: &axum::http::request::Parts) -> Result<String, clinch_axum::Problem> {
    let user = parts
        .headers
        .get("x-user")
        .and_then(|user| user.to_str().ok());
    let missing =
        || clinch_axum::Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", "sign in first");
    user.map(str::to_owned).ok_or_else(missing)
}
