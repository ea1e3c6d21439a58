//! A thousand transactions of callers, half of them rolled back, on a server that is killed five
//! times: operations exist exactly for the transactions that committed (OUT-1, OUT-8).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clinch_core::policy::SplitMix;
use clinch_core::ports::Inspect;
use clinch_mysql::Mysql;
use clinch_testbed::{Kind, Server};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, TxOpts};

use crate::common::{Database, keys, on_a_runtime, operation, routes};

const TRANSACTIONS: usize = 1_000;
const CALLERS: usize = 4;
const KILLS: usize = 5;

/// The caller's knowledge about its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Committed,
    /// The answer of the commit was lost.
    Unclear,
    RolledBack,
}

async fn one(
    store: &Mysql,
    conn: &mut Conn,
    number: usize,
    commits: bool,
) -> Result<End, mysql_async::Error> {
    let mut tx = conn.start_transaction(TxOpts::default()).await?;
    tx.exec_drop("INSERT INTO orders VALUES (?)", (number,))
        .await?;
    let new = [operation("natural", number)];
    let accepted = store.accept_in(&mut tx, &new, &routes()).await;
    let Ok((_, wake_up)) = accepted else {
        // The connection is lost, and with it the transaction.
        return Ok(End::RolledBack);
    };
    if !commits {
        tx.rollback().await?;
        return Ok(End::RolledBack);
    }
    Ok(match tx.commit().await {
        Ok(()) => {
            wake_up.wake();
            End::Committed
        }
        Err(_) => End::Unclear,
    })
}

/// A caller's share of the numbers; a transaction that loses its connection is not retried.
async fn caller(
    store: Mysql,
    url: String,
    share: Vec<(usize, bool)>,
    done: Arc<AtomicUsize>,
) -> Vec<(usize, End)> {
    let mut ends = Vec::new();
    let mut conn = None;
    for (number, commits) in share {
        let mut open = match conn.take() {
            Some(open) => open,
            None => loop {
                // The server may be down: it is being restarted.
                match Conn::from_url(&url).await {
                    Ok(open) => break open,
                    Err(_) => tokio::task::yield_now().await,
                }
            },
        };
        let end = one(&store, &mut open, number, commits).await;
        let is_whole =
            matches!(end, Ok(End::Committed)) || (matches!(end, Ok(End::RolledBack)) && !commits);
        conn = is_whole.then_some(open);
        // A transaction that failed before its commit was sent was rolled back.
        ends.push((number, end.unwrap_or(End::RolledBack)));
        done.fetch_add(1, Ordering::SeqCst);
    }
    ends
}

fn out_1_operations_exist_exactly_for_committed_transactions() {
    let mut server = Server::start(Kind::MariaDb).expect("a server of our own");
    let seed = std::env::var("CLINCH_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(7);
    println!("seed {seed}");
    on_a_runtime(async {
        let database = Database::on(&server.url()).await;
        let store = database.open().await;
        let mut conn = database.conn().await;
        let table = "CREATE TABLE orders (number INT PRIMARY KEY) ENGINE = InnoDB";
        conn.query_drop(table).await.expect("a table of our own");
        let mut rng = SplitMix::new(seed);
        let plan: Vec<(usize, bool)> = (0..TRANSACTIONS)
            .map(|number| (number, rng.next_u64().is_multiple_of(2)))
            .collect();
        let done = Arc::new(AtomicUsize::new(0));
        let callers: Vec<_> = (0..CALLERS)
            .map(|at| {
                let share = plan.iter().skip(at).step_by(CALLERS).copied().collect();
                let url = database.url.clone();
                tokio::spawn(caller(store.clone(), url, share, done.clone()))
            })
            .collect();
        for kill in 1..=KILLS {
            let until = kill * TRANSACTIONS / (KILLS + 1);
            while done.load(Ordering::SeqCst) < until {
                tokio::task::yield_now().await;
            }
            server.kill();
            server.restart().expect("it starts again");
        }
        let mut ends = Vec::new();
        for caller in callers {
            ends.extend(caller.await.expect("no panic"));
        }
        check(&store, &database, &ends).await;
    });
}

async fn check(store: &Mysql, database: &Database, ends: &[(usize, End)]) {
    let mut conn = database.conn().await;
    let rows: Vec<usize> = conn
        .query("SELECT number FROM orders")
        .await
        .expect("reads");
    let business: BTreeSet<usize> = rows.into_iter().collect();
    let count = |end: End| ends.iter().filter(|(_, one)| *one == end).count();
    let (committed, unclear) = (count(End::Committed), count(End::Unclear));
    println!(
        "committed {committed}, unclear {unclear}, orders {}",
        business.len()
    );
    assert_eq!(ends.len(), TRANSACTIONS);
    assert!(committed > 0, "some committed");
    for (number, end) in ends {
        let found = store.find(&[keys("natural", *number)]).await;
        let is_there = found.expect("reads")[0].is_some();
        assert_eq!(
            is_there,
            business.contains(number),
            "{number}: one without the other"
        );
        match end {
            End::Committed => assert!(is_there, "{number} was committed and is lost"),
            End::RolledBack => assert!(!is_there, "{number} was rolled back and is there"),
            // Operation and business row exist both, or neither does.
            End::Unclear => {}
        }
    }
    let queued: Option<usize> = conn
        .query_first("SELECT COUNT(*) FROM clinch_queue")
        .await
        .expect("reads");
    assert_eq!(queued, Some(business.len()), "a queue row each");
    let counted: Option<usize> = conn
        .query_first("SELECT SUM(pending) FROM clinch_count")
        .await
        .expect("reads");
    assert_eq!(counted, Some(business.len()), "counters equal the rows");
}

clinch_contract::tests! {
    out_1_operations_exist_exactly_for_committed_transactions,
}
