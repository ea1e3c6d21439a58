//! Reads requests: bodies, parameters and names.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRef, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::collector::Collector;
use crate::model::{RunId, login};

/// Longest body: far more than a login and a reason need.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// A longer body is read and discarded up to this size, so that its sender can read the answer.
const DROPPED_BYTES_MAX: usize = 1024 * 1024;

/// State that the handlers share.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) collector: Collector,
    /// A body that has not arrived within this time is refused.
    pub(crate) body_timeout: Duration,
}

impl FromRef<Api> for Collector {
    fn from_ref(api: &Api) -> Self {
        api.collector.clone()
    }
}

pub(crate) type Answer = Result<Response, Problem>;

/// A JSON answer.
pub(crate) fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    let internal = |_| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Problem::new(status, "internal", "the answer cannot be written")
    };
    let body = serde_json::to_string(document).map_err(internal)?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Reads the body of a request; `shape` describes it for the error message. A missing optional body
/// counts as `{}`.
pub(crate) async fn body<T: DeserializeOwned>(
    api: &Api,
    request: Request,
    shape: &'static str,
    is_optional: bool,
) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let is_empty = parts.headers.get(header::CONTENT_TYPE).is_none()
        && axum::body::HttpBody::is_end_stream(&body);
    let text = match is_optional && is_empty {
        true => "{}".to_owned(),
        false => text(api, &parts.headers, body).await?,
    };
    let text = match text.trim() {
        "" | "null" if is_optional => "{}",
        text => text,
    };
    // Serde would read a list as the fields in their order.
    if !text.starts_with('{') {
        return Err(Problem::request(format!("the body must be {shape}")));
    }
    // Serde's own message could quote the body.
    let wrong = |_| Problem::request(format!("the body must be {shape}, and nothing else"));
    serde_json::from_str(text).map_err(wrong)
}

async fn text(api: &Api, headers: &HeaderMap, body: Body) -> Result<String, Problem> {
    if !is_json(headers) {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let detail = "the body must be application/json";
        return Err(Problem::new(status, "unsupported_media_type", detail));
    }
    let read = tokio::select! {
        biased;
        read = axum::body::to_bytes(body, DROPPED_BYTES_MAX) => read,
        () = api.collector.inner.clock.sleep(api.body_timeout) => {
            let status = StatusCode::REQUEST_TIMEOUT;
            let detail = "the body did not arrive in time";
            return Err(Problem::new(status, "request_timeout", detail));
        }
    };
    let long = || {
        let detail = format!("the body is longer than {BODY_BYTES_MAX} bytes, or ended early");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", detail)
    };
    let bytes = read.map_err(|_| long())?;
    if bytes.len() > BODY_BYTES_MAX {
        return Err(long());
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| Problem::request("the body is not UTF-8"))
}

/// `application/json`, with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE);
    let given = given.and_then(|value| value.to_str().ok());
    let essence = given.and_then(|value| value.split(';').next());
    essence.is_some_and(|one| one.trim().eq_ignore_ascii_case("application/json"))
}

/// A run id from a path. An invalid id names no run, so it is not found.
pub(crate) fn run_id(text: &str) -> Result<RunId, Problem> {
    text.parse()
        .map_err(|_| Problem::not_found("there is no such run"))
}

/// Query parameters that have not been read yet.
pub(crate) struct Pairs(Vec<(String, String)>);

impl Pairs {
    /// Refuses a name that appears twice. An empty value counts as missing.
    pub(crate) fn new(mut pairs: Vec<(String, String)>) -> Result<Self, Problem> {
        let mut names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Problem::request("a parameter is given twice"));
        }
        pairs.retain(|(_, value)| !value.is_empty());
        Ok(Self(pairs))
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Parses a value; the parser's error says which values are valid.
    pub(crate) fn parsed<T, E: ToString>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.take(name) else {
            return Ok(None);
        };
        let wrong = |error: E| Problem::field(name, error.to_string());
        parse(&text).map(Some).map_err(wrong)
    }

    pub(crate) fn login(&mut self) -> Result<Option<String>, Problem> {
        self.parsed("login", login)
    }

    pub(crate) fn required_login(&mut self) -> Result<String, Problem> {
        let missing = || Problem::field("login", "is missing; say whose");
        self.login()?.ok_or_else(missing)
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        Ok(self.choice(name)?.unwrap_or(false))
    }

    /// The same; `None`: it is left out.
    pub(crate) fn choice(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        let read = |text: &str| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("must be true or false"),
        };
        self.parsed(name, read)
    }

    /// Items per page: 50 by default, at most `max`.
    pub(crate) fn limit(&mut self, max: usize) -> Result<usize, Problem> {
        let read = |text: &str| match text.parse::<usize>() {
            Ok(limit) if limit > 0 => Ok(limit.min(max)),
            _ => Err(format!("must be a whole number from 1 to {max}")),
        };
        Ok(self.parsed("limit", read)?.unwrap_or(50))
    }

    /// Refuses unknown parameters: a filter that is silently ignored would show too much.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Problem::request("a parameter is unknown")),
        }
    }
}
