//! A request and a response as they are stored.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clinch::{Fail, Refusal, Retry};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::{Deserialize, Serialize};

use super::Execution;
use crate::{IdempotencyKey, Problem};

/// A request as it is stored: the input of its operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRequest {
    method: String,
    /// Path and query.
    uri: String,
    headers: Headers,
    body: Bytes,
}

/// A response as it is stored: the result of its operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredResponse {
    status: u16,
    headers: Headers,
    /// `None`: it was too long to keep.
    body: Option<Bytes>,
}

/// Names and values in order; a value may be any bytes.
type Headers = Vec<(String, Bytes)>;

/// Bytes as JSON: text as it is, everything else in base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bytes {
    Text(String),
    Base64(String),
}

impl Bytes {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes)
            .ok()
            .filter(|text| is_short(text))
        {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Base64(BASE64.encode(bytes)),
        }
    }

    /// `None`: no build of this crate wrote it.
    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Base64(text) => BASE64.decode(text).ok(),
        }
    }
}

/// Whether the text is no longer in JSON than in base64, so that the largest body still fits a
/// payload. Short text is kept readable for whoever looks at an operation.
fn is_short(text: &str) -> bool {
    /// Text of this size fits in any form.
    const ALWAYS: usize = 4 * 1024;
    let is_two_bytes = |letter: &u8| matches!(letter, b'"' | b'\\' | b'\n' | b'\r' | b'\t');
    let escaped = text.bytes().filter(is_two_bytes).count();
    // Other control characters take six bytes.
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().all(is_plain) && (text.len() <= ALWAYS || escaped <= text.len() / 3)
}

/// The headers with these names, in the order of the names: another order of the sender is the same
/// request.
fn chosen(headers: &HeaderMap, names: &[HeaderName]) -> Headers {
    let of_name = |name: &HeaderName| {
        let values = headers.get_all(name).iter();
        let name = name.as_str().to_owned();
        values
            .map(|value| (name.clone(), Bytes::of(value.as_bytes())))
            .collect::<Headers>()
    };
    names.iter().flat_map(of_name).collect()
}

fn restore(kept: &Headers, headers: &mut HeaderMap) {
    for (name, value) in kept {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = value.bytes().map(HeaderValue::try_from);
        if let (Ok(name), Some(Ok(value))) = (name, value) {
            headers.append(name, value);
        }
    }
}

impl StoredRequest {
    /// Reads the body to its end.
    pub(super) async fn read(
        parts: &Parts,
        body: Body,
        names: &[HeaderName],
        bytes_max: usize,
    ) -> Result<Self, Problem> {
        let collected = Limited::new(body, bytes_max).collect().await;
        let body = collected.map_err(|error| match error.is::<LengthLimitError>() {
            true => {
                let detail = format!("the request body is larger than {bytes_max} bytes");
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", detail)
            }
            false => Problem::bad_request("body_incomplete", "the request body broke off"),
        })?;
        let uri = parts.uri.path_and_query();
        Ok(Self {
            method: parts.method.as_str().to_owned(),
            uri: uri.map_or("/", |uri| uri.as_str()).to_owned(),
            headers: chosen(&parts.headers, names),
            body: Bytes::of(&body.to_bytes()),
        })
    }

    /// The request for the service. It was one before, so an error means that its stored form is of
    /// another version.
    pub(super) fn rebuilt(&self, execution: Execution) -> Result<Request<Body>, Refusal> {
        let unreadable = || {
            Refusal::from(Fail::new(
                "request_unreadable",
                "the stored request cannot be read",
            ))
        };
        let body = self.body.bytes().ok_or_else(unreadable)?;
        let length = HeaderValue::from(body.len());
        let mut request = Request::new(Body::from(body));
        *request.method_mut() =
            Method::from_bytes(self.method.as_bytes()).map_err(|_| unreadable())?;
        *request.uri_mut() = self.uri.parse::<Uri>().map_err(|_| unreadable())?;
        let headers = request.headers_mut();
        restore(&self.headers, headers);
        headers.insert(header::CONTENT_LENGTH, length);
        if let Ok(key) = HeaderValue::from_str(&execution.key) {
            headers.insert(IdempotencyKey::HEADER, key);
        }
        request.extensions_mut().insert(execution);
        Ok(request)
    }
}

/// What is kept of responses.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(super) headers: Vec<HeaderName>,
    pub(super) bytes_max: usize,
}

impl Kept {
    /// What the service's response means for its operation.
    pub(super) async fn outcome(&self, response: Response) -> Result<StoredResponse, Refusal> {
        let (parts, body) = response.into_parts();
        let status = parts.status;
        let after = parts.headers.get(header::RETRY_AFTER);
        let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
        let wait = |retry: Retry| match after {
            Some(secs) => Refusal::from(retry.after(Duration::from_secs(secs))),
            None => Refusal::from(retry),
        };
        let reason = format!("http_{}", status.as_u16());
        match status {
            StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                return Err(wait(Retry::not_applied(reason)));
            }
            StatusCode::REQUEST_TIMEOUT => return Err(wait(Retry::unknown(reason))),
            _ if status.is_server_error() => return Err(wait(Retry::unknown(reason))),
            _ => {}
        }
        let body = match Limited::new(body, self.bytes_max).collect().await {
            Ok(body) => Some(Bytes::of(&body.to_bytes())),
            Err(error) if is_too_long(error.as_ref()) => None,
            Err(_) => return Err(Retry::unknown("the response broke off").into()),
        };
        Ok(StoredResponse {
            status: status.as_u16(),
            headers: chosen(&parts.headers, &self.headers),
            body,
        })
    }
}

fn is_too_long(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.is::<LengthLimitError>()
        || error
            .source()
            .is_some_and(|source| source.is::<LengthLimitError>())
}

impl StoredResponse {
    /// The response for the caller, the same every time.
    pub(super) fn rebuilt(&self) -> Response {
        let broken = |code: &str, detail: String| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail).into_response()
        };
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let Some(body) = &self.body else {
            let detail = format!(
                "the request was carried out with status {status}; its response was too long to keep"
            );
            return broken("response_too_large", detail);
        };
        let Some(body) = body.bytes() else {
            let detail =
                "the request was carried out; its response is of another version of this service";
            return broken("result_unreadable", detail.to_owned());
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        restore(&self.headers, response.headers_mut());
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_kind_come_back_and_stay_small() {
        let all: Vec<u8> = (0..=255).collect();
        let cases: [&[u8]; 5] = [b"", b"{\"a\": 1}\r\n", "가".as_bytes(), &all, &[0; 999]];
        for case in cases {
            let kept = Bytes::of(case);
            assert_eq!(kept.bytes().as_deref(), Some(case));
            let json = serde_json::to_string(&kept).expect("JSON");
            let back: Bytes = serde_json::from_str(&json).expect("the same");
            assert_eq!(back, kept);
            assert!(
                json.len() <= 2 * case.len() + 32,
                "{} for {}",
                json.len(),
                case.len()
            );
        }
    }

    #[test]
    fn headers_are_in_the_order_of_their_names_and_others_are_left_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-b", "2"),
            ("cookie", "secret"),
            ("x-a", "1"),
            ("x-b", "3"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let names = ["x-a", "x-b"].map(HeaderName::from_static);
        let kept = chosen(&headers, &names);
        let mut back = HeaderMap::new();
        restore(&kept, &mut back);
        assert_eq!(back["x-a"], "1");
        assert_eq!(back.get_all("x-b").iter().collect::<Vec<_>>(), ["2", "3"]);
        assert_eq!(back.len(), 3);
    }
}
