//! Opens a connection: resolve, check the address, dial, encrypt, agree on an HTTP version.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::pool::{Connection, Endpoint, Sender};
use super::{HttpClient, tls};
use crate::target::Host;

/// Maximum addresses of one name that are tried: more than a provider has healthy at once.
const ADDRESSES_MAX: usize = 8;
/// How long to wait for one address before the next is tried in parallel (RFC 8305).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Why no byte of a request left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// The name does not resolve now.
    Dns,
    /// All its addresses are of kinds that the route may not call.
    Egress(&'static str),
    Connect(&'static str),
    Tls(&'static str),
    Timeout,
    /// This machine has no file descriptor, port or buffer left: the provider was not even dialled.
    Exhausted(&'static str),
    /// The caller's gate refused.
    Gate(&'static str),
    /// The request cannot be written as HTTP.
    Malformed,
}

impl HttpClient {
    /// A fresh connection, within the timeout.
    pub(super) async fn open(
        &self,
        endpoint: &Endpoint,
        limit: Duration,
    ) -> Result<Connection, Unsent> {
        tokio::select! {
            biased;
            opened = self.open_unlimited(endpoint) => opened,
            () = self.inner.clock.sleep(limit) => Err(Unsent::Timeout),
        }
    }

    async fn open_unlimited(&self, endpoint: &Endpoint) -> Result<Connection, Unsent> {
        let tcp = self.dial(endpoint).await?;
        // Requests are written as a whole; Nagle's algorithm would only cost latency.
        let _ = tcp.set_nodelay(true);
        let sender = if endpoint.target.is_tls {
            let name = server_name(&endpoint.target.host)?;
            let connector = TlsConnector::from(self.inner.tls.clone());
            let encrypted = connector.connect(name, tcp).await;
            let stream = encrypted.map_err(|error| Unsent::Tls(tls::reason(&error)))?;
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            handshake(stream, is_http2).await?
        } else {
            handshake(tcp, false).await?
        };
        Ok(Connection::new(sender, endpoint, &self.inner.pool))
    }

    /// Resolves the name and dials an address. Each address is checked here, and the name is not
    /// resolved again between the check and the dial.
    async fn dial(&self, endpoint: &Endpoint) -> Result<TcpStream, Unsent> {
        let target = &endpoint.target;
        let addresses = match &target.host {
            Host::Ip(ip) => vec![*ip],
            Host::Name(name) => {
                let found = self.inner.network.resolve(name, target.port).await;
                found.map_err(|error| match exhausted(&error) {
                    Some(what) => Unsent::Exhausted(what),
                    None => Unsent::Dns,
                })?
            }
        };
        let mut refused = None;
        let mut allowed: Vec<IpAddr> = Vec::new();
        for ip in addresses {
            match endpoint.reach.permits(ip) {
                Ok(()) if !allowed.contains(&ip) => allowed.push(ip),
                Ok(()) => {}
                Err(kind) => refused = Some(kind),
            }
        }
        allowed.truncate(ADDRESSES_MAX);
        match (allowed.is_empty(), refused) {
            (true, Some(kind)) => Err(Unsent::Egress(kind)),
            (true, None) => Err(Unsent::Dns),
            (false, _) => self.first(&allowed, target.port).await,
        }
    }

    /// The first address that accepts. A slow address does not delay the next.
    async fn first(&self, addresses: &[IpAddr], port: u16) -> Result<TcpStream, Unsent> {
        let mut waiting = addresses.iter();
        let mut dials = FuturesUnordered::new();
        let mut failed = Unsent::Connect("no address");
        loop {
            if let Some(ip) = waiting.next() {
                let address = SocketAddr::new(*ip, port);
                dials.push(self.inner.network.connect(address));
            } else if dials.is_empty() {
                return Err(failed);
            }
            let is_last = waiting.len() == 0;
            let pause = self.inner.clock.sleep(NEXT_ADDRESS_AFTER);
            tokio::select! {
                biased;
                Some(dialled) = dials.next() => match dialled {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failed = failed.or(&error),
                },
                () = pause, if !is_last => {}
            }
        }
    }
}

impl Unsent {
    /// Adds an address that could not be dialled. An address that was reached and failed says more
    /// than one for which this machine lacked resources: for example, `::1` on a host without IPv6
    /// fails with "no free port".
    fn or(self, error: &io::Error) -> Self {
        let is_reached = matches!(self, Self::Connect(why) if why != "no address");
        match exhausted(error) {
            Some(_) if is_reached => self,
            Some(what) => Self::Exhausted(what),
            None => Self::Connect(reason(error)),
        }
    }
}

/// The resource that this machine has run out of, if that is the reason.
pub(super) fn exhausted(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::MFILE | Errno::NFILE => Some("no file descriptor is free"),
        Errno::ADDRNOTAVAIL => Some("no port is free"),
        Errno::NOBUFS => Some("no socket buffer is free"),
        _ => None,
    }
}

fn server_name(host: &Host) -> Result<ServerName<'static>, Unsent> {
    match host {
        Host::Ip(ip) => Ok(ServerName::from(*ip)),
        Host::Name(name) => ServerName::try_from(name.to_string())
            .map_err(|_| Unsent::Tls("the host's name cannot be in a certificate")),
    }
}

/// Agrees on an HTTP version. Afterwards the connection runs in its own task until it is dropped.
async fn handshake<S>(stream: S, is_http2: bool) -> Result<Sender, Unsent>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    if is_http2 {
        let agreed = http2::handshake(TokioExecutor::new(), io).await;
        let (sender, connection) = agreed.map_err(|_| Unsent::Connect("no HTTP/2 handshake"))?;
        tokio::spawn(connection);
        return Ok(Sender::Http2(sender, Arc::default()));
    }
    let agreed = http1::handshake(io).await;
    let (sender, connection) = agreed.map_err(|_| Unsent::Connect("no HTTP handshake"))?;
    tokio::spawn(connection);
    Ok(Sender::Http1(sender))
}

fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::HostUnreachable => "host unreachable",
        io::ErrorKind::NetworkUnreachable => "network unreachable",
        io::ErrorKind::TimedOut => "timed out",
        io::ErrorKind::ConnectionReset => "connection reset",
        _ => "cannot connect",
    }
}
