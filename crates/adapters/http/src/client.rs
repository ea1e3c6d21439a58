//! The connections, shared by all routes.
//!
//! hyper's connections are driven directly, without a ready-made client, for two reasons. The
//! lease is checked after connecting, right before the request is handed to the connection.
//! And a request that comes back from a connection was provably never written: only that, and
//! what fails before, counts as not sent.

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
pub(crate) use pool::{Connection, Place};
use pool::{Pool, Version};
use tokio_rustls::rustls::ClientConfig;

use crate::trace::Spans;

/// A request that no connection took is tried on another; the last try is on a fresh one.
const TRIES_MAX: u32 = 3;

/// Connections, their pool, and trust in certificates. Cheap to clone; clones share all of it.
///
/// - HTTP/1.1, and HTTP/2 where a server offers it in its TLS handshake.
/// - No proxy, no cookies, no compression, no redirects: what is configured is what is called.
/// - Certificates are checked against those of the system, or Mozilla's where there are none.
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

/// Collects what a [`HttpClient`] is made of.
pub struct HttpClientBuilder {
    clock: Arc<dyn Clock>,
    network: Arc<dyn Network>,
    trusted: Vec<Vec<u8>>,
}

impl HttpClientBuilder {
    /// Resolves and dials by other means than the operating system's.
    #[must_use]
    pub fn network(mut self, network: Arc<dyn Network>) -> Self {
        self.network = network;
        self
    }

    /// Trusts this authority too: a certificate in DER form. For providers with their own.
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

/// A request without whom it goes to.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// How a call may be carried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carriage {
    /// For name, connection and TLS together.
    pub connect_timeout: Duration,
    /// A connection that has been idle for longer is not used.
    pub idle_max: Duration,
}

/// Why there is no answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Trouble {
    /// Not a byte of the request left.
    Unsent(Unsent),
    /// It may have.
    Lost(&'static str),
}

impl HttpClient {
    /// A client on this clock.
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

    /// Sends it and waits for the head of the answer. `gate` is asked right before the request
    /// is handed to a connection; what it returns is why not.
    pub(crate) async fn send(
        &self,
        place: &Place,
        outgoing: &Outgoing,
        carriage: Carriage,
        gate: impl Fn() -> Option<&'static str> + Send,
    ) -> Result<(Response<Incoming>, Connection), Trouble> {
        for tried in 1..=TRIES_MAX {
            let idle_max = match tried {
                TRIES_MAX => Duration::ZERO,
                _ => carriage.idle_max,
            };
            let now = self.inner.clock.monotonic();
            let pooled = self.inner.pool.take(place, idle_max, now);
            let mut connection = match pooled {
                Some(connection) => connection,
                None => {
                    let opened = self.open(place, carriage.connect_timeout).await;
                    opened.map_err(Trouble::Unsent)?
                }
            };
            let request = outgoing
                .request(place, connection.version())
                .ok_or(Trouble::Unsent(Unsent::Malformed))?;
            if let Some(reason) = gate() {
                connection.finish(true, now);
                return Err(Trouble::Unsent(Unsent::Gate(reason)));
            }
            match connection.send(request).await {
                Ok(response) => return Ok((response, connection)),
                // Handed back: it was never written.
                Err(error) if error.message().is_some() => {}
                Err(error) => return Err(Trouble::Lost(reason(&error.into_error()))),
            }
        }
        Err(Trouble::Unsent(Unsent::Connect("connection closed")))
    }
}

impl Outgoing {
    fn request(&self, place: &Place, version: Version) -> Option<Request<Full<Bytes>>> {
        let target = &place.target;
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

/// In words of our own: an error of hyper's could quote the answer.
fn reason(error: &hyper::Error) -> &'static str {
    if error.is_incomplete_message() {
        "connection closed before the answer"
    } else if error.is_parse() {
        "not an HTTP answer"
    } else {
        "connection lost"
    }
}
