//! API keys of a restored file.
//!
//! A backup holds the keys of its time: a key that was revoked since would work again. So the keys
//! of the replaced database stay as they are there, and keys that only the backup has are revoked.

use std::path::Path;

use clinch_core::ports::ApiKey;
use clinch_core::{ErrorKind, Result, Timestamp};
use rusqlite::Connection;

use crate::api_keys::{insert, read};
use crate::column::millis;
use crate::db::Db;
use crate::integrity::has_content;
use crate::query::Query;
use crate::{Settings, error, schema};

/// What to do with API keys that only the backup has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupKeys {
    /// Revoke them: they may have been revoked after the backup was taken.
    Revoke,
    /// Keep them as they are in the backup.
    Keep,
}

/// The result of a restore for API keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredKeys {
    /// Keys of the replaced database, kept as they were there.
    pub taken_over: usize,
    /// Keys that only the backup has and that were revoked.
    pub revoked: usize,
}

/// The keys of the database that a backup replaces; none if it cannot be read.
pub(crate) fn of_database(path: &Path, settings: &Settings) -> Result<Vec<ApiKey>> {
    if !has_content(path) {
        return Ok(Vec::new());
    }
    let keys = schema::connect_query_only(path, settings).and_then(|conn| {
        let columns =
            "SELECT count(*), sum(name = 'domains') FROM pragma_table_info('clinch_api_key')";
        let columns = conn.query_row(columns, [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?))
        });
        let mut db = Db::new(&conn);
        match columns.map_err(error::sql)? {
            (0, _) => Ok(Vec::new()),
            (_, Some(1)) => db.all(Query::ApiKeys, [], read),
            _ => db.all(Query::ApiKeysUnrestricted, [], read),
        }
    });
    match keys {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Vec::new()),
        other => other,
    }
}

/// Writes the keys of the replaced database into the restored file, which no other process has
/// open, and revokes keys that only the backup has.
pub(crate) fn adopt(
    restored: &Path,
    current: &[ApiKey],
    unknown: BackupKeys,
    now: Timestamp,
) -> Result<RestoredKeys> {
    let conn = Connection::open(restored).map_err(error::sql)?;
    conn.execute_batch("BEGIN IMMEDIATE").map_err(error::sql)?;
    let mut revoked = 0;
    {
        let mut db = Db::new(&conn);
        for key in current {
            db.run(Query::DeleteApiKey, [&key.id])?;
        }
        if unknown == BackupKeys::Revoke {
            revoked = db.run(Query::RevokeApiKeys, [millis(now)])?;
        }
        for key in current {
            insert(&mut db, key)?;
        }
    }
    conn.execute_batch("COMMIT").map_err(error::commit)?;
    conn.close().map_err(|(_, error)| error::sql(error))?;
    Ok(RestoredKeys {
        taken_over: current.len(),
        revoked,
    })
}
