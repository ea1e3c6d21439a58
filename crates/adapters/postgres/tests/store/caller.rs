//! Operations accepted in the caller's own transaction (CORE-9, OUT-7).

use std::sync::Arc;

use clinch_core::ports::{Accepted, Bus, Dequeue, Inspect, NewOperation, Topic};
use clinch_core::{AttemptId, ErrorKind, OpId};
use clinch_postgres::Postgres;
use tokio_postgres::Client;

use crate::common::{Database, NEVER, on_a_runtime, operation, routes, worker};

async fn business(database: &Database) -> Client {
    let client = database.client().await;
    let table = "CREATE TEMP TABLE orders (number bigint PRIMARY KEY)";
    client
        .batch_execute(table)
        .await
        .expect("a table of our own");
    client
}

async fn orders(client: &Client) -> i64 {
    let row = client.query_one("SELECT count(*) FROM orders", &[]).await;
    row.expect("a count").get(0)
}

/// What a worker that waits gets.
fn waiting(store: &Postgres) -> tokio::task::JoinHandle<Vec<OpId>> {
    let asked = Dequeue {
        topics: vec![Topic::of(&operation("natural", 0).keys.domain)],
        max: 1,
        wait: NEVER,
        visibility: std::time::Duration::from_secs(30),
        worker: worker("waits"),
        attempts: vec![AttemptId(uuid::Uuid::from_u128(1))],
        routes: Arc::new(routes()),
        only: Arc::new(routes()),
    };
    let store = store.clone();
    tokio::spawn(async move {
        let taken = store.dequeue(&asked).await.expect("deliveries");
        taken.iter().map(|delivery| delivery.hint.op_id).collect()
    })
}

#[test]
fn out_1_core_9_business_row_and_operation_commit_together_or_not_at_all() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let store = database.store().await;
        let mut client = business(&database).await;
        for (number, commits) in [(1, true), (2, false)] {
            let new = [operation("natural", number)];
            let mut tx = client.transaction().await.expect("begins");
            let row = "INSERT INTO orders VALUES ($1)";
            let number = i64::try_from(number).expect("a number");
            tx.execute(row, &[&number]).await.expect("a business row");
            let accepted = store.accept_in(&mut tx, &new, &routes()).await;
            assert!(matches!(
                accepted.expect("accepted")[..],
                [Accepted::New { .. }]
            ));
            match commits {
                true => tx.commit().await.expect("commits"),
                false => tx.rollback().await.expect("rolls back"),
            }
            let found = store.find(&[new[0].keys.clone()]).await.expect("reads");
            assert_eq!(found[0].is_some(), commits);
        }
        assert_eq!(orders(&client).await, 1);
    });
}

#[test]
fn core_9_a_refused_operation_leaves_the_transaction_as_it_was() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let store = database.store().await;
        let mut client = business(&database).await;
        let mut tx = client.transaction().await.expect("begins");
        tx.execute("INSERT INTO orders VALUES (1)", &[])
            .await
            .expect("a row");
        let (good, mut bad) = (operation("natural", 1), operation("natural", 2));
        bad.op_id = good.op_id;
        let both: [NewOperation; 2] = [good.clone(), bad];
        let refused = store.accept_in(&mut tx, &both, &routes()).await;
        assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::Invalid));
        tx.commit().await.expect("the caller's own row commits");
        assert_eq!(store.find(&[good.keys]).await.expect("reads"), [None]);
        assert_eq!(orders(&client).await, 1);
    });
}

#[test]
fn out_7_the_callers_commit_wakes_workers_in_every_process() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        // Two stores are as two processes: they share nothing but the database.
        let (ours, theirs) = (database.store().await, database.store().await);
        for (number, store) in [(1, &ours), (2, &theirs)] {
            let delivered = waiting(store);
            let new = operation("natural", number);
            let mut client = database.client().await;
            let mut tx = client.transaction().await.expect("begins");
            let offered = std::slice::from_ref(&new);
            let accepted = ours.accept_in(&mut tx, offered, &routes()).await;
            accepted.expect("accepted");
            tx.commit().await.expect("commits");
            assert_eq!(delivered.await.expect("no panic"), [new.op_id]);
        }
    });
}

#[test]
fn core_9_an_accept_leaves_the_commit_of_its_caller_as_durable_as_it_was() {
    on_a_runtime(async {
        let database = Database::new().await.expect("a database");
        let store = database.store().await;
        let mut client = business(&database).await;
        let mut tx = client.transaction().await.expect("begins");
        let new = [operation("natural", 1)];
        let accepted = store.accept_in(&mut tx, &new, &routes()).await;
        accepted.expect("accepted");
        let waits = tx.query_one("SHOW synchronous_commit", &[]).await;
        assert_eq!(waits.expect("a setting").get::<_, &str>(0), "on");
        tx.commit().await.expect("commits");
    });
}
