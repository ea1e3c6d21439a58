//! Documents from wherever an application asks: GET, and nothing else.

use std::fmt;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::body;
use crate::client::{Carriage, HttpClient, Outgoing, Place, Trouble, Unsent};
use crate::egress::Egress;
use crate::target::Target;

/// For name, connection and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Servers keep a connection for longer.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// Gets documents over a client's connections. Private addresses may be asked too; redirects
/// are not followed. Neither addresses nor header values are in its errors.
#[derive(Debug, Clone)]
pub struct Getter {
    client: HttpClient,
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
    /// An answer that takes longer than `timeout` is lost, and so is one of more than
    /// `bytes_max` bytes.
    pub fn new(client: &HttpClient, timeout: Duration, bytes_max: usize) -> Self {
        Self {
            client: client.clone(),
            timeout,
            bytes_max,
        }
    }

    /// Asks once.
    pub async fn get(
        &self,
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Got, Unanswered> {
        let (place, outgoing) = prepare(url, headers).map_err(Unanswered::NotSent)?;
        tokio::select! {
            biased;
            got = self.exchange(&place, &outgoing) => got,
            () = self.client.clock().sleep(self.timeout) => {
                Err(Unanswered::Lost("no answer in time".to_owned()))
            }
        }
    }

    async fn exchange(&self, place: &Place, outgoing: &Outgoing) -> Result<Got, Unanswered> {
        let carriage = Carriage {
            connect_timeout: CONNECT_TIMEOUT.min(self.timeout),
            idle_max: IDLE_MAX,
        };
        let sent = self.client.send(place, outgoing, carriage, || None).await;
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

fn prepare(url: &str, headers: &[(&'static str, &str)]) -> Result<(Place, Outgoing), String> {
    let (target, rest) = Target::split(url, "url").map_err(|invalid| invalid.to_string())?;
    let reach = Egress::default().reach(&target, true, "url");
    let reach = reach.map_err(|invalid| invalid.to_string())?;
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
    let outgoing = Outgoing {
        method: Method::GET,
        path,
        headers: map,
        body: Bytes::new(),
    };
    Ok((Place { target, reach }, outgoing))
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
