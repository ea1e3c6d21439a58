//! Operations accepted in the caller's own transaction (OUT-1, CORE-9).

use clinch_contract::Calls;
use clinch_core::ErrorKind;
use clinch_core::policy::{EventTypes, Order, Routes, Rules};
use clinch_core::ports::{Accepted, Bus, Dequeue, Inspect, Topic};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IsolationLevel, OptsBuilder, TxOpts};

use crate::common::{self, Database, on_a_runtime, operation, routes, worker};

async fn business(database: &Database) -> Conn {
    let mut conn = database.conn().await;
    let table = "CREATE TABLE IF NOT EXISTS orders (number INT PRIMARY KEY) ENGINE = InnoDB";
    conn.query_drop(table).await.expect("a table of our own");
    conn
}

async fn orders(conn: &mut Conn) -> i64 {
    let count = conn.query_first("SELECT COUNT(*) FROM orders").await;
    count.expect("a count").unwrap_or_default()
}

fn out_1_business_row_and_operation_commit_together_or_not_at_all() {
    let server = common::url();
    on_a_runtime(async {
        let database = Database::on(&server).await;
        let store = database.open().await;
        let mut conn = business(&database).await;
        for (number, commits) in [(1, true), (2, false)] {
            let new = [operation("natural", number)];
            let mut tx = conn
                .start_transaction(TxOpts::default())
                .await
                .expect("begins");
            tx.exec_drop("INSERT INTO orders VALUES (?)", (number,))
                .await
                .expect("a business row");
            let accepted = store.accept_in(&mut tx, &new, &routes()).await;
            let (accepted, wake_up) = accepted.expect("accepted");
            assert!(matches!(accepted[..], [Accepted::New { .. }]));
            if commits {
                tx.commit().await.expect("commits");
                wake_up.wake();
            } else {
                tx.rollback().await.expect("rolls back");
            }
            let found = store.find(&[new[0].keys.clone()]).await.expect("reads");
            assert_eq!(found[0].is_some(), commits);
        }
        assert_eq!(orders(&mut conn).await, 1);
    });
}

fn out_1_a_refused_operation_leaves_the_transaction_as_it_was() {
    let server = common::url();
    on_a_runtime(async {
        let database = Database::on(&server).await;
        let store = database.open().await;
        let mut conn = business(&database).await;
        let mut tx = conn
            .start_transaction(TxOpts::default())
            .await
            .expect("begins");
        tx.query_drop("INSERT INTO orders VALUES (1)")
            .await
            .expect("a row");
        let (good, mut bad) = (operation("natural", 1), operation("natural", 2));
        bad.op_id = good.op_id;
        let refused = store
            .accept_in(&mut tx, &[good.clone(), bad], &routes())
            .await;
        assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::Invalid));
        tx.commit().await.expect("the caller's own row commits");
        let found = store.find(&[good.keys]).await.expect("reads");
        assert_eq!(found, [None]);
        assert_eq!(orders(&mut conn).await, 1);
    });
}

/// At REPEATABLE READ the caller's snapshot does not show operations that were accepted since, but
/// the keys do.
fn core_6_an_old_snapshot_finds_known_keys() {
    let server = common::url();
    on_a_runtime(async {
        let database = Database::on(&server).await;
        let store = database.open().await;
        let url = mysql_async::Opts::from_url(&database.url).expect("an address");
        // Such connections report the number of rows that they found, not changed.
        let opts = OptsBuilder::from_opts(url).client_found_rows(true);
        let mut conn = Conn::new(opts).await.expect("a connection");
        let mut level = TxOpts::default();
        level.with_isolation_level(IsolationLevel::RepeatableRead);
        level.with_consistent_snapshot(true);
        let mut tx = conn.start_transaction(level).await.expect("begins");
        let first = operation("natural", 1);
        let accepted = store.accept(std::slice::from_ref(&first), &routes()).await;
        accepted.expect("accepted by somebody else");
        let second = operation("natural", 1);
        let replayed = store.accept_in(&mut tx, &[second], &routes()).await;
        let (replayed, _) = replayed.expect("answered");
        let is_first = |one: &Accepted| matches!(one, Accepted::Known(k) if k.op_id == first.op_id);
        assert!(
            replayed.len() == 1 && is_first(&replayed[0]),
            "{replayed:?}"
        );
        tx.commit().await.expect("commits");
    });
}

