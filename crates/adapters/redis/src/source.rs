//! Where the server is: one address, or the master that the sentinels name.

use std::time::Duration;

use clinch_core::{Error, ErrorKind, Result};
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisResult,
};
use tokio_rustls::rustls::crypto::ring;

const SENTINEL_SCHEME: &str = "redis+sentinel://";

/// Maximum number of sentinels: more than any system runs.
const SENTINELS_MAX: usize = 16;

pub(crate) enum Source {
    Single(Client),
    Sentinel {
        sentinels: Vec<Client>,
        master: String,
        login: RedisConnectionInfo,
    },
}

fn invalid() -> Error {
    let right = "the address must be redis://[user:password@]host[:port][/db], rediss:// for the \
                 same over TLS, or redis+sentinel://[user:password@]host:port,host:port/master[/db]";
    Error::new(ErrorKind::Invalid, right)
}

fn no_tls_to_sentinels() -> Error {
    let right = "sentinels are not asked over TLS; name the server itself with rediss://, or put \
                 a tunnel between and use redis+sentinel://";
    Error::new(ErrorKind::Invalid, right)
}

impl Source {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        match url.strip_prefix(SENTINEL_SCHEME) {
            Some(rest) => Self::parse_sentinel(rest),
            None if url.starts_with("rediss+sentinel://") => Err(no_tls_to_sentinels()),
            None if url.starts_with("rediss://") => {
                // With "#insecure" the driver would not check certificates.
                if url.contains('#') {
                    return Err(invalid());
                }
                // The first provider of a process is used; all of Clinch's are the same.
                let _ = ring::default_provider().install_default();
                Self::parse_single(url)
            }
            None if url.starts_with("redis://") || url.starts_with("redis+unix://") => {
                Self::parse_single(url)
            }
            None => Err(invalid()),
        }
    }

    fn parse_single(url: &str) -> Result<Self> {
        let address = url.into_connection_info().map_err(|_| invalid())?;
        let client = Client::open(lively(address)).map_err(|_| invalid())?;
        Ok(Self::Single(client))
    }

    fn parse_sentinel(rest: &str) -> Result<Self> {
        let (login, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let mut parts = rest.split('/');
        let hosts = parts.next().unwrap_or_default();
        let master = parts.next().filter(|name| !name.is_empty());
        let master = master.ok_or_else(invalid)?.to_owned();
        let db = parts.next().unwrap_or("0");
        if parts.next().is_some() {
            return Err(invalid());
        }
        let open = |host: &str| Client::open(format!("redis://{host}")).map_err(|_| invalid());
        let sentinels: Vec<Client> = hosts.split(',').map(open).collect::<Result<_>>()?;
        if sentinels.len() > SENTINELS_MAX {
            return Err(invalid());
        }
        let at = if login.is_empty() { "" } else { "@" };
        let login = format!("redis://{login}{at}master/{db}");
        let login = login.into_connection_info().map_err(|_| invalid())?;
        Ok(Self::Sentinel {
            sentinels,
            master,
            login: login.redis_settings().clone(),
        })
    }

    /// A client for the current server.
    pub(crate) async fn client(&self) -> RedisResult<Client> {
        let (sentinels, master, login) = match self {
            Self::Single(client) => return Ok(client.clone()),
            Self::Sentinel {
                sentinels,
                master,
                login,
            } => (sentinels, master, login),
        };
        let unknown = redis::ErrorKind::MasterNameNotFoundBySentinel;
        let mut failed = redis::RedisError::from((unknown, "no sentinel knows the master"));
        for sentinel in sentinels {
            match ask(sentinel, master).await {
                Ok(Some((host, port))) => {
                    let address = ConnectionAddr::Tcp(host, port).into_connection_info()?;
                    return Client::open(lively(address).set_redis_settings(login.clone()));
                }
                Ok(None) => {}
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// A connection whose peer disappeared silently is noticed within a minute, also one that only
/// listens.
fn lively(address: ConnectionInfo) -> ConnectionInfo {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10));
    let settings = TcpSettings::default();
    address.set_tcp_settings(settings.set_nodelay(true).set_keepalive(keepalive))
}

async fn ask(sentinel: &Client, master: &str) -> RedisResult<Option<(String, u16)>> {
    let mut connection = sentinel.get_multiplexed_async_connection().await?;
    redis::cmd("SENTINEL")
        .arg("get-master-addr-by-name")
        .arg(master)
        .query_async(&mut connection)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_never_repeated() {
        let good = [
            "redis://127.0.0.1",
            "redis://user:secret@host:6380/2",
            "rediss://user:secret@host:6380/2",
            "redis+sentinel://a:26379,b:26379/main",
            "redis+sentinel://user:secret@a:26379/main/3",
        ];
        for url in good {
            assert!(Source::parse(url).is_ok(), "{url}");
        }
        let bad = [
            "",
            "127.0.0.1",
            "http://user:secret@host",
            "rediss://user:secret@host/#insecure",
            "rediss+sentinel://user:secret@a:26379/main",
            "redis://user:secret@host:port",
            "redis+sentinel://user:secret@a:26379",
            "redis+sentinel://user:secret@a:26379/main/x",
            "redis+sentinel://user:secret@a:26379/main/0/1",
        ];
        for url in bad {
            let Err(error) = Source::parse(url) else {
                panic!("{url} was taken");
            };
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(!format!("{error} {error:?}").contains("secret"), "{url}");
        }
    }
}
