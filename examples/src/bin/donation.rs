//! A donation and its notification in one transaction: the row and the operation commit
//! together or not at all, so nobody is told of a donation that never was, and no donation
//! stays untold.
//!
//! ```sh
//! cargo run -p clinch-examples --bin donation                              # a SQLite file
//! cargo run -p clinch-examples --bin donation postgres://me@localhost/shop
//! cargo run -p clinch-examples --bin donation mysql://me@localhost/shop
//! cargo run -p clinch-examples --bin donation URL give 100   # one after the other, from 100 on
//! ```
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use clinch::policy::RetryRules;
use clinch::ports::{Inspect, NewOperation};
use clinch::types::Request;
use clinch::{Backend, Call, Clinch, Done, Retry, Route};
use clinch_mysql::Mysql;
use clinch_postgres::Postgres;
use clinch_sqlite::Sqlite;
use clinch_system::SystemClock;
use mysql_async::prelude::Queryable;
use rusqlite::TransactionBehavior;
use serde::{Deserialize, Serialize};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS donation (number bigint PRIMARY KEY, amount bigint NOT NULL)";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Donation {
    number: i64,
    amount: i64,
}

impl Donation {
    fn insert(&self) -> String {
        let Self { number, amount } = self;
        format!("INSERT INTO donation VALUES ({number}, {amount})")
    }
}

/// How its transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Commit,
    Rollback,
}

/// Three retries, after 30 s, 60 s and 120 s; then a dead letter.
fn route() -> Route<Donation, ()> {
    Route::new("donations", "notify")
        .keyed(Duration::from_secs(24 * 60 * 60))
        .retry(RetryRules::OUTBOX)
}

fn notification(donation: &Donation) -> Request<()> {
    route().request(format!("donation-{}", donation.number), "notify", donation)
}

/// The shop's database, which holds the operations too.
#[derive(Clone)]
enum Database {
    Sqlite(Sqlite),
    Postgres(Postgres, String),
    Mysql(Mysql, String),
}

impl Database {
    async fn open(url: &str) -> Result<Self> {
        let clock = Arc::new(SystemClock::new());
        let (scheme, rest) = url.split_once("://").unwrap_or(("sqlite", url));
        let database = match scheme {
            "sqlite" => Self::Sqlite(Sqlite::open(rest, Default::default(), clock)?),
            "postgres" => {
                clinch_postgres::migrate(url).await?;
                let store = Postgres::connect(url, Default::default(), clock).await?;
                Self::Postgres(store, url.to_owned())
            }
            "mysql" => {
                clinch_mysql::migrate(url).await?;
                let store = Mysql::connect(url, Default::default(), clock).await?;
                Self::Mysql(store, url.to_owned())
            }
            _ => return Err("name a sqlite://, postgres:// or mysql:// database".into()),
        };
        match &database {
            Self::Sqlite(store) => store.connect()?.execute_batch(TABLE)?,
            Self::Postgres(_, url) => connect(url).await?.batch_execute(TABLE).await?,
            Self::Mysql(_, url) => {
                mysql_async::Conn::from_url(url)
                    .await?
                    .query_drop(TABLE)
                    .await?
            }
        }
        Ok(database)
    }

    fn backend(&self) -> Backend {
        match self {
            Self::Sqlite(store) => Backend::new(store.clone()),
            Self::Postgres(store, _) => Backend::new(store.clone()),
            Self::Mysql(store, _) => Backend::new(store.clone()),
        }
    }

    fn inspect(&self) -> Arc<dyn Inspect> {
        self.backend().inspect()
    }

    /// The row and the operation that tells of it, in one transaction.
    async fn give(&self, clinch: &Clinch, donation: &Donation, end: End) -> Result<()> {
        let new = [clinch.prepare(notification(donation))?];
        match self {
            Self::Sqlite(store) => give_sqlite(store, clinch, donation, &new, end),
            Self::Postgres(store, url) => {
                let mut client = connect(url).await?;
                let mut tx = client.transaction().await?;
                tx.batch_execute(&donation.insert()).await?;
                store.accept_in(&mut tx, &new, clinch.routes()).await?;
                // The commit itself wakes the workers.
                match end {
                    End::Commit => Ok(tx.commit().await?),
                    End::Rollback => Ok(tx.rollback().await?),
                }
            }
            Self::Mysql(store, url) => {
                let mut conn = mysql_async::Conn::from_url(url).await?;
                let mut tx = conn.start_transaction(Default::default()).await?;
                tx.query_drop(donation.insert()).await?;
                let accepted = store.accept_in(&mut tx, &new, clinch.routes());
                let (_, wake_up) = accepted.await?;
                match end {
                    End::Commit => {
                        tx.commit().await?;
                        wake_up.wake();
                    }
                    End::Rollback => tx.rollback().await?,
                }
                Ok(())
            }
        }
    }
}

fn give_sqlite(
    store: &Sqlite,
    clinch: &Clinch,
    donation: &Donation,
    new: &[NewOperation],
    end: End,
) -> Result<()> {
    let mut conn = store.connect()?;
    let turn = store.turn()?;
    let mut tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(&donation.insert())?;
    let (_, wake_up) = store.accept_in(&mut tx, new, clinch.routes())?;
    match end {
        End::Commit => {
            tx.commit()?;
            drop(turn);
            wake_up.wake();
        }
        End::Rollback => tx.rollback()?,
    }
    Ok(())
}

async fn connect(url: &str) -> Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Tells people of donations by `notify`.
fn clinch<F>(database: &Database, notify: F) -> Result<Clinch>
where
    F: Fn(&Donation) + Send + Sync + 'static,
{
    let notify = Arc::new(notify);
    let builder = Clinch::builder().backend(database.backend());
    let builder = builder.handle(&route(), move |call: Call<Donation>| {
        let notify = notify.clone();
        async move {
            notify(&call.input);
            Ok::<_, Retry>(Done::new(()))
        }
    });
    Ok(builder.build()?)
}

