//! Migrations of the tables: numbered files, each applied once, by one process at a time. These
//! servers commit each CREATE or ALTER by itself, so every statement can be run twice: an
//! interrupted migration is simply run again.

use clinch_core::{Error, ErrorKind, Result};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::{Settings, connect, error};

/// One migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its number. Migrations are applied in this order.
    pub version: u32,
    /// What it adds.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

/// All migrations.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "tables",
        sql: include_str!("../sql/migrations/0001.sql"),
    },
    Migration {
        version: 2,
        name: "procedure",
        sql: include_str!("../sql/migrations/0002.sql"),
    },
    Migration {
        version: 3,
        name: "records and documents of an application",
        sql: include_str!("../sql/migrations/0003.sql"),
    },
    Migration {
        version: 4,
        name: "API keys and batches of some domains",
        sql: include_str!("../sql/migrations/0004.sql"),
    },
    Migration {
        version: 5,
        name: "deadlines that count from run_at",
        sql: include_str!("../sql/migrations/0005.sql"),
    },
    Migration {
        version: 6,
        name: "the time that the store has seen",
        sql: include_str!("../sql/migrations/0006.sql"),
    },
    Migration {
        version: 7,
        name: "costs that do not grow",
        sql: include_str!("../sql/migrations/0007.sql"),
    },
    Migration {
        version: 8,
        name: "processes that are alive",
        sql: include_str!("../sql/migrations/0008.sql"),
    },
    Migration {
        version: 9,
        name: "who paused a domain, when and why",
        sql: include_str!("../sql/migrations/0009.sql"),
    },
    Migration {
        version: 10,
        name: "dead letters with a status",
        sql: include_str!("../sql/migrations/0010.sql"),
    },
    Migration {
        version: 11,
        name: "lists of the documents of a resource",
        sql: include_str!("../sql/migrations/0011.sql"),
    },
];

/// Seconds that a node waits for another node that applies migrations.
const LOCK_WAIT_S: u32 = 600;

async fn run(conn: &mut Conn, sql: &str) -> Result<()> {
    let done = conn.query_drop(sql).await;
    done.map_err(|failed| error::sql(&failed))
}

async fn one<T: mysql_async::prelude::FromValue + Send + 'static>(
    conn: &mut Conn,
    sql: &str,
) -> Result<Option<T>> {
    let first = conn.query_first(sql).await;
    first.map_err(|failed| error::sql(&failed))
}

/// The last migration that was applied completely.
async fn applied(conn: &mut Conn) -> Result<u32> {
    let there = "SELECT COUNT(*) FROM information_schema.tables \
                 WHERE table_schema = DATABASE() AND table_name = 'clinch_migration'";
    if one::<u32>(conn, there).await? == Some(0) {
        return Ok(0);
    }
    let last = "SELECT COALESCE(MAX(version), 0) FROM clinch_migration";
    let version = one::<u32>(conn, last).await?.unwrap_or(0);
    let newest = MIGRATIONS.last().map_or(0, |last| last.version);
    if version > newest {
        let message = "the tables are of a newer release; run that release";
        return Err(Error::new(ErrorKind::Unsupported, message).with("version", version));
    }
    Ok(version)
}

/// Checks that the tables are those of this release.
pub(crate) async fn check(conn: &mut Conn) -> Result<()> {
    let version = applied(conn).await?;
    match MIGRATIONS.iter().any(|step| step.version > version) {
        true => {
            let message = "the tables are missing or of an older release; run `clinch migrate`";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        false => Ok(()),
    }
}

/// Migrations that are not applied yet.
pub async fn pending(url: &str) -> Result<Vec<Migration>> {
    let (mut conn, _) =
        connect::connect_one(&connect::parse(url)?, Settings::default().timeout).await?;
    let version = applied(&mut conn).await?;
    let pending = MIGRATIONS.iter().filter(|step| step.version > version);
    Ok(pending.copied().collect())
}

/// Applies the pending migrations and returns them. Many nodes may call this at once.
pub async fn migrate(url: &str) -> Result<Vec<Migration>> {
    let (mut conn, _) =
        connect::connect_one(&connect::parse(url)?, Settings::default().timeout).await?;
    let lock =
        format!("SELECT GET_LOCK(CONCAT('clinch:', LEFT(MD5(DATABASE()), 32)), {LOCK_WAIT_S})");
    if one::<Option<u32>>(&mut conn, &lock).await?.flatten() != Some(1) {
        let message = "another node is applying migrations and does not finish; check that node";
        return Err(Error::new(ErrorKind::Unavailable, message));
    }
    // Closing the connection releases the lock.
    let applied = apply(&mut conn).await;
    let _ = conn.disconnect().await;
    applied
}

async fn apply(conn: &mut Conn) -> Result<Vec<Migration>> {
    let version = applied(conn).await?;
    run(
        conn,
        "CREATE TABLE IF NOT EXISTS clinch_migration (version INT UNSIGNED NOT NULL PRIMARY KEY, \
         name VARBINARY(64) NOT NULL, applied_at DATETIME(6) NOT NULL) ENGINE = InnoDB",
    )
    .await?;
    let pending = MIGRATIONS.iter().filter(|step| step.version > version);
    let steps: Vec<Migration> = pending.copied().collect();
    for step in &steps {
        let Migration { version, name, sql } = step;
        let done = run(conn, sql).await;
        done.map_err(|error| error.with("migration", version))?;
        let end =
            format!("INSERT INTO clinch_migration VALUES ({version}, '{name}', UTC_TIMESTAMP(6))");
        run(conn, &end).await?;
    }
    Ok(steps)
}
