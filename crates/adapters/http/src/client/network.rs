//! The network functions that the client needs.

use std::io;
use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use tokio::net::{TcpSocket, TcpStream};

/// Resolves names and dials addresses.
///
/// The client never trusts what `resolve` returns: each address is checked right before it is
/// dialled, and `connect` gets the checked address, not the name.
#[async_trait]
pub trait Network: Send + Sync {
    /// The current addresses of a name.
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<IpAddr>>;

    /// A connection to exactly this address.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// The operating system's resolver and sockets.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNetwork;

#[async_trait]
impl Network for SystemNetwork {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<IpAddr>> {
        match tokio::net::lookup_host((name, port)).await {
            Ok(found) => Ok(found.map(|address| address.ip()).collect()),
            // Without a free file descriptor, the resolver can read neither its files nor an
            // answer, and reports that the name is unknown. Opening a socket tells the two cases
            // apart.
            Err(error) => Err(TcpSocket::new_v4().err().unwrap_or(error)),
        }
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}
