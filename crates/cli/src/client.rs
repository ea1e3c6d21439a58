//! The only module that speaks HTTP.
//!
//! It uses hyper and rustls, like the HTTP executor, so that the binary has one HTTP stack. One
//! connection is reused while it lasts. Proxy settings of the environment are ignored and no
//! redirect is followed: an API key is only sent to the named server.

mod base;
mod connect;
mod key;
mod page;
mod problem;
mod sse;
mod store_told;

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, USER_AGENT};
use hyper::service::Service as _;
use hyper::{Method, Response, StatusCode};
use hyper_util::service::TowerToHyperService;
use serde_json::value::RawValue;
use tokio::time::timeout;

pub(crate) use base::{Base, query, segment};
pub(crate) use connect::Trust;
pub(crate) use key::ApiKey;
pub(crate) use page::Page;
pub(crate) use problem::Problem;
pub(crate) use sse::{Event, Events};
pub(crate) use store_told::StoreTold;

use crate::duration::whole_seconds;
use crate::error::{CliError, note};

/// How long a server may take beyond the requested wait. Well above any answer of a healthy server,
/// short enough for a person to wait.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Largest answer: a page of a hundred operations, each with the largest result.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A request to the server.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    method: Method,
    path: String,
    body: Option<Vec<u8>>,
    prefer: Option<String>,
    timeout_after: Duration,
}

impl Request {
    /// Requests a document. Names from outside must go through [`segment`] and [`query`].
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: None,
            prefer: None,
            timeout_after: TIMEOUT,
        }
    }

    /// Sends a JSON document.
    pub(crate) fn post(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self {
            method: Method::POST,
            body: Some(body),
            ..Self::get(path)
        }
    }

    /// Stores a JSON document.
    pub(crate) fn put(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self {
            method: Method::PUT,
            ..Self::post(path, body)
        }
    }

    /// Removes something.
    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self {
            method: Method::DELETE,
            ..Self::get(path)
        }
    }

    /// Lets the server wait this long for the operation to settle.
    pub(crate) fn wait(self, wait: Duration) -> Self {
        Self {
            prefer: Some(format!("wait={}", whole_seconds(wait))),
            timeout_after: TIMEOUT.saturating_add(wait),
            ..self
        }
    }

    /// Requests an answer without waiting.
    pub(crate) fn at_once(self) -> Self {
        Self {
            prefer: Some("respond-async".to_owned()),
            ..self
        }
    }
}

/// A successful answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    /// 200, 202, …
    pub(crate) status: StatusCode,
    /// True: an operation with the same keys was accepted before.
    pub(crate) is_replay: bool,
    /// The server's store, if the answer names it.
    pub(crate) store: Option<StoreTold>,
    /// The document.
    pub(crate) document: Box<RawValue>,
}

/// A connection to one server.
#[derive(Debug)]
pub(crate) struct Client {
    base: Base,
    key: Option<ApiKey>,
    trust: Trust,
    connection: Option<SendRequest<Full<Bytes>>>,
    /// Routes of this process, used instead of a server.
    inside: Option<axum::Router>,
}

impl Client {
    /// Creates a client; it connects with its first request.
    pub(crate) fn new(base: Base, key: Option<ApiKey>) -> Self {
        if key.is_some() && base.is_in_the_clear() {
            note(&format!(
                "warning: the API key travels unencrypted to {base}; use https"
            ));
        }
        Self {
            base,
            key,
            trust: Trust::default(),
            connection: None,
            inside: None,
        }
    }

    /// A client for routes of this process; nothing is sent over a network.
    pub(crate) fn inside(base: Base, router: axum::Router) -> Self {
        Self {
            inside: Some(router),
            ..Self::new(base, None)
        }
    }