/// Everything that happened to a donation's notification, a line each; nothing if there is none.
async fn path(database: &Database, donation: &Donation) -> Result<Vec<String>> {
    let keys = notification(donation).into_command()?.keys;
    let inspect = database.inspect();
    let Some(known) = inspect.find(&[keys]).await?.into_iter().next().flatten() else {
        return Ok(Vec::new());
    };
    let lines = inspect.ledger(known.op_id).await?;
    let shown = lines
        .iter()
        .map(|line| format!("{} -> {}", line.event, line.status.as_str()));
    Ok(shown.collect())
}

/// Waits for the end of a donation's notification.
async fn told(clinch: &Clinch, database: &Database, donation: &Donation) -> Result<()> {
    let keys = notification(donation).into_command()?.keys;
    let known = database.inspect().find(&[keys]).await?;
    let known = known.into_iter().next().flatten();
    let known = known.ok_or("there is no such donation")?;
    let minute = Duration::from_secs(60);
    let handle = clinch.wait(&route(), known.op_id, minute).await?;
    handle.settled().ok_or("nobody was told within a minute")?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next();
    let url = url.unwrap_or_else(|| "sqlite://donation.db".to_owned());
    let database = Database::open(&url).await?;
    let notify = |donation: &Donation| println!("told of donation {}", donation.number);
    let clinch = clinch(&database, notify)?;
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("give"), Some(from)) => give_for_ever(&clinch, &database, from.parse()?).await,
        _ => show(&clinch, &database).await,
    }
}

/// One that commits, one that does not, and the path of the first.
async fn show(clinch: &Clinch, database: &Database) -> Result<()> {
    let running = clinch.clone();
    tokio::spawn(async move { running.run().await });
    let now = database.inspect().now().await?.as_millis();
    let [kept, dropped] = [0, 1].map(|number| Donation {
        number: now + number,
        amount: 5_000,
    });
    database.give(clinch, &kept, End::Commit).await?;
    database.give(clinch, &dropped, End::Rollback).await?;
    told(clinch, database, &kept).await?;
    println!("the path of donation {}:", kept.number);
    for line in path(database, &kept).await? {
        println!("  {line}");
    }
    let count = path(database, &dropped).await?.len();
    println!(
        "rolled back, donation {} left {count} lines",
        dropped.number
    );
    clinch.stop();
    Ok(())
}

/// Every third is rolled back. Says so after each commit; ends when it is killed.
async fn give_for_ever(clinch: &Clinch, database: &Database, from: i64) -> Result<()> {
    for number in from.. {
        let end = if number % 3 == 0 {
            End::Rollback
        } else {
            End::Commit
        };
        let donation = Donation {
            number,
            amount: 100,
        };
        database.give(clinch, &donation, end).await?;
        if end == End::Commit {
            println!("given {number}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use clinch_testbed::Kind;

    use super::*;

    /// Commit: told once. Rollback: nothing. The path shows every step.
    async fn walk(url: &str) {
        let database = Database::open(url).await.expect("a database");
        let sent = Arc::new(Mutex::new(Vec::new()));
        let book = sent.clone();
        let notify = move |donation: &Donation| book.lock().expect("a book").push(donation.number);
        let clinch = clinch(&database, notify).expect("valid");
        let running = tokio::spawn({
            let clinch = clinch.clone();
            async move { clinch.run().await }
        });
        let donation = |number| Donation {
            number,
            amount: 700,
        };
        for (number, end) in [(1, End::Commit), (2, End::Rollback), (3, End::Commit)] {
            let given = database.give(&clinch, &donation(number), end).await;
            given.expect("a transaction");
        }
        for number in [1, 3] {
            let told = told(&clinch, &database, &donation(number)).await;
            told.expect("told");
        }
        // The business key is taken: the row is refused, and no operation comes of it.
        let again = database.give(&clinch, &donation(1), End::Commit).await;
        assert!(again.is_err());
        clinch.stop();
        running.await.expect("no panic");
        let mut sent = sent.lock().expect("a book").clone();
        sent.sort_unstable();
        assert_eq!(sent, [1, 3]);
        let steps = path(&database, &donation(1)).await.expect("a path");
        let expected = [
            "Accept -> PENDING",
            "Begin -> IN_PROGRESS",
            "Ok -> IN_PROGRESS",
            "Finalize -> COMPLETED",
        ];
        assert_eq!(steps, expected);
        let nothing = path(&database, &donation(2)).await.expect("a path");
        assert!(nothing.is_empty(), "{nothing:?}");
        let dropped = told(&clinch, &database, &donation(2)).await;
        assert!(dropped.is_err());
    }

    async fn walk_on(kind: Kind) {
        let url = clinch_testbed::database(kind).expect("a database of its own");
        walk(&url).await;
    }

    #[tokio::test]
    async fn out_1_a_donation_on_sqlite_is_told_once_or_never_was() {
        let name = format!("clinch-donation-{}.db", std::process::id());
        let file = std::env::temp_dir().join(name);
        walk(&format!("sqlite://{}", file.display())).await;
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", file.display()));
        }
        let _ = std::fs::remove_dir_all(format!("{}.wake", file.display()));
    }

    #[tokio::test]
    async fn out_1_a_donation_on_postgres_is_told_once_or_never_was() {
        walk_on(Kind::Postgres).await;
    }

    #[tokio::test]
    async fn out_1_a_donation_on_mariadb_is_told_once_or_never_was() {
        walk_on(Kind::MariaDb).await;
    }
}
