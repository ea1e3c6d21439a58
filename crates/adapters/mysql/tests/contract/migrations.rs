//! Tables are created once, whichever node starts first, and refused if they are of another release
//! (OUT-7).

use std::sync::Arc;

use clinch_contract::earlier::{make_letters, read_letters};
use clinch_contract::{Calls, StorePorts};
use clinch_core::ErrorKind;
use clinch_mysql::{MIGRATIONS, Mysql, Settings};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::common::{self, Database, clock, on_a_runtime, operation, routes};

/// A new database without tables.
async fn bare(name: &str) -> (String, Conn) {
    let server = common::url();
    let mut conn = Conn::from_url(&server).await.expect("a connection");
    let name = format!("clinch_bare_{name}_{}", std::process::id());
    let make = format!("DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}; USE {name}");
    conn.query_drop(make).await.expect("a database");
    let (base, _) = server.rsplit_once('/').expect("an address with a database");
    (format!("{base}/{name}"), conn)
}

async fn gone(mut conn: Conn) {
    let drop = "SET @gone = CONCAT('DROP DATABASE ', DATABASE()); PREPARE gone FROM @gone; \
                EXECUTE gone";
    conn.query_drop(drop).await.expect("it is gone");
}

fn out_7_many_nodes_start_at_once() {
    on_a_runtime(async {
        let (url, conn) = bare("nodes").await;
        let pending = clinch_mysql::pending(&url).await.expect("reads");
        assert_eq!(pending, MIGRATIONS);
        let missing = Mysql::connect(&url, Settings::default(), clock()).await;
        assert_eq!(
            missing.err().map(|e| e.kind()),
            Some(ErrorKind::Unsupported)
        );
        let nodes: Vec<_> = (0..6)
            .map(|_| {
                let url = url.clone();
                tokio::spawn(async move { clinch_mysql::migrate(&url).await })
            })
            .collect();
        let mut applied = 0;
        for node in nodes {
            applied += node.await.expect("no panic").expect("migrates").len();
        }
        assert_eq!(applied, MIGRATIONS.len(), "each step once");
        assert_eq!(clinch_mysql::pending(&url).await.expect("reads"), []);
        let store = Mysql::connect(&url, Settings::default(), clock()).await;
        let store = store.expect("connects");
        let new = [operation("natural", 1)];
        store.accept(&new, &routes()).await.expect("accepts");
        store.close().await;
        gone(conn).await;
    });
}

fn out_7_a_step_that_was_cut_off_is_run_again() {
    on_a_runtime(async {
        let (url, mut conn) = bare("cut").await;
        let step = MIGRATIONS[0].sql;
        let (half, _) = step
            .split_once("CREATE TABLE IF NOT EXISTS clinch_lane")
            .expect("a table");
        conn.query_drop(half).await.expect("the first half");
        let applied = clinch_mysql::migrate(&url).await.expect("migrates");
        assert_eq!(applied.len(), MIGRATIONS.len());
        gone(conn).await;
    });
}

fn out_7_tables_of_a_newer_release_are_refused() {
    on_a_runtime(async {
        let (url, mut conn) = bare("newer").await;
        clinch_mysql::migrate(&url).await.expect("migrates");
        let newer = "INSERT INTO clinch_migration VALUES (99, 'later', UTC_TIMESTAMP(6))";
        conn.query_drop(newer).await.expect("a row");
        for refused in [
            clinch_mysql::migrate(&url).await.err(),
            clinch_mysql::pending(&url).await.err(),
            Mysql::connect(&url, Settings::default(), clock())
                .await
                .err(),
        ] {
            assert_eq!(refused.map(|e| e.kind()), Some(ErrorKind::Unsupported));
        }
        gone(conn).await;
    });
}

fn core_16_keys_of_the_api_are_kept_as_the_port_promises() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        assert_eq!(clinch_contract::api_keys(&store).await, Ok(()));
    });
}

/// An error message must not quote a statement: it would show a payload.
fn core_16_no_error_shows_a_payload() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let mut conn = database.conn().await;
        let strict = "ALTER TABLE clinch_request ADD CONSTRAINT tiny CHECK (LENGTH(payload) < 2)";
        conn.query_drop(strict).await.expect("a constraint");
        let refused = store.accept(&[operation("natural", 1)], &routes()).await;
        let error = refused.expect_err("refused");
        let shown = format!("{error} {error:?} {:?}", std::error::Error::source(&error));
        assert!(
            !shown.contains("INSERT") && !shown.contains("7B226E22"),
            "{shown}"
        );
        let back = "ALTER TABLE clinch_request DROP CONSTRAINT tiny";
        conn.query_drop(back).await.expect("gone");
    });
}

/// What the release before left of a dead letter whose operation is there.
const AS_BEFORE: &str = "UPDATE clinch_dead_letter SET letter = NULL, status = NULL, mark = NULL, \
    seq = NULL, domain = NULL, event_type = NULL, biz_key = NULL, idem_key = NULL, code = NULL, \
    fingerprint = NULL, late_ok = 0; \
    UPDATE clinch_count SET dead_letters_open = 0";

fn out_6_dead_letters_of_an_earlier_release_are_completed_when_the_store_is_opened() {
    on_a_runtime(async {
        let database = Database::on(&common::url()).await;
        let store = database.open().await;
        let ports = StorePorts::of(&Arc::new(store.clone()));
        make_letters(&ports).await.expect("letters");
        let made = read_letters(&ports).await.expect("read");
        assert_eq!(made.1, 3, "open ones");
        let mut conn = database.conn().await;
        conn.query_drop(AS_BEFORE).await.expect("as before");
        drop(ports);
        store.close().await;
        let ports = StorePorts::of(&Arc::new(database.open().await));
        assert_eq!(read_letters(&ports).await.expect("read"), made);
    });
}

clinch_contract::tests! {
    out_6_dead_letters_of_an_earlier_release_are_completed_when_the_store_is_opened,
    out_7_many_nodes_start_at_once,
    out_7_a_step_that_was_cut_off_is_run_again,
    out_7_tables_of_a_newer_release_are_refused,
    core_16_keys_of_the_api_are_kept_as_the_port_promises,
    core_16_no_error_shows_a_payload,
}
