//! Which addresses a route may call.
//!
//! The configuration fixes a route's host, but a name resolves to whatever its resolver says at the
//! moment. So names are never trusted: the address is checked when it is dialled, and exactly that
//! address is dialled, without asking the resolver again.

mod address;

use std::net::IpAddr;

use clinch_core::Invalid;

pub use address::{AddressKind, kind_of};

use crate::target::{Host, Target};

/// The server's rules about outgoing calls.
///
/// ```
/// use clinch_http::Egress;
///
/// // A server that listens on loopback only may call providers there, in development.
/// let egress = Egress::default().loopback_allowed(true);
/// # let _ = egress;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Egress {
    loopback_allowed: bool,
}

impl Egress {
    /// Whether a route whose host is literally loopback (`127.0.0.0/8`, `[::1]`, `localhost`) may
    /// be called without `allow_private`. Allow this only for a server that itself listens on
    /// loopback alone: then no other machine can make it call there.
    #[must_use]
    pub fn loopback_allowed(mut self, allowed: bool) -> Self {
        self.loopback_allowed = allowed;
        self
    }

    /// The reach of a route. An error if its host is already outside.
    pub(crate) fn reach(
        self,
        target: &Target,
        allow_private: bool,
        field: &'static str,
    ) -> Result<Reach, Invalid> {
        let reach = match target.host.is_loopback() {
            _ if allow_private => Reach::Private,
            true if self.loopback_allowed => Reach::Loopback,
            _ => Reach::Public,
        };
        let refused = match &target.host {
            Host::Ip(ip) => reach.permits(*ip).err(),
            Host::Name(_) if reach == Reach::Public && target.host.is_loopback() => {
                Some("loopback")
            }
            Host::Name(_) => None,
        };
        match refused {
            None => Ok(reach),
            Some(kind) => {
                let host = &target.host;
                let hint = match reach {
                    Reach::Private => "no route may call it",
                    _ => "set allow_private = true if that is meant",
                };
                let problem = format!("names {host}, a {kind} address; {hint}");
                Err(Invalid::new(field, problem))
            }
        }
    }
}

/// How far the calls of a route may go.
///
/// ```
/// use clinch_http::Reach;
///
/// let metadata = "169.254.169.254".parse().expect("an address");
/// assert_eq!(Reach::Public.permits(metadata), Err("link-local"));
/// assert_eq!(Reach::Private.permits(metadata), Ok(()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Addresses of the public internet only.
    Public,
    /// Loopback only.
    Loopback,
    /// Public, loopback and private addresses. Never link-local addresses, where clouds hand out
    /// credentials, and never addresses that lead through a translator or tunnel.
    Site,
    /// All addresses except those that no call can mean: unspecified, multicast, broadcast,
    /// reserved.
    Private,
}

/// Kinds of private addresses that the servers of an organisation have.
const OF_A_SITE: [&str; 3] = ["private", "unique-local", "carrier-grade NAT"];

impl Reach {
    /// The reach of an application whose operator names its one provider. An address that is
    /// written in the configuration may be called; a name leads only to public addresses unless
    /// `allow_private`. Link-local addresses are refused either way.
    pub(crate) fn of_origin(
        target: &Target,
        allow_private: bool,
        field: &'static str,
    ) -> Result<Self, Invalid> {
        let ip = match &target.host {
            Host::Ip(ip) => *ip,
            Host::Name(_) if target.host.is_loopback() => return Ok(Self::Loopback),
            Host::Name(_) if allow_private => return Ok(Self::Site),
            Host::Name(_) => return Ok(Self::Public),
        };
        match Self::Site.permits(ip) {
            Ok(()) => Ok(Self::Site),
            Err(kind) => {
                let problem = format!("names {ip}, a {kind} address, which is never called");
                Err(Invalid::new(field, problem))
            }
        }
    }

    /// Whether this address may be dialled. The error names the kind of address.
    pub fn permits(self, ip: IpAddr) -> Result<(), &'static str> {
        let (kind, name) = kind_of(ip);
        let permitted = match self {
            Self::Public => kind == AddressKind::Public,
            Self::Loopback => kind == AddressKind::Loopback,
            Self::Site => match kind {
                AddressKind::Public | AddressKind::Loopback => true,
                AddressKind::Private => OF_A_SITE.contains(&name),
                AddressKind::Never => false,
            },
            Self::Private => kind != AddressKind::Never,
        };
        permitted.then_some(()).ok_or(name)
    }
}