    /// Uses these certificates over https.
    pub(crate) fn trusting(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// Sends a request; the answer must be a document.
    pub(crate) async fn send(&mut self, request: Request) -> Result<Answer, CliError> {
        let (status, headers, body) = self.whole(request).await?;
        let document = serde_json::from_slice(if body.is_empty() { b"null" } else { &body });
        Ok(Answer {
            status,
            is_replay: headers
                .get("idempotency-replayed")
                .is_some_and(|value| value.as_bytes() == b"true"),
            store: StoreTold::read(&headers),
            document: document.map_err(|_| self.not_clinch("the answer is not JSON"))?,
        })
    }

    /// Sends a request; the answer may be any text.
    pub(crate) async fn text(&mut self, request: Request) -> Result<String, CliError> {
        let (_, _, body) = self.whole(request).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// The complete answer; an error unless its status is a success.
    async fn whole(
        &mut self,
        request: Request,
    ) -> Result<(StatusCode, HeaderMap, Bytes), CliError> {
        let (timeout_after, method) = (request.timeout_after, request.method.clone());
        let whole = timeout(timeout_after, self.exchange(request)).await;
        let (status, headers, body) = whole.unwrap_or_else(|_| {
            // The rest of this answer may still arrive; it must not be read as the next answer.
            self.connection = None;
            Err(self.lost(&method, "no answer in time"))
        })?;
        if !status.is_success() {
            let problem = Problem::read(status, &headers, &body, self.key.as_ref());
            return Err(CliError::Problem(problem));
        }
        Ok((status, headers, body))
    }

    /// Follows a stream of events.
    pub(crate) async fn events(&mut self, path: &str) -> Result<Events, CliError> {
        let mut request = self.build(&Request::get(path))?;
        let accept = hyper::header::HeaderValue::from_static("text/event-stream");
        request.headers_mut().insert(ACCEPT, accept);
        let response = match timeout(TIMEOUT, self.start(request)).await {
            Ok(response) => response?,
            Err(_) => return Err(self.lost(&Method::GET, "no answer in time")),
        };
        // The stream owns the connection from here on.
        let connection = self.connection.take();
        let status = response.status();
        let headers = response.headers().clone();
        if status != StatusCode::OK {
            let body = timeout(TIMEOUT, self.body(response, &Method::GET)).await;
            let body = body.unwrap_or_else(|_| Ok(Bytes::new()))?;
            let problem = Problem::read(status, &headers, &body, self.key.as_ref());
            return Err(CliError::Problem(problem));
        }
        let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
        if !kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
            return Err(self.not_clinch("the answer is not a stream of events"));
        }
        Ok(Events::new(response.into_body(), connection, &self.base))
    }

    async fn exchange(
        &mut self,
        request: Request,
    ) -> Result<(StatusCode, HeaderMap, Bytes), CliError> {
        let built = self.build(&request)?;
        if let Some(router) = &self.inside {
            return inside(router, built).await;
        }
        let response = self.start(built).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = self.body(response, &request.method).await;
        if body.is_err() {
            self.connection = None;
        }
        Ok((status, headers, body?))
    }

    /// Sends a request on the existing connection. If the request was certainly not sent there, it
    /// goes out on a new connection; a request that may have been sent is never sent twice.
    async fn start(
        &mut self,
        request: hyper::Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, CliError> {
        let mut request = request;
        let method = request.method().clone();
        if let Some(mut old) = self.connection.take().filter(|old| !old.is_closed())
            && old.ready().await.is_ok()
        {
            match old.try_send_request(request).await {
                Ok(response) => {
                    self.connection = Some(old);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(self.lost(&method, &connect::cause(error.error()))),
                },
            }
        }
        let mut fresh = connect::open(&self.base, &self.trust).await?;
        let sent = fresh.send_request(request).await;
        let response = sent.map_err(|error| self.lost(&method, &connect::cause(&error)))?;
        self.connection = Some(fresh);
        Ok(response)
    }

    async fn body(&self, response: Response<Incoming>, method: &Method) -> Result<Bytes, CliError> {
        let whole = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        match whole.collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) => Err(self.lost(method, &connect::cause(&*error))),
        }
    }

    fn build(&self, request: &Request) -> Result<hyper::Request<Full<Bytes>>, CliError> {
        let mut built = hyper::Request::builder()
            .method(&request.method)
            .uri(self.base.target(&request.path))
            .header(HOST, self.base.authority())
            .header(ACCEPT, "application/json, application/problem+json")
            .header(USER_AGENT, concat!("clinch/", env!("CARGO_PKG_VERSION")));
        if request.body.is_some() {
            built = built.header(CONTENT_TYPE, "application/json");
        }
        if let Some(prefer) = &request.prefer {
            built = built.header("prefer", prefer);
        }
        if let Some(key) = &self.key {
            built = built.header(AUTHORIZATION, key.header());
        }
        let body = request.body.clone().unwrap_or_default();
        let wrong =
            |_| CliError::usage("the request cannot be sent: a name or address is not valid");
        built.body(Full::new(Bytes::from(body))).map_err(wrong)
    }

    /// The error for a lost answer. Repeating a GET is harmless; any other request may have been
    /// executed.
    fn lost(&self, method: &Method, why: &str) -> CliError {
        CliError::Lost {
            origin: self.base.to_string(),
            why: why.to_owned(),
            advice: match *method {
                Method::GET => "try again",
                _ => "it may have been executed; check before you repeat it",
            },
        }
    }

    /// The error for an answer that is not from a Clinch server.
    pub(crate) fn not_clinch(&self, why: &str) -> CliError {
        CliError::NotClinch {
            origin: self.base.to_string(),
            why: why.to_owned(),
        }
    }
}

async fn inside(
    router: &axum::Router,
    request: hyper::Request<Full<Bytes>>,
) -> Result<(StatusCode, HeaderMap, Bytes), CliError> {
    let service = TowerToHyperService::new(router.clone());
    let Ok(response) = service.call(request).await;
    let (parts, body) = response.into_parts();
    let body = body.collect().await;
    let body = body.map_err(|_| CliError::failed("an answer of this process is incomplete"))?;
    Ok((parts.status, parts.headers, body.to_bytes()))
}
