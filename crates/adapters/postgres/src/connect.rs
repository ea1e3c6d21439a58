//! Connections: the pool, and the one that listens.

use std::sync::Arc;

use clinch_core::{Error, ErrorKind, Result};
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error;
use crate::settings::Settings;

/// Where the server is.
#[derive(Clone)]
pub(crate) struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl Address {
    /// Reads a URL. `sslmode=require` checks the server's certificate against the system's
    /// roots; `prefer` and `disable` use none.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let mut config: Config = url.parse().map_err(|_| {
            // The driver's own message may quote the password.
            let message = "the address of PostgreSQL makes no sense; \
                           it is postgres://user:password@host:port/database";
            Error::new(ErrorKind::Invalid, message)
        })?;
        if config.get_application_name().is_none() {
            config.application_name("clinch");
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Require => Some(MakeRustlsConnect::new(roots()?)),
            _ => {
                config.ssl_mode(SslMode::Disable);
                None
            }
        };
        Ok(Self { config, tls })
    }

    /// The name of the database, for messages.
    pub(crate) fn database(&self) -> &str {
        self.config.get_dbname().unwrap_or_default()
    }
}

fn roots() -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let message = "sslmode=require needs root certificates, and this system has none";
        return Err(Error::new(ErrorKind::Unavailable, message));
    }
    Ok(ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// The pool of those that work.
pub(crate) fn pool(address: &Address, settings: &Settings) -> Result<Pool> {
    let recycling = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let config = address.config.clone();
    let manager = match &address.tls {
        Some(tls) => Manager::from_config(config, tls.clone(), recycling),
        None => Manager::from_config(config, NoTls, recycling),
    };
    let mut builder = Pool::builder(manager)
        .max_size(settings.pool_size.max(2))
        .wait_timeout(Some(settings.pool_timeout))
        .create_timeout(Some(settings.pool_timeout))
        .runtime(Runtime::Tokio1);
    if !settings.through_pgbouncer {
        let text: Arc<str> = session(settings).into();
        builder = builder.post_create(Hook::async_fn(move |client, _| {
            let text = text.clone();
            Box::pin(async move {
                let set = client.batch_execute(&text).await;
                set.map_err(HookError::Backend)
            })
        }));
    }
    builder.build().map_err(|error| {
        Error::new(ErrorKind::Internal, "the pool cannot be built").caused_by(error)
    })
}

/// A connection of its own, on which nothing is set: what it is for may take long.
pub(crate) async fn one(address: &Address) -> Result<Object> {
    let settings = Settings {
        pool_size: 1,
        through_pgbouncer: true,
        ..Settings::default()
    };
    pool(address, &settings)?.get().await.map_err(error::pool)
}

/// What holds on every connection of the pool. A role that comes through PgBouncer has the
/// same as its own settings.
pub(crate) fn session(settings: &Settings) -> String {
    // The plans must suit a queue that was empty when they were made and is long now, or that
    // has few rows and a million dead ones: every statement finds its rows one by one by an
    // index.
    format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; \
         SET idle_in_transaction_session_timeout = {}; SET jit = off; SET enable_seqscan = off; \
         SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
         SET default_transaction_isolation = 'read committed'",
        settings.statement_timeout.as_millis(),
        settings.lock_timeout.as_millis(),
        settings.idle_transaction_timeout.as_millis(),
    )
}

/// A connection that listens, and what it hears.
pub(crate) struct Listener {
    /// Kept: the connection ends with it.
    _client: Client,
    pub heard: UnboundedReceiver<AsyncMessage>,
}

/// A connection of its own that listens for news.
pub(crate) async fn listener(address: &Address) -> Result<Listener> {
    listener_of(address, "clinch").await
}

/// A connection of its own that listens on a channel of ours.
pub(crate) async fn listener_of(address: &Address, channel: &'static str) -> Result<Listener> {
    let (sender, heard) = tokio::sync::mpsc::unbounded_channel();
    let client = match &address.tls {
        Some(tls) => {
            let (client, connection) = connected(address.config.connect(tls.clone()).await)?;
            drive(connection, sender);
            client
        }
        None => {
            let (client, connection) = connected(address.config.connect(NoTls).await)?;
            drive(connection, sender);
            client
        }
    };
    client
        .batch_execute(&format!("LISTEN {channel}"))
        .await
        .map_err(error::sql)?;
    Ok(Listener {
        _client: client,
        heard,
    })
}

fn connected<T>(outcome: Result<T, tokio_postgres::Error>) -> Result<T> {
    outcome.map_err(error::sql)
}

fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    heard: UnboundedSender<AsyncMessage>,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let mut next = std::future::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = (&mut next).await {
            if heard.send(message).is_err() {
                return;
            }
        }
    });
}
