//! A server's address.

use std::fmt;

use hyper::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All characters except those that RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(name, RESERVED).to_string()
}

/// The pairs as a query string with its question mark; empty if there are none.
pub(crate) fn query(pairs: &[(&str, String)]) -> String {
    let pairs = pairs.iter().enumerate();
    let encoded = pairs.map(|(i, (name, value))| {
        let mark = if i == 0 { '?' } else { '&' };
        format!("{mark}{name}={}", segment(value))
    });
    encoded.collect()
}

/// Scheme, host and port, and a path prefix if the server is behind a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base {
    is_tls: bool,
    host: String,
    port: u16,
    authority: String,
    prefix: String,
}

impl Base {
    /// Parses an address. The error never repeats it: addresses may contain passwords.
    pub(crate) fn parse(url: &str) -> Result<Self, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "this is not an address")?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("an address starts with http:// or https://"),
        };
        let authority = uri.authority().ok_or("the address has no host")?;
        if authority.as_str().contains('@') {
            return Err("no user and password in an address; a key goes in CLINCH_API_KEY");
        }
        if uri.query().is_some() {
            return Err("no query in the server's address");
        }
        let host = authority.host();
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if bare.unwrap_or(host).is_empty() {
            return Err("the address has no host");
        }
        let default_port = if is_tls { 443 } else { 80 };
        Ok(Self {
            is_tls,
            host: bare.unwrap_or(host).to_owned(),
            port: authority.port_u16().unwrap_or(default_port),
            authority: authority.as_str().to_owned(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    pub(super) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The value of the `Host` header.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// The request target of a path of the API.
    pub(super) fn target(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// Whether traffic to this address can be read on the way.
    pub(super) fn is_in_the_clear(&self) -> bool {
        let ip = self.host.parse::<std::net::IpAddr>();
        let is_here = self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
        !self.is_tls && !is_here
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_strictly() {
        let base = Base::parse("https://clinch.example/behind/").unwrap();
        assert_eq!(base.to_string(), "https://clinch.example");
        assert_eq!((base.port(), base.is_tls()), (443, true));
        assert_eq!(base.target("/v1/events"), "/behind/v1/events");
        let base = Base::parse("http://[::1]:7070").unwrap();
        assert_eq!((base.host(), base.port()), ("::1", 7070));
        assert!(!base.is_in_the_clear());
        assert!(Base::parse("http://10.0.0.1").unwrap().is_in_the_clear());
        let wrong = [
            "",
            "localhost:7070",
            "ftp://a",
            "http://",
            "http://u:canary@a",
            "http://a?b",
        ];
        for url in wrong {
            let message = Base::parse(url).unwrap_err();
            assert!(!message.contains("canary"), "{url}");
        }
    }

    #[test]
    fn names_cannot_leave_their_place() {
        assert_eq!(segment("a/b?c#d e&f%"), "a%2Fb%3Fc%23d%20e%26f%25");
        let pairs = [("label", "team=a&b".to_owned()), ("limit", "5".to_owned())];
        assert_eq!(query(&pairs), "?label=team%3Da%26b&limit=5");
        assert_eq!(query(&[]), "");
    }
}
