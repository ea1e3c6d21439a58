//! A thousand transactions of a caller, half of them rolled back, on a server that is killed
//! five times: operations exist exactly for those that were committed (CORE-9, OUT-1).

use clinch_core::policy::SplitMix;
use clinch_core::ports::Inspect;
use clinch_postgres::Postgres;
use clinch_testbed::{Kind, Server};
use tokio_postgres::{Client, Transaction};

use crate::common::{Database, keys, on_a_runtime, operation, routes};

const TRANSACTIONS: usize = 1_000;
const KILLS: usize = 5;

fn id(number: usize) -> i64 {
    i64::try_from(number).expect("a number")
}

/// A transaction of the caller's, open: a business row and an operation.
async fn open<'c>(store: &Postgres, client: &'c mut Client, number: usize) -> Transaction<'c> {
    let mut tx = client.transaction().await.expect("begins");
    let row = "INSERT INTO orders VALUES ($1)";
    tx.execute(row, &[&id(number)]).await.expect("a row");
    let new = [operation("natural", number)];
    let accepted = store.accept_in(&mut tx, &new, &routes()).await;
    accepted.expect("accepted");
    tx
}

/// Whether there is a business row, and whether there is an operation.
async fn look(store: &Postgres, client: &Client, number: usize) -> (bool, bool) {
    let found = store.find(&[keys("natural", number)]).await.expect("reads");
    let row = "SELECT count(*) FROM orders WHERE number = $1";
    let rows = client.query_one(row, &[&id(number)]).await.expect("reads");
    (rows.get::<_, i64>(0) == 1, found[0].is_some())
}

#[test]
fn core_9_operations_exist_exactly_for_committed_transactions() {
    let mut server = Server::start(Kind::Postgres).expect("a server of our own");
    on_a_runtime(async {
        let database = Database::on(server.url(), false).await.expect("a database");
        let mut client = database.client().await;
        let table = "CREATE TABLE orders (number bigint PRIMARY KEY)";
        client.batch_execute(table).await.expect("a table");
        let mut store = database.store().await;
        let mut rng = SplitMix::new(1);
        let mut committed = Vec::with_capacity(TRANSACTIONS);
        let mut kills = 0;
        for number in 0..TRANSACTIONS {
            if number % (TRANSACTIONS / KILLS) == TRANSACTIONS / KILLS / 2 {
                let tx = open(&store, &mut client, TRANSACTIONS + kills).await;
                server.kill();
                // A process of the server may outlive it by a moment and commit.
                let _ = tx.commit().await;
                let is_up = (0..200).any(|_| server.restart().is_ok());
                assert!(is_up, "it does not start again");
                client = database.client().await;
                store = database.store().await;
                kills += 1;
            }
            let commits = rng.next_u64().is_multiple_of(2);
            let tx = open(&store, &mut client, number).await;
            match commits {
                true => tx.commit().await.expect("commits"),
                false => tx.rollback().await.expect("rolls back"),
            }
            committed.push(commits);
        }
        for (number, commits) in committed.iter().enumerate() {
            let there = look(&store, &client, number).await;
            assert_eq!(there, (*commits, *commits), "transaction {number}");
        }
        assert_eq!(kills, KILLS);
        for number in TRANSACTIONS..TRANSACTIONS + KILLS {
            let (row, operation) = look(&store, &client, number).await;
            assert_eq!(row, operation, "transaction {number}, cut off by a kill");
        }
    });
}
