//! Documents of an application's one provider.

use std::fmt;
use std::time::Duration;

use clinch_core::Invalid;
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue};

use crate::body;
use crate::client::{Endpoint, HttpClient, Outgoing, SendError, Transport, Unsent};
use crate::egress::Reach;
use crate::gzip::{self, Unread};
use crate::target::Target;

/// Timeout for resolving, connecting and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter than servers keep an idle connection.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// Gets documents of one origin over a client's connections. A URL of another origin is refused
/// before a connection is opened, so that no header value can get there. Redirects are not
/// followed. Answers may come compressed (gzip) and are decompressed. Errors contain neither URLs nor header values.
#[derive(Debug, Clone)]
pub struct Getter {
    client: HttpClient,
    endpoint: Endpoint,
    timeout: Duration,
    bytes_max: usize,
}

/// A complete answer with any status.
#[derive(Clone, PartialEq, Eq)]
pub struct Got {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case; values that are not text and the content encoding are left out.
    pub headers: Vec<(String, String)>,
    /// The body, decompressed.
    pub body: Vec<u8>,
}

impl fmt::Debug for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Got");
        shown.field("status", &self.status).finish_non_exhaustive()
    }
}

/// Why there is no complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// No byte left this machine.
    NotSent(String),
    /// This machine has no file descriptor, port or socket buffer left: the host was not dialled.
    Exhausted(String),
    /// The request may have arrived.
    Lost(String),
}

impl Getter {
    /// A getter for the origin of `url`. An answer that takes longer than `timeout`, or has more
    /// than `bytes_max` bytes when it is decompressed, is lost.
    ///
    /// - An address that `url` names is called, private or not; a name leads to public addresses
    ///   only, unless `allow_private`.
    /// - Link-local addresses are never called.
    pub fn new(
        client: &HttpClient,
        url: &str,
        allow_private: bool,
        timeout: Duration,
        bytes_max: usize,
    ) -> Result<Self, Invalid> {
        let (target, _) = Target::split(url, "url")?;
        let reach = Reach::of_origin(&target, allow_private, "url")?;
        Ok(Self {
            client: client.clone(),
            endpoint: Endpoint { target, reach },
            timeout,
            bytes_max,
        })
    }

    /// Sends one GET.
    pub async fn get(
        &self,
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Got, Unanswered> {
        self.send(Method::GET, url, headers).await
    }

    /// Sends one POST without a body. A request whose answer is lost may have had its effect.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Got, Unanswered> {
        self.send(Method::POST, url, headers).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Got, Unanswered> {
        let outgoing = self.prepare(method, url, headers);
        let outgoing = outgoing.map_err(Unanswered::NotSent)?;
        tokio::select! {
            biased;
            got = self.exchange(&outgoing) => got,
            () = self.client.clock().sleep(self.timeout) => {
                Err(Unanswered::Lost("no answer in time".to_owned()))
            }
        }
    }

    fn prepare(
        &self,
        method: Method,
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Outgoing, String> {
        let (target, rest) = Target::split(url, "url").map_err(|invalid| invalid.to_string())?;
        if target != self.endpoint.target {
            return Err("the URL is of another origin, which is not called".to_owned());
        }
        let path = match rest {
            "" => "/".to_owned(),
            rest if rest.starts_with('?') => format!("/{rest}"),
            rest => rest.to_owned(),
        };
        let mut map = HeaderMap::new();
        map.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value).map_err(|_| {
                format!("the value of header {name} holds characters that no header can carry")
            })?;
            value.set_sensitive(*name == "authorization");
            map.insert(HeaderName::from_static(name), value);
        }
        Ok(Outgoing {
            method,
            path,
            headers: map,
            body: Bytes::new(),
        })
    }

    async fn exchange(&self, outgoing: &Outgoing) -> Result<Got, Unanswered> {
        let transport = Transport {
            connect_timeout: CONNECT_TIMEOUT.min(self.timeout),
            idle_max: IDLE_MAX,
        };
        let sent = self
            .client
            .send(&self.endpoint, outgoing, transport, || None)
            .await;
        let (mut response, connection) = sent.map_err(unanswered)?;
        let encoding = response.headers().get(CONTENT_ENCODING).cloned();
        let (status, headers) = (response.status().as_u16(), texts(response.headers()));
        let read = body::read(response.body_mut(), self.bytes_max).await;
        let is_whole = matches!(&read, Ok(body) if !body.truncated);
        connection.finish(is_whole, self.client.clock().monotonic());
        let lost = |why: &str| Unanswered::Lost(why.to_owned());
        match read {
            Ok(body) if body.truncated => Err(lost("the answer is too long")),
            Ok(body) => Ok(Got {
                status,
                headers,
                body: self.decoded(body.bytes, encoding.as_ref())?,
            }),
            Err(_) => Err(lost("the connection ended in the answer")),
        }
    }

    /// The body without its content encoding. A 304 may name an encoding and has no body.
    fn decoded(
        &self,
        body: Vec<u8>,
        encoding: Option<&HeaderValue>,
    ) -> Result<Vec<u8>, Unanswered> {
        let encoding = encoding.map(|value| value.as_bytes().to_ascii_lowercase());
        let why = match encoding.as_deref() {
            None | Some(b"" | b"identity") => return Ok(body),
            Some(_) if body.is_empty() => return Ok(body),
            Some(b"gzip" | b"x-gzip") => match gzip::decompressed(&body, self.bytes_max) {
                Ok(body) => return Ok(body),
                Err(Unread::TooLong) => "the answer is too long",
                Err(Unread::Malformed) => "the answer cannot be decompressed",
            },
            Some(_) => "the answer has an encoding that was not asked for",
        };
        Err(Unanswered::Lost(why.to_owned()))
    }
}

fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        if name == CONTENT_ENCODING {
            return None;
        }
        let value = value.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    };
    headers.iter().filter_map(text).collect()
}

fn unanswered(trouble: SendError) -> Unanswered {
    let unsent = match trouble {
        SendError::Lost(why) => return Unanswered::Lost(why.to_owned()),
        SendError::Unsent(unsent) => unsent,
    };
    Unanswered::NotSent(match unsent {
        Unsent::Exhausted(what) => return Unanswered::Exhausted(what.to_owned()),
        Unsent::Dns => "the host's name cannot be resolved now".to_owned(),
        Unsent::Egress(kind) => format!("the host has a {kind} address, which is not called"),
        Unsent::Connect(why) => format!("no connection: {why}"),
        Unsent::Tls(why) => format!("no TLS connection: {why}"),
        Unsent::Timeout => "no connection in time".to_owned(),
        Unsent::Gate(why) => why.to_owned(),
        Unsent::Malformed => "the request cannot be written as HTTP".to_owned(),
    })
}
