//! Addresses of stores and buses. Only this file looks at schemes.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clinch_core::{Error, ErrorKind, Result};

/// The address of a store.
///
/// ```
/// use clinch::backend::StoreUrl;
///
/// let store: StoreUrl = "postgres://ann:s3cret@db/shop".parse()?;
/// assert_eq!(store.kind(), "postgres");
/// assert_eq!(store.to_string(), "postgres://db/shop"); // without user and password
/// # Ok::<(), clinch::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `memory:`: in this process. The data is lost when the process ends.
    Memory,
    /// `sqlite://FILE`
    Sqlite(PathBuf),
    /// `postgres://HOST/DATABASE`
    Postgres(ServerUrl),
    /// `mysql://HOST/DATABASE` or `mariadb://HOST/DATABASE`
    Mysql(ServerUrl),
}

/// The address of a bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusUrl {
    /// `store`: the store is its own bus.
    Store,
    /// `redis://HOST`, also `rediss://` (TLS) and both with `+sentinel`
    Redis(ServerUrl),
    /// `nats://HOST`, or `tls://HOST`
    Nats(ServerUrl),
}

/// The address of a server. It may hold a password: `Display` and `Debug` show only scheme, host
/// and path.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl(String);

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        if url == "memory:" {
            return Ok(Self::Memory);
        }
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        match scheme {
            "sqlite" if !rest.is_empty() => Ok(Self::Sqlite(PathBuf::from(rest))),
            "postgres" | "postgresql" => Ok(Self::Postgres(ServerUrl::new(url))),
            "mysql" | "mariadb" => {
                let url = format!("mysql://{rest}");
                Ok(Self::Mysql(ServerUrl::new(url)))
            }
            _ => Err(unknown(
                scheme,
                "store",
                "sqlite://FILE, postgres://HOST/DATABASE, mysql://HOST/DATABASE or memory:",
            )),
        }
    }
}

impl StoreUrl {
    /// `memory`, `sqlite`, `postgres` or `mysql`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
            Self::Mysql(_) => "mysql",
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(server) | Self::Mysql(server) => server.fmt(f),
        }
    }
}

impl FromStr for BusUrl {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        match url.split_once("://").map_or(url, |(scheme, _)| scheme) {
            "store" => Ok(Self::Store),
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" => {
                Ok(Self::Redis(ServerUrl::new(url)))
            }
            "nats" | "tls" => Ok(Self::Nats(ServerUrl::new(url))),
            scheme => Err(unknown(
                scheme,
                "bus",
                "\"store\", redis://HOST or nats://HOST",
            )),
        }
    }
}

impl fmt::Display for BusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("store"),
            Self::Redis(server) | Self::Nats(server) => server.fmt(f),
        }
    }
}

impl ServerUrl {
    /// An address, with user and password if the server needs them.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The whole address, with its password.
    #[cfg_attr(
        not(any(
            feature = "postgres",
            feature = "mysql",
            feature = "redis",
            feature = "nats"
        )),
        expect(dead_code, reason = "only servers are connected to")
    )]
    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A password that is not escaped may hold any character, also a slash.
        let path = path.rsplit('@').next().unwrap_or_default();
        let host = match rest.contains('@') {
            true => host.rsplit('@').next().filter(|_| host.contains('@')),
            false => Some(host),
        };
        match host {
            Some(host) => write!(f, "{scheme}://{host}/{path}"),
            None => write!(f, "{scheme}://{path}"),
        }
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Names the scheme only: the address may hold a password.
fn unknown(scheme: &str, what: &str, known: &str) -> Error {
    let scheme = scheme.split([':', '@']).next().unwrap_or_default();
    let message = format!("there is no {scheme:?} {what}; use {known}");
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_stores_and_buses() {
        let store = |url: &str| url.parse::<StoreUrl>().map(|store| store.to_string());
        let cases = [
            ("memory:", "memory:"),
            ("sqlite://clinch.db", "sqlite://clinch.db"),
            ("sqlite:///var/lib/clinch.db", "sqlite:///var/lib/clinch.db"),
            ("postgres://db/shop", "postgres://db/shop"),
            ("postgresql://db/shop", "postgresql://db/shop"),
            ("mysql://db/shop", "mysql://db/shop"),
            ("mariadb://db/shop", "mysql://db/shop"),
        ];
        for (url, expected) in cases {
            assert_eq!(store(url).ok().as_deref(), Some(expected));
        }
        let bus = |url: &str| url.parse::<BusUrl>().map(|bus| bus.to_string());
        let cases = [
            ("store", "store"),
            ("redis://cache:6379", "redis://cache:6379/"),
            (
                "rediss+sentinel://a,b/primary",
                "rediss+sentinel://a,b/primary",
            ),
            ("nats://hub", "nats://hub/"),
            ("tls://hub", "tls://hub/"),
        ];
        for (url, expected) in cases {
            assert_eq!(bus(url).ok().as_deref(), Some(expected));
        }
    }

    #[test]
    fn core_16_an_address_is_shown_without_its_password() {
        let cases = [
            (
                "postgres://ann:s3cret@db:5432/shop",
                "postgres://db:5432/shop",
            ),
            ("postgres://db/shop?password=s3cret", "postgres://db/shop"),
            ("mysql://ann:s3/cret@db/shop", "mysql://db/shop"),
            ("redis://:s3cret@cache:6379", "redis://cache:6379/"),
        ];
        for (url, expected) in cases {
            let server = ServerUrl::new(url);
            assert_eq!(server.to_string(), expected);
            assert_eq!(format!("{server:?}"), expected);
        }
        let store: StoreUrl = "postgres://ann:s3cret@db/shop".parse().expect("an address");
        assert!(!format!("{store:?} {store}").contains("s3cret"));
    }

    #[test]
    fn core_16_a_refused_address_is_named_by_its_scheme_only() {
        let urls = [
            "oracle://ann:s3cret@db/shop",
            "ann:s3cret@db/shop",
            "redis://:s3cret@cache",
        ];
        for url in urls {
            let error = url.parse::<StoreUrl>().expect_err("no store").to_string();
            assert!(error.contains("postgres://HOST/DATABASE"), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
        let error = "kafka://ann:s3cret@k".parse::<BusUrl>().expect_err("none");
        let expected =
            "there is no \"kafka\" bus; use \"store\", redis://HOST or nats://HOST".to_owned();
        assert_eq!(error.to_string(), expected);
        assert!("sqlite://".parse::<StoreUrl>().is_err(), "no file");
    }
}
