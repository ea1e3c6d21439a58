//! The address of the database, and the settings of a session.

use std::time::Duration;

use clinch_core::{Error, ErrorKind, Result};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts, SslOpts};

use crate::error;
use crate::settings::Settings;

/// Detects a peer that has disappeared without closing the connection.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The server's product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    MariaDb,
    MySql,
}

/// Parses an address. Errors never show it, since it holds a password.
pub(crate) fn parse(url: &str) -> Result<Opts> {
    let invalid = |why: &str| {
        let message = format!(
            "the database's address {why}; it looks like mysql://user:password@host:3306/database"
        );
        Error::new(ErrorKind::Invalid, message)
    };
    let (url, tls) = match url.split_once("://") {
        Some(("mysqls", rest)) => (format!("mysql://{rest}"), true),
        Some(("mariadb", rest)) => (format!("mysql://{rest}"), false),
        Some(("mysql", _)) => (url.to_owned(), false),
        _ => return Err(invalid("must begin with mysql:// or, with TLS, mysqls://")),
    };
    let opts = Opts::from_url(&url).map_err(|_| invalid("cannot be read"))?;
    if opts.db_name().is_none_or(str::is_empty) {
        return Err(invalid("names no database"));
    }
    let builder = OptsBuilder::from_opts(opts)
        .prefer_socket(false)
        .tcp_keepalive(Some(KEEPALIVE))
        .tcp_nodelay(true);
    Ok(match tls {
        true => builder.ssl_opts(SslOpts::default()).into(),
        false => builder.into(),
    })
}

/// A single connection, without the session settings of the pool.
pub(crate) async fn connect_one(opts: &Opts, timeout: Duration) -> Result<(Conn, Flavor)> {
    let answered = tokio::time::timeout(timeout, greet(opts)).await;
    answered.unwrap_or_else(|_| Err(error::sql(&error::no_answer())))
}

async fn greet(opts: &Opts) -> Result<(Conn, Flavor)> {
    let mut conn = Conn::new(opts.clone())
        .await
        .map_err(|failed| error::sql(&failed))?;
    let version: Option<String> = conn
        .query_first("SELECT VERSION()")
        .await
        .map_err(|failed| error::sql(&failed))?;
    let flavor = flavor(&version.unwrap_or_default())?;
    Ok((conn, flavor))
}

fn flavor(version: &str) -> Result<Flavor> {
    let mut numbers = version.split(['.', '-']).map(str::parse::<u32>);
    let mut next = || {
        numbers
            .next()
            .and_then(std::result::Result::ok)
            .unwrap_or(0)
    };
    let (major, minor) = (next(), next());
    let (flavor, is_known) = match version.contains("MariaDB") {
        true => (Flavor::MariaDb, (major, minor) >= (10, 6)),
        false => (Flavor::MySql, major >= 8),
    };
    let message = "the server is too old for SKIP LOCKED; MariaDB 10.6 or MySQL 8.0 is needed";
    let error = || Error::new(ErrorKind::Unsupported, message).with("version", version);
    is_known.then_some(flavor).ok_or_else(error)
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().max(1)
}

/// Connections with the session settings, opened on demand.
pub(crate) fn pool(opts: &Opts, flavor: Flavor, settings: &Settings) -> Pool {
    let mut init = vec![
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'".to_owned(),
        format!(
            "SET SESSION innodb_lock_wait_timeout = {}",
            whole_seconds(settings.lock_timeout)
        ),
        format!(
            "SET SESSION wait_timeout = {}",
            whole_seconds(settings.idle_timeout)
        ),
    ];
    init.push(match flavor {
        Flavor::MariaDb => format!(
            "SET SESSION max_statement_time = {}",
            settings.statement_timeout.as_secs_f64()
        ),
        // Limits reads only: MySQL has no time limit for writes.
        Flavor::MySql => format!(
            "SET SESSION max_execution_time = {}",
            settings.statement_timeout.as_millis()
        ),
    });
    let size = settings.pool_size.max(1);
    let constraints = PoolConstraints::new(1, size).unwrap_or_default();
    let pool_opts = PoolOpts::default()
        .with_constraints(constraints)
        .with_inactive_connection_ttl(settings.idle_timeout / 2)
        // Safe without a reset: every transaction has ended before its connection returns to the
        // pool.
        .with_reset_connection(false);
    let builder = OptsBuilder::from_opts(opts.clone())
        .init(init)
        .pool_opts(pool_opts);
    Pool::new(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_7_servers_that_cannot_skip_locked_rows_are_refused() {
        assert_eq!(
            flavor("10.11.14-MariaDB-0+deb12u2").ok(),
            Some(Flavor::MariaDb)
        );
        assert_eq!(flavor("8.0.36").ok(), Some(Flavor::MySql));
        for old in ["5.7.44", "10.5.9-MariaDB", ""] {
            assert!(flavor(old).is_err(), "{old}");
        }
    }

    #[test]
    fn an_address_is_read_and_never_shown() {
        for bad in [
            "",
            "postgres://x/y",
            "mysql://user:secret@host",
            "mysql://user:secret@:x/y",
        ] {
            let error = parse(bad).expect_err(bad);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(parse("mariadb://user@host:3306/db").is_ok());
        let tls = parse("mysqls://user@host/db").expect("reads");
        assert!(tls.ssl_opts().is_some());
    }
}
