//! Helpers of the tests.

use std::sync::Arc;

use clinch_contract::samples;
use clinch_core::ports::{Clock, Ids, NewOperation};
use clinch_core::{Keys, Payload};
use clinch_mysql::{Mysql, Settings};
use clinch_system::{SystemClock, SystemIds};
use clinch_testbed::Kind;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

pub(crate) use clinch_contract::samples::{keys, on_a_runtime, payload, routes, worker};

/// The shared server.
pub(crate) fn url() -> String {
    clinch_testbed::shared(Kind::MariaDb).expect("a server")
}

/// A database for one test, with its tables. Creating tables is slow, so databases are emptied and
/// reused; their user holds a server lock on the name.
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) url: String,
    _lock: Conn,
}

impl Database {
    /// A database on the server at this address.
    pub(crate) async fn on(server: &str) -> Self {
        let (base, _) = server.rsplit_once('/').expect("an address with a database");
        let mut conn = Conn::from_url(server).await.expect("a connection");
        let mut number = 0;
        let name = loop {
            let name = format!("clinch_test_{number}");
            let taken = format!("SELECT GET_LOCK('{name}', 0)");
            if one(&mut conn, &taken).await == 1 {
                break name;
            }
            number += 1;
        };
        let url = format!("{base}/{name}");
        let there = format!(
            "SELECT COUNT(*) FROM information_schema.tables \
             WHERE table_schema = '{name}' AND table_name = 'clinch_api_key'"
        );
        if one(&mut conn, &there).await == 1 {
            empty(&mut conn, &name).await;
        } else {
            let make = format!("DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}");
            run(&mut conn, &make).await;
        }
        clinch_mysql::migrate(&url).await.expect("tables");
        Self {
            name,
            url,
            _lock: conn,
        }
    }

    pub(crate) async fn open(&self) -> Mysql {
        self.open_with(Settings::default()).await
    }

    pub(crate) async fn open_with(&self, settings: Settings) -> Mysql {
        let store = Mysql::connect(&self.url, settings, clock()).await;
        store.expect("the store opens")
    }

    pub(crate) async fn conn(&self) -> Conn {
        Conn::from_url(&self.url).await.expect("a connection")
    }
}

async fn run(conn: &mut Conn, sql: &str) {
    conn.query_drop(sql).await.expect("the server obeys");
}

async fn one(conn: &mut Conn, sql: &str) -> u64 {
    let value: Option<u64> = conn.query_first(sql).await.expect("the server answers");
    value.unwrap_or_default()
}

/// Ends all sessions that still use it, then deletes every row.
async fn empty(conn: &mut Conn, name: &str) {
    loop {
        let users = format!("SELECT id FROM information_schema.processlist WHERE db = '{name}'");
        let users: Vec<u64> = conn.query(users).await.expect("a list");
        if users.is_empty() {
            break;
        }
        for user in users {
            // The session may have ended already.
            let _ = conn.query_drop(format!("KILL {user}")).await;
        }
    }
    let tables = format!(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = '{name}' \
         AND table_type = 'BASE TABLE' AND table_name NOT IN ('clinch_migration', 'clinch_meta')"
    );
    let tables: Vec<String> = conn.query(tables).await.expect("a list");
    let mut sql = "START TRANSACTION".to_owned();
    for table in tables.iter().filter(|table| table.starts_with("clinch_")) {
        sql += &format!("; DELETE FROM {name}.{table}");
    }
    sql += &format!("; UPDATE {name}.clinch_meta SET sealed = 0; COMMIT");
    for table in tables.iter().filter(|table| !table.starts_with("clinch_")) {
        sql += &format!("; DROP TABLE {name}.{table}");
    }
    // The seqs are compared with those of the reference.
    sql += &format!("; ALTER TABLE {name}.clinch_request AUTO_INCREMENT = 1");
    run(conn, &sql).await;
}

/// Waits until a transaction in the server waits for a lock. (The table of transactions cannot be
/// used: it is updated too rarely for frequent reads.)
pub(crate) async fn until_somebody_waits(conn: &mut Conn) {
    let waits = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                 WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'";
    while one(conn, waits).await == 0 {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

pub(crate) fn operation(domain: &str, number: usize) -> NewOperation {
    samples::operation(SystemIds.op_id(), domain, number)
}

pub(crate) fn operation_of(keys: Keys, payload: &Payload) -> NewOperation {
    samples::operation_of(SystemIds.op_id(), keys, payload)
}