fn out_1_a_worker_that_waits_is_woken_after_the_callers_commit() {
    let server = common::url();
    on_a_runtime(async {
        let database = Database::on(&server).await;
        let settings = clinch_mysql::Settings {
            // Polling is far too rare to find the work.
            fallback_poll: std::time::Duration::from_secs(3_600),
            ..Default::default()
        };
        let store = database.open_with(settings).await;
        let waiting = Dequeue {
            topics: vec![Topic::of(&operation("natural", 0).keys.domain)],
            max: 9,
            wait: std::time::Duration::from_secs(3_600),
            visibility: std::time::Duration::from_secs(30),
            worker: worker("waits"),
            attempts: vec![clinch_core::AttemptId(uuid::Uuid::from_u128(1))],
            routes: std::sync::Arc::new(routes()),
            only: std::sync::Arc::new(routes()),
        };
        let waiter = store.clone();
        let delivered = tokio::spawn(async move { waiter.dequeue(&waiting).await });
        let new = operation("natural", 1);
        let mut conn = database.conn().await;
        let mut tx = conn
            .start_transaction(TxOpts::default())
            .await
            .expect("begins");
        let by = routes();
        let accepted = store.accept_in(&mut tx, std::slice::from_ref(&new), &by);
        let (_, wake_up) = accepted.await.expect("accepted");
        tx.commit().await.expect("commits");
        wake_up.wake();
        let delivered = delivered.await.expect("no panic").expect("deliveries");
        let ops: Vec<_> = delivered.iter().map(|one| one.hint.op_id).collect();
        assert_eq!(ops, [new.op_id]);
    });
}

/// A caller that has drawn the smaller seq of a lane and commits late keeps the others waiting.
fn core_11_a_late_commit_is_not_overtaken_in_its_lane() {
    let server = common::url();
    on_a_runtime(async {
        let database = Database::on(&server).await;
        let store = database.open().await;
        let keys = common::keys("ordered", 1);
        let ordered = Rules {
            order: Order::Key,
            ..Rules::default()
        };
        let routes = Routes::new().with(keys.domain.clone(), EventTypes::Any, ordered);
        let of_key = |idem: &str| {
            let mut keys = keys.clone();
            keys.idem_key = clinch_core::IdemKey::new(idem).expect("valid");
            common::operation_of(keys, &common::payload("1"))
        };
        let (first, second) = (of_key("first"), of_key("second"));
        let mut conn = database.conn().await;
        let mut tx = conn
            .start_transaction(TxOpts::default())
            .await
            .expect("begins");
        let accepted = store.accept_in(&mut tx, std::slice::from_ref(&first), &routes);
        let (_, wake_up) = accepted.await.expect("accepted");
        let (other, by) = (store.clone(), routes.clone());
        let late = second.clone();
        let waiting = tokio::spawn(async move { other.accept(&[late], &by).await });
        // It waits for the lane in the server; nothing of it can be seen before.
        let mut watch = database.conn().await;
        common::until_somebody_waits(&mut watch).await;
        tx.commit().await.expect("commits");
        wake_up.wake();
        waiting.await.expect("no panic").expect("accepted");
        let rows = store
            .get(&[first.op_id, second.op_id])
            .await
            .expect("reads");
        let seqs: Vec<u64> = rows.iter().flatten().map(|row| row.seq).collect();
        assert!(seqs[0] < seqs[1], "{seqs:?}");
        let line = "SELECT line FROM clinch_queue ORDER BY seq";
        let line: Vec<u8> = watch.query(line).await.expect("reads");
        assert_eq!(line, [1, 0], "only the first is in line");
    });
}

fn a_transaction_on_another_database_is_refused() {
    let server = common::url();
    on_a_runtime(async {
        let (database, other) = (Database::on(&server).await, Database::on(&server).await);
        let store = database.open().await;
        let mut conn = other.conn().await;
        let mut tx = conn
            .start_transaction(TxOpts::default())
            .await
            .expect("begins");
        let refused = store
            .accept_in(&mut tx, &[operation("natural", 1)], &routes())
            .await;
        assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::Invalid));
        tx.rollback().await.expect("ends");
    });
}

clinch_contract::tests! {
    out_1_business_row_and_operation_commit_together_or_not_at_all,
    out_1_a_refused_operation_leaves_the_transaction_as_it_was,
    core_6_an_old_snapshot_finds_known_keys,
    out_1_a_worker_that_waits_is_woken_after_the_callers_commit,
    core_11_a_late_commit_is_not_overtaken_in_its_lane,
    a_transaction_on_another_database_is_refused,
}
