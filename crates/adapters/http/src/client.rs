//! The HTTP client: connections that all routes share.
//!
//! hyper's connections are used directly, without a ready-made client, for two reasons. First, the
//! lease is checked after connecting, right before the request is handed to the connection. Second,
//! a request that a connection returns was provably never written. Only such a request, or one that
//! failed earlier, counts as not sent.

mod connect;
mod network;
mod pool;
mod tls;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::Clock;
use clinch_core::{Error, ErrorKind, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};

pub(crate) use connect::Unsent;
pub use network::{Network, SystemNetwork};
pub(crate) use pool::{Connection, Endpoint};
use pool::{Pool, Version};
use tokio_rustls::rustls::ClientConfig;

use crate::trace::Spans;

/// A request that a connection did not take is tried on another one. The last try uses a fresh
/// connection.
const TRIES_MAX: u32 = 3;

/// Connections, their pool, and trusted certificates. Cheap to clone; clones share everything.
///
/// - HTTP/1.1, and HTTP/2 where a server offers it in its TLS handshake.
/// - No proxy, no cookies, no compression, no redirects: only the configured address is called.
/// - Certificates are checked against those of the system, or Mozilla's if the system has none.
/// - Needs a tokio runtime when it is used.
#[derive(Clone)]
pub struct HttpClient {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    network: Arc<dyn Network>,
    tls: Arc<ClientConfig>,
    pool: Arc<Pool>,
    spans: Spans,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// Builds a [`HttpClient`].
pub struct HttpClientBuilder {
    clock: Arc<dyn Clock>,
    network: Arc<dyn Network>,
    trusted: Vec<Vec<u8>>,
}

impl HttpClientBuilder {
    /// Replaces the operating system's resolver and sockets.
    #[must_use]
    pub fn network(mut self, network: Arc<dyn Network>) -> Self {
        self.network = network;
        self
    }

    /// Also trusts this certificate authority (DER form). For providers with their own authority.
    #[must_use]
    pub fn trust(mut self, certificate: impl Into<Vec<u8>>) -> Self {
        self.trusted.push(certificate.into());
        self
    }

    /// The client. An error if a trusted certificate cannot be read.
    pub fn build(self) -> Result<HttpClient> {
        let tls = tls::config(self.trusted).map_err(|problem| {
            Error::new(ErrorKind::Invalid, "TLS cannot be set up").with("problem", problem)
        })?;
        Ok(HttpClient {
            inner: Arc::new(Inner {
                clock: self.clock,
                network: self.network,
                tls: Arc::new(tls),
                pool: Arc::default(),
                spans: Spans::default(),
            }),
        })
    }
}

/// A request without its target.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// How a call may use connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transport {
    /// Timeout for resolving, connecting and TLS together.
    pub connect_timeout: Duration,
    /// A connection that has been idle for longer is not used.
    pub idle_max: Duration,
}

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub(crate) enum SendError {
    /// No byte of the request left.
    Unsent(Unsent),
    /// Bytes of the request may have left.
    Lost(&'static str),
}

impl HttpClient {
    /// A builder for a client on this clock.
    pub fn builder(clock: Arc<dyn Clock>) -> HttpClientBuilder {
        HttpClientBuilder {
            clock,
            network: Arc::new(SystemNetwork),
            trusted: Vec::new(),
        }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    pub(crate) fn spans(&self) -> &Spans {
        &self.inner.spans
    }

    /// Sends the request and waits for the head of the answer. `gate` is asked right before the
    /// request is handed to a connection; if it refuses, its result is the reason.
    pub(crate) async fn send(
        &self,
        endpoint: &Endpoint,
        outgoing: &Outgoing,
        transport: Transport,
        gate: impl Fn() -> Option<&'static str> + Send,
    ) -> Result<(Response<Incoming>, Connection), SendError> {
        for tried in 1..=TRIES_MAX {
            let idle_max = match tried {
                TRIES_MAX => Duration::ZERO,
                _ => transport.idle_max,
            };
            let now = self.inner.clock.monotonic();
            let pooled = self.inner.pool.take(endpoint, idle_max, now);
            let mut connection = match pooled {
                Some(connection) => connection,
                None => {
                    let opened = self.open(endpoint, transport.connect_timeout).await;
                    opened.map_err(SendError::Unsent)?
                }
            };
            let request = outgoing
                .request(endpoint, connection.version())
                .ok_or(SendError::Unsent(Unsent::Malformed))?;
            if let Some(reason) = gate() {
                connection.finish(true, now);
                return Err(SendError::Unsent(Unsent::Gate(reason)));
            }
            match connection.send(request).await {
                Ok(response) => return Ok((response, connection)),
                // The connection returned the request: it was never written.
                Err(error) if error.message().is_some() => {}
                Err(error) => return Err(SendError::Lost(reason(&error.into_error()))),
            }
        }
        Err(SendError::Unsent(Unsent::Connect("connection closed")))
    }
}

impl Outgoing {
    fn request(&self, endpoint: &Endpoint, version: Version) -> Option<Request<Full<Bytes>>> {
        let target = &endpoint.target;
        let authority = target.authority();
        let uri = match version {
            Version::Http1 => self.path.clone(),
            Version::Http2 => format!("{}://{authority}{}", target.scheme(), self.path),
        };
        let body = Full::new(self.body.clone());
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(uri)
            .body(body)
            .ok()?;
        *request.headers_mut() = self.headers.clone();
        if version == Version::Http1 {
            let host = HeaderValue::from_str(&authority).ok()?;
            request.headers_mut().insert(HOST, host);
        }
        Some(request)
    }
}

/// A fixed text: an error of hyper could quote the answer.
fn reason(error: &hyper::Error) -> &'static str {
    if error.is_incomplete_message() {
        "connection closed before the answer"
    } else if error.is_parse() {
        "not an HTTP answer"
    } else {
        "connection lost"
    }
}
