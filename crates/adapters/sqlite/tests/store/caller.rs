//! Operations accepted in the caller's own transaction (CORE-9, OUT-7).

use clinch_core::ErrorKind;
use clinch_core::ports::{Accepted, Bus, Dequeue, Inspect, Topic};
use rusqlite::TransactionBehavior;

use crate::common::{Folder, on_a_runtime, open, operation, routes, worker};

fn business(sqlite: &clinch_sqlite::Sqlite) -> rusqlite::Connection {
    let conn = sqlite.connect().expect("a connection");
    let table = "CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY) STRICT";
    conn.execute_batch(table).expect("a table of our own");
    conn
}

fn orders(conn: &rusqlite::Connection) -> i64 {
    let count = "SELECT count(*) FROM orders";
    conn.query_row(count, [], |row| row.get(0))
        .expect("a count")
}

#[test]
fn core_9_business_row_and_operation_commit_together_or_not_at_all() {
    let folder = Folder::new("caller");
    on_a_runtime(async {
        let sqlite = open(&folder);
        let mut conn = business(&sqlite);
        for (number, commits) in [(1, true), (2, false)] {
            let new = [operation("natural", number)];
            let immediate = TransactionBehavior::Immediate;
            let mut tx = conn.transaction_with_behavior(immediate).expect("begins");
            tx.execute("INSERT INTO orders VALUES (?1)", [number as i64])
                .expect("a business row");
            let accepted = sqlite.accept_in(&mut tx, &new, &routes());
            let (accepted, wake_up) = accepted.expect("accepted");
            assert!(matches!(accepted[..], [Accepted::New { .. }]));
            if commits {
                tx.commit().expect("commits");
                wake_up.wake();
            } else {
                drop(tx);
            }
            let found = sqlite.find(&[new[0].keys.clone()]).await.expect("reads");
            assert_eq!(found[0].is_some(), commits);
        }
        assert_eq!(orders(&conn), 1);
    });
}

#[test]
fn core_9_a_refused_operation_leaves_the_transaction_as_it_was() {
    let folder = Folder::new("caller");
    on_a_runtime(async {
        let sqlite = open(&folder);
        let mut conn = business(&sqlite);
        let immediate = TransactionBehavior::Immediate;
        let mut tx = conn.transaction_with_behavior(immediate).expect("begins");
        tx.execute("INSERT INTO orders VALUES (1)", [])
            .expect("a row");
        let (good, mut bad) = (operation("natural", 1), operation("natural", 2));
        bad.op_id = good.op_id;
        let refused = sqlite.accept_in(&mut tx, &[good.clone(), bad], &routes());
        assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::Invalid));
        tx.commit().expect("the caller's own row commits");
        let found = sqlite.find(&[good.keys]).await.expect("reads");
        assert_eq!(found, [None]);
        assert_eq!(orders(&conn), 1);
    });
}

#[test]
fn out_7_a_worker_that_waits_is_woken_after_the_callers_commit() {
    let folder = Folder::new("caller");
    on_a_runtime(async {
        let sqlite = open(&folder);
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
        let waiter = sqlite.clone();
        let delivered = tokio::spawn(async move { waiter.dequeue(&waiting).await });
        let new = operation("natural", 1);
        let caller = sqlite.clone();
        let offered = new.clone();
        let commit = move || {
            let mut conn = caller.connect().expect("a connection");
            let _turn = caller.turn().expect("our turn");
            let mut tx = conn.transaction().expect("begins");
            let (_, wake_up) = caller
                .accept_in(&mut tx, &[offered], &routes())
                .expect("accepted");
            tx.commit().expect("commits");
            wake_up.wake();
        };
        tokio::task::spawn_blocking(commit).await.expect("no panic");
        let delivered = delivered.await.expect("no panic").expect("deliveries");
        let ops: Vec<_> = delivered
            .iter()
            .map(|delivery| delivery.hint.op_id)
            .collect();
        assert_eq!(ops, [new.op_id]);
    });
}

#[test]
fn a_transaction_on_another_file_is_refused() {
    let (folder, other) = (Folder::new("caller"), Folder::new("caller"));
    on_a_runtime(async {
        let (sqlite, elsewhere) = (open(&folder), open(&other));
        let mut conn = elsewhere.connect().expect("a connection");
        let mut tx = conn.transaction().expect("begins");
        let refused = sqlite.accept_in(&mut tx, &[operation("natural", 1)], &routes());
        assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::Invalid));
    });
}
