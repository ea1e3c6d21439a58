//! The best that the machine can do.

use std::path::Path;
use std::time::{Duration, Instant};

use clinch_bench::Report;
use clinch_core::{Error, ErrorKind, Result};
use rusqlite::Connection;

const SPAN: Duration = Duration::from_secs(2);

pub(crate) fn measure(folder: &Path, report: &mut Report) -> Result<()> {
    let syncs = clinch_bench::limits::syncs(folder, SPAN).map_err(failed)?;
    report.add("fdatasync of 4 KiB", syncs, "/s");
    let single = rows(folder, 1).map_err(failed)?;
    report.add("raw SQLite, 1 row a commit", single, "rows/s");
    let bulk = rows(folder, 1_000).map_err(failed)?;
    report.add("raw SQLite, 1,000 rows a commit", bulk, "rows/s");
    Ok(())
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Internal, "a limit cannot be measured").caused_by(error)
}

fn rows(folder: &Path, each: usize) -> rusqlite::Result<f64> {
    let path = folder.join(format!("rows-{each}.db"));
    let conn = Connection::open(&path)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB) STRICT")?;
    let mut insert = conn.prepare("INSERT INTO t (body) VALUES (?1)")?;
    let body = [7_u8; 100];
    let from = Instant::now();
    let mut count = 0;
    while from.elapsed() < SPAN {
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for _ in 0..each {
            insert.execute([body])?;
        }
        conn.execute_batch("COMMIT")?;
        count += each;
    }
    Ok(count as f64 / from.elapsed().as_secs_f64())
}
