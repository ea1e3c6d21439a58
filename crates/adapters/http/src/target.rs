//! Scheme, host and port of a URL, parsed strictly.
//!
//! If two parsers read two different hosts from one URL, a guard can be bypassed. So only the one
//! plain spelling of each host is accepted. Every other spelling (decimal, octal and hexadecimal
//! addresses, short forms, escapes, user names, zone ids, trailing dots, letters that fold to
//! ASCII) is refused when the route is built, private or not.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clinch_core::Invalid;

/// The server that is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub is_tls: bool,
    pub host: Host,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Ip(IpAddr),
    /// In lower case.
    Name(Box<str>),
}

impl Host {
    /// `127.0.0.0/8`, `::1`, `localhost` and names below it (RFC 6761).
    pub(crate) fn is_loopback(&self) -> bool {
        match self {
            Self::Ip(ip) => ip.is_loopback(),
            Self::Name(name) => &**name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V4(ip)) => write!(f, "{ip}"),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Target {
    /// Splits a URL (or a template of one) into its target and the rest, which begins with `/` or
    /// `?` or is empty.
    pub(crate) fn split<'u>(url: &'u str, field: &'static str) -> Result<(Self, &'u str), Invalid> {
        let refuse = |problem: &str| Err(Invalid::new(field, problem));
        if let Some(bad) = url.chars().find(|c| !c.is_ascii_graphic() || *c == '\\') {
            let problem = format!(
                "contains {bad:?}; a URL is written in visible ASCII (a host in its xn-- form)"
            );
            return Err(Invalid::new(field, problem));
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return refuse("must begin with https:// or http://");
        };
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return refuse("must begin with https:// or http://; no other scheme is called"),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if rest.contains('#') {
            return refuse("must not have a fragment: it is never sent");
        }
        if authority.contains(['{', '}', '$']) {
            return refuse("must not have placeholders in scheme, host or port");
        }
        if authority.contains('@') {
            return refuse("must not carry a user name; put credentials in headers");
        }
        let (host, port) = split_port(authority, field)?;
        let host = read_host(host).map_err(|problem| Invalid::new(field, problem))?;
        let port = port.unwrap_or(if is_tls { 443 } else { 80 });
        Ok((Self { is_tls, host, port }, rest))
    }

    /// For the `Host` header and `:authority`.
    pub(crate) fn authority(&self) -> String {
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => self.host.to_string(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}

fn split_port<'a>(
    authority: &'a str,
    field: &'static str,
) -> Result<(&'a str, Option<u16>), Invalid> {
    let (host, port) = match authority.rfind(']') {
        Some(end) => authority.split_at(end + 1),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.strip_prefix(':').unwrap_or_default();
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    match digits.parse::<u16>() {
        Ok(port) if is_plain => Ok((host, Some(port))),
        _ => Err(Invalid::new(field, "must have a port between 1 and 65535")),
    }
}

fn read_host(text: &str) -> Result<Host, String> {
    if let Some(inner) = text.strip_prefix('[') {
        let address = inner.strip_suffix(']').unwrap_or_default();
        let plain = address.parse::<Ipv6Addr>().map_err(|_| {
            "must have a plain IPv6 address between the brackets, without a zone".to_owned()
        })?;
        return Ok(Host::Ip(IpAddr::V6(plain)));
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(Host::Ip(IpAddr::V4(address)));
    }
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_number = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
    if is_number || last.starts_with("0x") || last.starts_with("0X") {
        // Resolvers read these as addresses: 2130706433, 0177.1, 0x7f.0.0.1.
        return Err(
            "must spell an IPv4 address as four decimal numbers without leading zeros".into(),
        );
    }
    if text.is_empty() || text.len() > 253 || !text.split('.').all(is_label) {
        return Err("must have a host of letters, digits, '-' and '_' in labels of at most 63, without a dot at the end".into());
    }
    Ok(Host::Name(text.to_ascii_lowercase().into()))
}

fn is_label(label: &str) -> bool {
    let is_fine = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !label.is_empty()
        && label.len() <= 63
        && label.bytes().all(is_fine)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_urls_are_taken_apart() {
        let read = |url| Target::split(url, "url").map(|(t, rest)| (t.authority(), rest));
        let plain = [
            ("https://psp.example/v1?a=b", "psp.example", "/v1?a=b"),
            ("HTTP://PSP.example", "psp.example", ""),
            ("https://psp.example:443/", "psp.example", "/"),
            ("http://psp_1:8080?x", "psp_1:8080", "?x"),
            ("https://1.1.1.1/", "1.1.1.1", "/"),
            ("https://[2606:4700::1]:8443/", "[2606:4700::1]:8443", "/"),
            (
                "https://xn--bcher-kva.example/",
                "xn--bcher-kva.example",
                "/",
            ),
        ];
        for (url, authority, rest) in plain {
            assert_eq!(read(url), Ok((authority.to_owned(), rest)), "{url}");
        }
    }

    #[test]
    fn hosts_that_are_literally_loopback_are_known() {
        for url in [
            "http://LOCALHOST",
            "http://a.localhost",
            "http://127.9.9.9",
            "http://[::1]",
        ] {
            assert!(Target::split(url, "url").expect(url).0.host.is_loopback());
        }
        for url in [
            "http://localhost.example",
            "http://[::ffff:127.0.0.1]",
            "http://128.0.0.1",
        ] {
            assert!(!Target::split(url, "url").expect(url).0.host.is_loopback());
        }
    }
}
