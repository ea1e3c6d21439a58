//! Posts documents to one address: alerts, traces, metrics.

use std::fmt;
use std::time::Duration;

use clinch_core::{Error, ErrorKind, Invalid, Result};
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use crate::client::{Endpoint, HttpClient, Outgoing, Transport};
use crate::egress::Egress;
use crate::target::Target;

/// Timeout for resolving, connecting, TLS and the head of the answer together.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Posts JSON documents to one address, under the same egress rules as routes. Only the status of
/// the answer matters. The address may contain a secret: no error shows it.
#[derive(Clone)]
pub struct Poster {
    client: HttpClient,
    endpoint: Endpoint,
    path: String,
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.endpoint.target.authority();
        f.debug_struct("Poster").field("host", &host).finish()
    }
}

impl Poster {
    /// Refuses an address that may not be called. `field` names the address in the error.
    pub fn new(
        client: &HttpClient,
        url: &str,
        field: &'static str,
        egress: Egress,
        allow_private: bool,
    ) -> Result<Self, Invalid> {
        let (target, rest) = Target::split(url, field)?;
        let reach = egress.reach(&target, allow_private, field)?;
        let path = match rest {
            "" => "/".to_owned(),
            rest if rest.starts_with('?') => format!("/{rest}"),
            rest => rest.split('#').next().unwrap_or_default().to_owned(),
        };
        Ok(Self {
            client: client.clone(),
            endpoint: Endpoint { target, reach },
            path,
        })
    }

    /// Posts one document. A status other than 2xx, or no answer in time, is `Unavailable`.
    pub async fn post(&self, body: Vec<u8>) -> Result<()> {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json");
        headers.insert(CONTENT_TYPE, json);
        let outgoing = Outgoing {
            method: Method::POST,
            path: self.path.clone(),
            headers,
            body: Bytes::from(body),
        };
        let transport = Transport {
            connect_timeout: TIMEOUT,
            idle_max: Duration::ZERO,
        };
        let unavailable = |message: String| Error::new(ErrorKind::Unavailable, message);
        let sent = self
            .client
            .send(&self.endpoint, &outgoing, transport, || None);
        let (response, connection) = tokio::select! {
            sent = sent => sent.map_err(|_| unavailable("there was no answer".to_owned()))?,
            () = self.client.clock().sleep(TIMEOUT) => {
                return Err(unavailable("there was no answer in time".to_owned()));
            }
        };
        let status = response.status();
        connection.finish(false, self.client.clock().monotonic());
        match status.is_success() {
            true => Ok(()),
            false => Err(unavailable(format!(
                "the server answered {}",
                status.as_u16()
            ))),
        }
    }
}
