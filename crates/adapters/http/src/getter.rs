//! Documents of the one provider that an application has: GET, and nothing else.

use std::fmt;
use std::time::Duration;

use clinch_core::Invalid;
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::body;
use crate::client::{Carriage, HttpClient, Outgoing, Place, Trouble, Unsent};
use crate::egress::Reach;
use crate::target::Target;

/// For name, connection and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Servers keep a connection for longer.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// Gets documents of one origin over a client's connections. An address of any other origin
/// is refused before a connection is looked for, so that no header value can get there;
/// redirects are not followed. Neither addresses nor header values are in its errors.
#[derive(Debug, Clone)]
pub struct Getter {
    client: HttpClient,
    place: Place,
    timeout: Duration,
    bytes_max: usize,
}

/// An answer of any status, whole.
#[derive(Clone, PartialEq, Eq)]
pub struct Got {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case; values that are no text are left out.
    pub headers: Vec<(String, String)>,
    /// The body as it was sent.
    pub body: Vec<u8>,
}

impl fmt::Debug for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Got");
        shown.field("status", &self.status).finish_non_exhaustive()
    }
}

/// Why there is no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// Not a byte left this machine.
    NotSent(String),
    /// This machine has no descriptor, port or socket buffer left: nobody was dialled.
    Exhausted(String),
    /// It may have arrived.
    Lost(String),
}

impl Getter {
    /// For the origin of `url`. An answer that takes longer than `timeout` is lost, and so is
    /// one of more than `bytes_max` bytes.
    ///
    /// - An address that `url` names is called, private or not; a name leads to public
    ///   addresses only, unless `allow_private`.
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
            place: Place { target, reach },
            timeout,
            bytes_max,
        })
    }

    /// Asks once.
    pub async fn get(
        &self,
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Got, Unanswered> {
        let outgoing = self.prepare(url, headers).map_err(Unanswered::NotSent)?;
        tokio::select! {
            biased;
            got = self.exchange(&outgoing) => got,
            () = self.client.clock().sleep(self.timeout) => {
                Err(Unanswered::Lost("no answer in time".to_owned()))
            }
        }
    }

    fn prepare(&self, url: &str, headers: &[(&'static str, &str)]) -> Result<Outgoing, String> {
        let (target, rest) = Target::split(url, "url").map_err(|invalid| invalid.to_string())?;
        if target != self.place.target {
            return Err("the address is of another origin, which is not called".to_owned());
        }
        let path = match rest {
            "" => "/".to_owned(),
            rest if rest.starts_with('?') => format!("/{rest}"),
            rest => rest.to_owned(),
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| format!("the header {name} holds what no header can carry"))?;
            value.set_sensitive(*name == "authorization");
            map.insert(HeaderName::from_static(name), value);
        }
        Ok(Outgoing {
            method: Method::GET,
            path,
            headers: map,
            body: Bytes::new(),
        })
    }

    async fn exchange(&self, outgoing: &Outgoing) -> Result<Got, Unanswered> {
        let carriage = Carriage {
            connect_timeout: CONNECT_TIMEOUT.min(self.timeout),
            idle_max: IDLE_MAX,
        };
        let sent = self
            .client
            .send(&self.place, outgoing, carriage, || None)
            .await;
        let (mut response, connection) = sent.map_err(unanswered)?;
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
                body: body.bytes,
            }),
            Err(_) => Err(lost("the connection ended in the answer")),
        }
    }
}

fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = value.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    };
    headers.iter().filter_map(text).collect()
}

fn unanswered(trouble: Trouble) -> Unanswered {
    let unsent = match trouble {
        Trouble::Lost(why) => return Unanswered::Lost(why.to_owned()),
        Trouble::Unsent(unsent) => unsent,
    };
    Unanswered::NotSent(match unsent {
        Unsent::Exhausted(what) => return Unanswered::Exhausted(what.to_owned()),
        Unsent::Dns => "the host's name is not known now".to_owned(),
        Unsent::Egress(kind) => format!("the host has a {kind} address, which is not called"),
        Unsent::Connect(why) => format!("no connection: {why}"),
        Unsent::Tls(why) => format!("no encryption: {why}"),
        Unsent::Timeout => "no connection in time".to_owned(),
        Unsent::Gate(why) => why.to_owned(),
        Unsent::Malformed => "it cannot be written as HTTP".to_owned(),
    })
}
