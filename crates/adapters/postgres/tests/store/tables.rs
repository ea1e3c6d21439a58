//! What the tables promise besides the ports: keys of the API, migrations, days (CORE-16,
//! OUT-9).

use std::sync::Arc;
use std::time::Duration;

use clinch_contract::StorePorts;
use clinch_contract::earlier::{make_letters, read_letters};
use clinch_core::ErrorKind;
use clinch_core::ports::{Prune, Recovery};
use clinch_postgres::{MIGRATIONS, Postgres, Settings, migrate, pending};

use crate::common::{self, Bare, Database, on_a_runtime};

/// An empty database of its own, without tables.
const DROP_ALL: &str = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";

/// What the release before left of a dead letter whose operation is there.
const AS_BEFORE: &str = "UPDATE clinch_dead_letter SET letter = NULL, status = NULL, mark = NULL, \
    seq = NULL, domain = NULL, event_type = NULL, biz_key = NULL, idem_key = NULL, code = NULL, \
    fingerprint = NULL, late_ok = false; \
    UPDATE clinch_domain SET dead_letters_open = 0; UPDATE clinch_delta SET dead_letters_open = 0";

#[test]
fn core_16_keys_of_the_api_are_kept() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let store = database.store().await;
        clinch_contract::api_keys(&store)
            .await
            .expect("the contract");
    });
}

#[test]
fn out_6_dead_letters_of_an_earlier_release_are_completed_when_the_store_is_opened() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let store = database.store().await;
        let ports = StorePorts::of(&Arc::new(store));
        make_letters(&ports).await.expect("letters");
        let made = read_letters(&ports).await.expect("read");
        assert_eq!(made.1, 3, "open ones");
        let client = database.client().await;
        client.batch_execute(AS_BEFORE).await.expect("as before");
        drop(ports);
        let ports = StorePorts::of(&Arc::new(database.store().await));
        assert_eq!(read_letters(&ports).await.expect("read"), made);
    });
}

#[test]
fn core_12_many_nodes_migrate_at_once() {
    on_a_runtime(async {
        let database = Bare::new().await.expect("a database");
        let url = database.url();
        let clock = Arc::new(clinch_system::SystemClock::new());
        let early = Postgres::connect(&url, Settings::default(), clock).await;
        assert_eq!(
            early.err().map(|e| e.kind()),
            Some(ErrorKind::Unsupported),
            "a store without tables"
        );
        let deaf = Settings {
            through_pgbouncer: true,
            ..Settings::default()
        };
        let clock = Arc::new(clinch_system::SystemClock::new());
        let deaf = Postgres::connect(&url, deaf, clock).await;
        assert_eq!(deaf.err().map(|e| e.kind()), Some(ErrorKind::Invalid));
        assert_eq!(pending(&url).await.expect("reads"), MIGRATIONS);
        let node = |_| {
            let url = url.clone();
            tokio::spawn(async move { migrate(&url).await.expect("migrates").len() })
        };
        let mut applied = 0;
        for node in (0..8).map(node).collect::<Vec<_>>() {
            applied += node.await.expect("no panic");
        }
        assert_eq!(applied, MIGRATIONS.len(), "each step once");
        assert_eq!(pending(&url).await.expect("reads"), []);
        let client = database.client().await;
        let newer = "INSERT INTO clinch_migration VALUES (9999, 'of tomorrow')";
        client.batch_execute(newer).await.expect("a row");
        let refused = pending(&url).await.err().map(|e| e.kind());
        assert_eq!(refused, Some(ErrorKind::Unsupported), "newer tables");
        client.batch_execute(DROP_ALL).await.expect("empty again");
    });
}

#[test]
fn out_9_a_day_without_rows_is_dropped_and_days_are_made_ahead() {
    on_a_runtime(async {
        let database = Database::with_still_clock().await.expect("a database");
        let store = database.store().await;
        let client = database.client().await;
        let days = async || {
            let text = "SELECT count(*) FROM pg_inherits \
                        WHERE inhparent = 'clinch_history'::regclass";
            let row = client.query_one(text, &[]).await.expect("reads");
            row.get::<_, i64>(0)
        };
        assert_eq!(days().await, 5, "four days and the default");
        common::advance(&client, Duration::from_secs(86_400 * 30)).await;
        let never = Duration::from_secs(86_400 * 3_650);
        let prune = Prune {
            completed: never,
            failed: never,
            keys: never,
            max: 10,
            reckoned: None,
            jump_max: std::time::Duration::MAX,
        };
        store.prune(&prune).await.expect("prunes");
        assert_eq!(days().await, 5, "the old ones went, new ones came");
    });
}
