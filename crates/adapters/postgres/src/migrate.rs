//! Bringing the tables up to date: numbered files, each applied once, by one process at a
//! time.

use clinch_core::{Error, ErrorKind, Result};
use tokio_postgres::types::{ToSql, Type};

use crate::connect::{self, Address, Object};
use crate::error;
use crate::settings::Settings;

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its number; they are applied in this order.
    pub version: i32,
    /// What it does.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

/// Every step there is.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "tables",
        sql: include_str!("../sql/migrations/0001.sql"),
    },
    Migration {
        version: 2,
        name: "accepting by SQL",
        sql: include_str!("../sql/migrations/0002.sql"),
    },
    Migration {
        version: 3,
        name: "budgets with providers",
        sql: include_str!("../sql/migrations/0003.sql"),
    },
    Migration {
        version: 4,
        name: "a limit of payloads by SQL",
        sql: include_str!("../sql/migrations/0004.sql"),
    },
    Migration {
        version: 5,
        name: "records and documents of an application",
        sql: include_str!("../sql/migrations/0005.sql"),
    },
    Migration {
        version: 6,
        name: "rates and pauses of destinations",
        sql: include_str!("../sql/migrations/0006.sql"),
    },
    Migration {
        version: 7,
        name: "API keys and batches of some domains",
        sql: include_str!("../sql/migrations/0007.sql"),
    },
    Migration {
        version: 8,
        name: "deadlines that count from run_at",
        sql: include_str!("../sql/migrations/0008.sql"),
    },
    Migration {
        version: 9,
        name: "the time that the store has seen",
        sql: include_str!("../sql/migrations/0009.sql"),
    },
    Migration {
        version: 10,
        name: "commits in one round trip",
        sql: include_str!("../sql/migrations/0010.sql"),
    },
    Migration {
        version: 11,
        name: "costs that do not grow",
        sql: include_str!("../sql/migrations/0011.sql"),
    },
    Migration {
        version: 12,
        name: "processes that are alive",
        sql: include_str!("../sql/migrations/0012.sql"),
    },
    Migration {
        version: 13,
        name: "who paused a domain, when and why",
        sql: include_str!("../sql/migrations/0013.sql"),
    },
    Migration {
        version: 14,
        name: "dead letters with a status",
        sql: include_str!("../sql/migrations/0014.sql"),
    },
    Migration {
        version: 15,
        name: "lists of the documents of a resource",
        sql: include_str!("../sql/migrations/0015.sql"),
    },
];

/// Held while steps are applied, so that many nodes can start at once.
const LOCK: i64 = 0x636c_696e_6368;

async fn applied(client: &Object) -> Result<i32> {
    let there = "SELECT to_regclass('clinch_migration') IS NOT NULL";
    let row = client
        .query_typed_one(there, &[])
        .await
        .map_err(error::sql)?;
    if !row.get::<_, bool>(0) {
        return Ok(0);
    }
    let last = "SELECT coalesce(max(version), 0) FROM clinch_migration";
    let row = client
        .query_typed_one(last, &[])
        .await
        .map_err(error::sql)?;
    Ok(row.get(0))
}

fn newer(version: i32) -> Option<Error> {
    let newest = MIGRATIONS.last().map_or(0, |last| last.version);
    (version > newest).then(|| {
        let message = "the tables are of a newer release; run that one";
        Error::new(ErrorKind::Unsupported, message).with("version", version)
    })
}

/// The tables are those of this release.
pub(crate) async fn check(client: &Object) -> Result<()> {
    let version = applied(client).await?;
    if let Some(error) = newer(version) {
        return Err(error);
    }
    match MIGRATIONS.iter().any(|step| step.version > version) {
        true => {
            let message = "the tables are missing or of an older release; run `clinch migrate`";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        false => Ok(()),
    }
}

/// Steps that are not applied yet.
pub async fn pending(url: &str) -> Result<Vec<Migration>> {
    let client = one(url).await?;
    let version = applied(&client).await?;
    if let Some(error) = newer(version) {
        return Err(error);
    }
    let pending = MIGRATIONS.iter().filter(|step| step.version > version);
    Ok(pending.copied().collect())
}

/// Applies what is pending; safe from many nodes at once.
pub async fn migrate(url: &str) -> Result<Vec<Migration>> {
    let client = one(url).await?;
    client.batch_execute("BEGIN").await.map_err(error::sql)?;
    let outcome = apply(&client).await;
    let end = if outcome.is_ok() {
        "COMMIT"
    } else {
        "ROLLBACK"
    };
    let ended = client.batch_execute(end).await.map_err(error::commit);
    let steps = outcome?;
    ended.map(|()| steps)
}

async fn apply(client: &Object) -> Result<Vec<Migration>> {
    let lock = "SELECT pg_advisory_xact_lock($1)";
    client
        .execute_typed(lock, &[(&LOCK, Type::INT8)])
        .await
        .map_err(error::sql)?;
    let table = "CREATE TABLE IF NOT EXISTS clinch_migration (\
                 version integer PRIMARY KEY, name text NOT NULL, \
                 applied_at timestamptz NOT NULL DEFAULT clock_timestamp())";
    let version = applied(client).await?;
    if let Some(error) = newer(version) {
        return Err(error);
    }
    client.batch_execute(table).await.map_err(error::sql)?;
    let pending = MIGRATIONS.iter().filter(|step| step.version > version);
    let steps: Vec<Migration> = pending.copied().collect();
    for step in &steps {
        let done = client.batch_execute(step.sql).await;
        done.map_err(|error| error::sql(error).with("migration", step.version))?;
        let note = "INSERT INTO clinch_migration (version, name) VALUES ($1, $2)";
        let values: [(&(dyn ToSql + Sync), Type); 2] =
            [(&step.version, Type::INT4), (&step.name, Type::TEXT)];
        let noted = client.execute_typed(note, &values).await;
        noted.map_err(error::sql)?;
    }
    Ok(steps)
}

async fn one(url: &str) -> Result<Object> {
    let timeout = Settings::default().timeout;
    connect::one(&Address::parse(url, timeout)?).await
}
