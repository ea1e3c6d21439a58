//! MariaDB under load: a private server that syncs every commit.
//!
//! The measures are those of `postgres`. Plain inserts on the same server are measured by a loop on
//! many connections.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clinch_bench::database::{self, Database, failed};
use clinch_bench::{Bounds, Report};
use clinch_core::Result;
use clinch_core::ports::Clock;
use clinch_mysql::{Mysql, Settings};
use clinch_testbed::{Kind, Server};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};

const SPAN: Duration = Duration::from_secs(5);

struct Bench;

#[async_trait]
impl Database for Bench {
    type Store = Mysql;
    type Snapshot = Conn;
    const NAME: &'static str = "mysql";
    const KIND: Kind = Kind::MariaDb;
    const BOUNDS: &'static [Bounds] = &[];

    async fn prepare(server: &str) -> Result<String> {
        let mut conn = connect(server).await?;
        let made = conn.query_drop("CREATE DATABASE bench").await;
        made.map_err(failed)?;
        let (host, _) = server.rsplit_once('/').ok_or_else(|| failed("no host"))?;
        let url = format!("{host}/bench");
        clinch_mysql::migrate(&url).await?;
        Ok(url)
    }

    async fn connect(url: &str, clock: Arc<dyn Clock>) -> Result<Mysql> {
        Mysql::connect(url, Settings::default(), clock).await
    }

    async fn limits(server: &Server, report: &mut Report) -> Result<()> {
        let mut conn = connect(&server.url()).await?;
        for text in [
            "CREATE DATABASE plain",
            "CREATE TABLE plain.plain (id BIGINT AUTO_INCREMENT PRIMARY KEY, body VARBINARY(200))",
        ] {
            conn.query_drop(text).await.map_err(failed)?;
        }
        let single = inserts(&server.url(), 16, 1).await?;
        report.add(
            "plain inserts, 16 clients, 1 row a commit",
            single,
            "rows/s",
        );
        let bulk = inserts(&server.url(), 4, 1_000).await?;
        report.add(
            "plain inserts, 4 clients, 1,000 rows a commit",
            bulk,
            "rows/s",
        );
        let gone = conn.query_drop("DROP DATABASE plain").await;
        gone.map_err(failed)
    }

    async fn snapshot(url: &str) -> Result<Conn> {
        let mut conn = connect(url).await?;
        for text in [
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        ] {
            conn.query_drop(text).await.map_err(failed)?;
        }
        Ok(conn)
    }
}

/// The allocator of `clinch`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    database::main::<Bench>()
}

async fn connect(url: &str) -> Result<Conn> {
    let opts = Opts::from_url(url).map_err(failed)?;
    Conn::new(opts).await.map_err(failed)
}

/// Rows per second, with this number of rows per statement.
async fn inserts(url: &str, clients: usize, rows: usize) -> Result<f64> {
    let values = vec!["(REPEAT('x', 100))"; rows].join(", ");
    let text: Arc<str> = format!("INSERT INTO plain.plain (body) VALUES {values}").into();
    let mut conns = Vec::with_capacity(clients);
    for _ in 0..clients {
        conns.push(connect(url).await?);
    }
    let from = Instant::now();
    let client = |mut conn: Conn| {
        let text = text.clone();
        tokio::spawn(async move {
            let mut count = 0;
            while from.elapsed() < SPAN {
                conn.query_drop(&*text).await.map_err(failed)?;
                count += rows;
            }
            Ok::<usize, clinch_core::Error>(count)
        })
    };
    let clients: Vec<_> = conns.into_iter().map(client).collect();
    let mut count = 0;
    for client in clients {
        count += client.await.map_err(failed)??;
    }
    Ok(count as f64 / from.elapsed().as_secs_f64())
}
