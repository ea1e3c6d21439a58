//! Connections of the pool.
//!
//! A server that is gone without a word answers nothing, and a driver waits for it for ever. So
//! each connection that works has a deadline: past it the connection is ended, and whoever waits
//! on it is told that it was lost. The server ends statements earlier than that, so that one
//! that is alive is heard.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clinch_core::{Error, ErrorKind, Result};
use deadpool::Runtime;
use deadpool::managed::{self, Metrics, RecycleError};
use deadpool_postgres::ClientWrapper;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error;
use crate::settings::Settings;

/// Quiet for so long, a connection asks whether its peer is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// What the driver takes if the address does not say.
const KEEPALIVE_IDLE_OF_DRIVER: Duration = Duration::from_secs(2 * 60 * 60);
/// Between two such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Unanswered questions after which the peer is gone.
const KEEPALIVE_RETRIES: u32 = 3;

/// Where the server is.
#[derive(Clone)]
pub(crate) struct Address {
    pub config: Config,
    pub tls: Option<MakeRustlsConnect>,
    pub timeout: Duration,
}

impl Address {
    /// Reads a URL. `sslmode=require` checks the server's certificate against the system's
    /// roots; `prefer` and `disable` use none. What the URL says of timeouts goes before
    /// `timeout`.
    pub(crate) fn parse(url: &str, timeout: Duration) -> Result<Self> {
        let mut config: Config = url.parse().map_err(|_| {
            // The driver's own message may quote the password.
            let message = "the address of PostgreSQL makes no sense; \
                           it is postgres://user:password@host:port/database";
            Error::new(ErrorKind::Invalid, message)
        })?;
        if config.get_application_name().is_none() {
            config.application_name("clinch");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(timeout);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(timeout);
        }
        if config.get_keepalives_idle() == KEEPALIVE_IDLE_OF_DRIVER {
            config.keepalives_idle(KEEPALIVE_IDLE);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(KEEPALIVE_INTERVAL);
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(KEEPALIVE_RETRIES);
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Require => Some(MakeRustlsConnect::new(roots()?)),
            _ => {
                config.ssl_mode(SslMode::Disable);
                None
            }
        };
        Ok(Self {
            config,
            tls,
            timeout,
        })
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

/// A connection of the pool.
pub(crate) struct Connection {
    client: ClientWrapper,
    end: Arc<End>,
}

/// Ends a connection from outside: what waits on it fails as lost.
pub(crate) struct End {
    task: AbortHandle,
    is_over: AtomicBool,
}

impl End {
    pub(crate) fn now(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.task.abort();
    }
}

impl Connection {
    pub(crate) fn end(&self) -> &Arc<End> {
        &self.end
    }
}

impl Deref for Connection {
    type Target = ClientWrapper;
    fn deref(&self) -> &ClientWrapper {
        &self.client
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        &mut self.client
    }
}

/// Makes connections.
pub(crate) struct Maker {
    address: Address,
    /// What is set on each.
    session: Option<String>,
}

pub(crate) type Pool = managed::Pool<Maker>;
pub(crate) type Object = managed::Object<Maker>;
pub(crate) type PoolError = managed::PoolError<tokio_postgres::Error>;

impl managed::Manager for Maker {
    type Type = Connection;
    type Error = tokio_postgres::Error;

    async fn create(&self) -> Result<Connection, tokio_postgres::Error> {
        let Address { config, tls, .. } = &self.address;
        let (client, task) = match tls {
            Some(tls) => run(config.connect(tls.clone()).await?),
            None => run(config.connect(NoTls).await?),
        };
        let end = Arc::new(End {
            task: task.abort_handle(),
            is_over: AtomicBool::new(false),
        });
        let client = ClientWrapper::new(client, task);
        if let Some(text) = &self.session {
            client.batch_execute(text).await?;
        }
        Ok(Connection { client, end })
    }

    async fn recycle(
        &self,
        connection: &mut Connection,
        _: &Metrics,
    ) -> managed::RecycleResult<tokio_postgres::Error> {
        if connection.is_closed() || connection.end.is_over.load(Ordering::SeqCst) {
            return Err(RecycleError::message("it was lost"));
        }
        Ok(())
    }
}

fn run<S, T>(
    (client, connection): (Client, tokio_postgres::Connection<S, T>),
) -> (Client, JoinHandle<()>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    // Calls that wait on the connection are told how it ended.
    let task = tokio::spawn(async move { connection.await.unwrap_or_default() });
    (client, task)
}

/// The pool of those that work.
pub(crate) fn pool(address: &Address, settings: &Settings) -> Result<Pool> {
    let session = (!settings.through_pgbouncer).then(|| session(settings));
    let maker = Maker {
        address: address.clone(),
        session,
    };
    Pool::builder(maker)
        .max_size(settings.pool_size.max(2))
        .wait_timeout(Some(settings.pool_timeout))
        .create_timeout(Some(settings.timeout))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| {
            Error::new(ErrorKind::Internal, "the pool cannot be built").caused_by(error)
        })
}

/// A connection of its own, on which nothing is set: what it is for may take long.
pub(crate) async fn one(address: &Address) -> Result<Object> {
    let settings = Settings {
        pool_size: 1,
        through_pgbouncer: true,
        ..Settings::within(address.timeout)
    };
    pool(address, &settings)?.get().await.map_err(error::pool)
}

/// What holds on every connection of the pool. A role that comes through PgBouncer has the
/// same as its own settings.
pub(crate) fn session(settings: &Settings) -> String {
    // The plans must suit a queue that was empty when they were made and is long now, or that
    // has few rows and a million dead ones: every statement finds its rows one by one by an
    // index. So each is planned once for a connection: left to itself, the server takes a new plan
    // for a call of few rows to be worth 0.3 ms, more than the call itself takes.
    format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; \
         SET idle_in_transaction_session_timeout = {}; SET jit = off; SET enable_seqscan = off; \
         SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
         SET plan_cache_mode = force_generic_plan; SET default_transaction_isolation = 'read committed'",
        settings.statement_timeout.as_millis(),
        settings.lock_timeout.as_millis(),
        settings.idle_transaction_timeout.as_millis(),
    )
}
