//! Which addresses a route would call, without calling.

use std::io;
use std::net::IpAddr;

use clinch_core::Invalid;

use crate::client::Network;
use crate::egress::{Egress, Reach};
use crate::target::{Host, Target};

/// The host of a URL, checked as a call would check it now. Nothing is dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    host: Host,
    port: u16,
    reach: Reach,
}

impl Outlook {
    /// For a route's `url`. An error if the URL itself is refused.
    pub fn new(url: &str, allow_private: bool, egress: Egress) -> Result<Self, Invalid> {
        let (target, _) = Target::split(url, "url")?;
        let reach = egress.reach(&target, allow_private, "url")?;
        Ok(Self {
            host: target.host,
            port: target.port,
            reach,
        })
    }

    /// The host as it is written in a URL.
    pub fn host(&self) -> String {
        self.host.to_string()
    }

    /// The current addresses of the host. An address that may not be called comes with its kind.
    pub async fn addresses(
        &self,
        network: &dyn Network,
    ) -> io::Result<Vec<(IpAddr, Result<(), &'static str>)>> {
        let found = match &self.host {
            Host::Ip(ip) => vec![*ip],
            Host::Name(name) => network.resolve(name, self.port).await?,
        };
        let judged = found.into_iter().map(|ip| (ip, self.reach.permits(ip)));
        Ok(judged.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_judged_as_a_call_would() {
        let look = |url, private| Outlook::new(url, private, Egress::default());
        assert_eq!(
            look("https://psp.example/x", false).map(|one| one.host()),
            Ok("psp.example".into())
        );
        assert!(look("http://169.254.169.254/", false).is_err());
        assert!(look("http://169.254.169.254/", true).is_ok());
        assert!(look("http://localhost/", false).is_err());
        assert!(look("ftp://psp.example/", false).is_err());
    }
}
