//! A thousand transactions of a caller, half of them rolled back, on a server that is killed
//! five times: operations exist exactly for those that were committed (CORE-9, OUT-1).
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use clinch_core::policy::SplitMix;
use clinch_core::ports::Inspect;
use clinch_servers::{Kind, Server};
use common::{Database, keys, on_a_runtime, operation, routes};
use tokio_postgres::Client;

const TRANSACTIONS: usize = 1_000;
const KILLS: usize = 5;

/// One transaction of the caller's: a business row and an operation. True: its commit was
/// confirmed.
async fn one(
    store: &clinch_postgres::Postgres,
    client: &mut Client,
    number: usize,
    commits: bool,
) -> Result<bool, String> {
    let lost = |error: tokio_postgres::Error| error.to_string();
    let mut tx = client.transaction().await.map_err(lost)?;
    let row = "INSERT INTO orders VALUES ($1)";
    let id = i64::try_from(number).expect("a number");
    tx.execute(row, &[&id]).await.map_err(lost)?;
    let new = [operation("natural", number)];
    let accepted = store.accept_in(&mut tx, &new, &routes()).await;
    accepted.map_err(|error| error.to_string())?;
    match commits {
        true => tx.commit().await.map_err(lost)?,
        false => tx.rollback().await.map_err(lost)?,
    }
    Ok(commits)
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
        let mut confirmed = Vec::new();
        for number in 0..TRANSACTIONS {
            let commits = rng.next_u64() % 2 == 0;
            if number % (TRANSACTIONS / KILLS) == TRANSACTIONS / KILLS / 2 {
                // In the middle of a transaction, as a power cut would.
                let tx = client.transaction().await.expect("begins");
                let row = "INSERT INTO orders VALUES (-1)";
                tx.execute(row, &[]).await.expect("a row");
                server.kill();
                assert!(tx.commit().await.is_err(), "a dead server commits nothing");
                // Its children may need a moment to see that it is gone.
                let is_up = (0..200).any(|_| server.restart().is_ok());
                assert!(is_up, "it does not start again");
                client = database.client().await;
                store = database.store().await;
            }
            let done = one(&store, &mut client, number, commits).await;
            if done.expect("the server is up") {
                confirmed.push(number);
            }
        }
        for number in 0..TRANSACTIONS {
            let found = store.find(&[keys("natural", number)]).await.expect("reads");
            let row = "SELECT count(*) FROM orders WHERE number = $1";
            let id = i64::try_from(number).expect("a number");
            let rows: i64 = client.query_one(row, &[&id]).await.expect("reads").get(0);
            let is_confirmed = confirmed.binary_search(&number).is_ok();
            assert_eq!(found[0].is_some(), is_confirmed, "operation {number}");
            assert_eq!(rows == 1, is_confirmed, "business row {number}");
        }
        assert!(confirmed.len() > TRANSACTIONS / 3, "too few to tell");
    });
}
