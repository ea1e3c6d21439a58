//! PostgreSQL under load: a private server that syncs every commit.
//!
//! The benchmark measures what a user sees, through the engine: accepts with 1, 16 and 64 callers
//! that each wait for their own commit, accepts in bulk, the drain of a backlog with results
//! written ahead and finalized, the time from submit to settled, the drain by 1 to 8 worker
//! processes, and the latency from one process to another. In the same run `pgbench` measures plain
//! inserts on the same server. `--snapshot` and `--events-per-second N` measure only that.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use clinch_bench::database::{self, Database, failed};
use clinch_bench::{Bounds, Report};
use clinch_core::Result;
use clinch_core::ports::Clock;
use clinch_postgres::{Postgres, Settings};
use clinch_testbed::{Kind, Server};
use tokio_postgres::{Client, NoTls};

/// One row per transaction, as small as those of the store.
const ONE_ROW: &str = "INSERT INTO plain (body) VALUES (repeat('x', 100))";
/// A thousand rows per transaction.
const THOUSAND: &str =
    "INSERT INTO plain (body) SELECT repeat('x', 100) FROM generate_series(1, 1000)";

struct Bench;

#[async_trait]
impl Database for Bench {
    type Store = Postgres;
    type Snapshot = Client;
    const NAME: &'static str = "postgres";
    const KIND: Kind = Kind::Postgres;
    const BOUNDS: &'static [Bounds] = &[
        ("accept, 16 callers", 10_000.0, 20_000.0),
        ("accept in bulk, 4 callers", 60_000.0, 100_000.0),
        ("drain", 25_000.0, 45_000.0),
        ("inline p50", 4.0, 2.0),
        ("queued p50", 4.0, 2.0),
    ];

    async fn prepare(server: &str) -> Result<String> {
        clinch_postgres::migrate(server).await?;
        Ok(server.to_owned())
    }

    async fn connect(url: &str, clock: Arc<dyn Clock>) -> Result<Postgres> {
        Postgres::connect(url, Settings::default(), clock).await
    }

    async fn limits(server: &Server, report: &mut Report) -> Result<()> {
        let client = client(&server.url()).await?;
        let table = "CREATE TABLE plain (id bigserial PRIMARY KEY, body text)";
        client.batch_execute(table).await.map_err(failed)?;
        let single = pgbench(server, ONE_ROW, 16).await?;
        report.add("pgbench, 16 clients, 1 row a commit", single, "rows/s");
        let bulk = pgbench(server, THOUSAND, 4).await? * 1_000.0;
        report.add("pgbench, 4 clients, 1,000 rows a commit", bulk, "rows/s");
        let gone = client.batch_execute("DROP TABLE plain").await;
        gone.map_err(failed)
    }

    async fn snapshot(url: &str) -> Result<Client> {
        let client = client(url).await?;
        let open = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM clinch_domain";
        client.batch_execute(open).await.map_err(failed)?;
        Ok(client)
    }
}

/// The allocator of `clinch`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    database::main::<Bench>()
}

async fn client(url: &str) -> Result<Client> {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}

/// Transactions per second, over five seconds.
async fn pgbench(server: &Server, script: &str, clients: u32) -> Result<f64> {
    let program = Kind::Postgres.program();
    let program = program.ok_or_else(|| failed("PostgreSQL is not installed"))?;
    let file = std::env::temp_dir().join(format!("clinch-pgbench-{}.sql", std::process::id()));
    std::fs::write(&file, script).map_err(failed)?;
    let output = tokio::process::Command::new(program.with_file_name("pgbench"))
        .args(["-n", "-M", "prepared", "-T", "5", "-j", "2"])
        .args(["-h", "127.0.0.1", "-U", "postgres"])
        .args(["-p", &server.port().to_string()])
        .args(["-c", &clients.to_string()])
        .arg("-f")
        .arg(&file)
        .arg("postgres")
        .output()
        .await;
    let _ = std::fs::remove_file(&file);
    let output = output.map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = rate.and_then(|rate| rate.split_whitespace().next()?.parse().ok());
    rate.ok_or_else(|| failed("pgbench gave no figure"))
}
