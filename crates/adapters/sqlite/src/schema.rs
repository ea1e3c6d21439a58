//! The versions of the schema: what a file has, what is pending, and the migration.

use std::path::Path;

use clinch_core::{Error, ErrorKind, Result};
use rusqlite::{Connection, OpenFlags};

use crate::db::Db;
use crate::integrity::{OpenCheck, has_content};
use crate::open::{self, Purpose};
use crate::partial::with_suffix;
use crate::query::Query;
use crate::{Settings, Sqlite, absolute, error, filesystem, records, turn, wake_dir_of};

/// One version of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Counts from 1.
    pub number: usize,
    /// What the version adds.
    pub name: &'static str,
    /// The statements of the migration.
    pub sql: &'static str,
}

/// Every version of the schema. A file of version n gets the versions after the n-th.
pub(crate) static VERSIONS: [Version; 13] = [
    Version {
        number: 1,
        name: "operations, their keys and their queue",
        sql: include_str!("../sql/schema/0001.sql"),
    },
    Version {
        number: 2,
        name: "API keys",
        sql: include_str!("../sql/schema/0002.sql"),
    },
    Version {
        number: 3,
        name: "records and documents of an application",
        sql: include_str!("../sql/schema/0003.sql"),
    },
    Version {
        number: 4,
        name: "whether the file is whole",
        sql: include_str!("../sql/schema/0004.sql"),
    },
    Version {
        number: 5,
        name: "API keys and batches of some domains",
        sql: include_str!("../sql/schema/0005.sql"),
    },
    Version {
        number: 6,
        name: "deadlines that count from run_at",
        sql: include_str!("../sql/schema/0006.sql"),
    },
    Version {
        number: 7,
        name: "the time that the store has seen",
        sql: include_str!("../sql/schema/0007.sql"),
    },
    Version {
        number: 8,
        name: "costs that do not grow",
        sql: include_str!("../sql/schema/0008.sql"),
    },
    Version {
        number: 9,
        name: "new keys in the order of acceptance",
        sql: include_str!("../sql/schema/0009.sql"),
    },
    Version {
        number: 10,
        name: "who paused a domain, when and why",
        sql: include_str!("../sql/schema/0010.sql"),
    },
    Version {
        number: 11,
        name: "the last error of an operation",
        sql: include_str!("../sql/schema/0011.sql"),
    },
    Version {
        number: 12,
        name: "dead letters with a status",
        sql: include_str!("../sql/schema/0012.sql"),
    },
    Version {
        number: 13,
        name: "lists of the documents of a resource",
        sql: include_str!("../sql/schema/0013.sql"),
    },
];

/// The version that added records.
const RECORDS_SINCE: usize = 3;

/// The schema version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// The file's version; `None`: there is no file.
    pub version: Option<usize>,
    /// The version that this release writes.
    pub known: usize,
    /// The versions that the file lacks, in order.
    pub pending: &'static [Version],
}

impl Schema {
    fn of(version: Option<usize>) -> Self {
        Self {
            version,
            known: VERSIONS.len(),
            pending: VERSIONS.get(version.unwrap_or(0)..).unwrap_or_default(),
        }
    }
}

impl Sqlite {
    /// Reads the schema version of a file. Changes nothing and does not create a missing file.
    ///
    /// - `Corrupt`: the file is damaged or belongs to another program.
    /// - `Unsupported`: a newer release wrote the file.
    pub fn schema(path: impl AsRef<Path>, settings: &Settings) -> Result<Schema> {
        let path = path.as_ref();
        if !is_there(path)? {
            return Ok(Schema::of(None));
        }
        let at = |error: Error| error.with("path", path.display());
        let conn = connect_query_only(path, settings).map_err(at)?;
        let header = open::header(&conn).map_err(at)?;
        open::check(&header, settings).map_err(at)?;
        Ok(Schema::of(Some(header.version)))
    }

    /// Reads one record of a file. Changes nothing and does not create a missing file.
    ///
    /// - `None`: there is no file, or no such record in it.
    pub fn peek_record(
        path: impl AsRef<Path>,
        settings: &Settings,
        key: &str,
    ) -> Result<Option<String>> {
        let path = path.as_ref();
        if !is_there(path)? {
            return Ok(None);
        }
        let at = |error: Error| error.with("path", path.display());
        let conn = connect_query_only(path, settings).map_err(at)?;
        let header = open::header(&conn).map_err(at)?;
        open::check(&header, settings).map_err(at)?;
        if header.version < RECORDS_SINCE {
            return Ok(None);
        }
        let found = Db::new(&conn).first(Query::Record, [key], records::read);
        Ok(found.map_err(at)?.map(|record| record.body))
    }

    /// Brings the schema of a file up to date, or creates the file; does not open a store. Other
    /// processes may have the file open and may migrate at the same time: each version is applied
    /// once. Returns the schema version before the migration.
    pub fn migrate(path: impl AsRef<Path>, settings: &Settings) -> Result<Schema> {
        let path = absolute(path.as_ref())?;
        filesystem::check(path.parent().unwrap_or(&path))?;
        let was_there = is_there(&path)?;
        let wake_dir = wake_dir_of(&path)?;
        let _turn = turn::take_one(&wake_dir, settings.busy_timeout)?;
        let open_check = OpenCheck::before_open(&path, &wake_dir, settings.accept_data_loss)?;
        let mut conn = open::connect(&path, settings, Purpose::Write)?;
        open_check.check(&conn)?;
        let before = open::migrate(&mut conn, settings);
        let before = before.map_err(|error| error.with("path", path.display()))?;
        open_check.mark_in_use(&conn)?.release(&conn)?;
        let version = (was_there || before > 0).then_some(before);
        Ok(Schema::of(version))
    }

    /// Checks that the file is the one that was last used here and has lost nothing. Changes
    /// nothing. While another process has the file open, that process does the checking.
    ///
    /// - `Corrupt`: the file is gone or was replaced, or its log was lost; the message says what to
    ///   do.
    pub fn check_file(path: impl AsRef<Path>, settings: &Settings) -> Result<()> {
        let path = absolute(path.as_ref())?;
        let wake_dir = with_suffix(&path, ".wake");
        let is_used = wake_dir.is_dir();
        let _turn = is_used.then(|| turn::take_one(&wake_dir, settings.busy_timeout));
        let open_check = OpenCheck::before_open(&path, &wake_dir, settings.accept_data_loss)?;
        match is_there(&path)? {
            true => open_check.check(&connect_query_only(&path, settings)?),
            false => Ok(()),
        }
    }

    /// Refuses a folder that cannot hold the database, such as one on a network file system.
    pub fn check_folder(folder: impl AsRef<Path>) -> Result<()> {
        filesystem::check(folder.as_ref())
    }
}

fn is_there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|error| {
        let message = "the database cannot be accessed; check the permissions of its folder";
        Error::new(ErrorKind::Unavailable, message)
            .with("path", path.display())
            .caused_by(error)
    })
}

/// A connection that changes nothing. If the file has no log, the connection must be able to remove
/// the log that it creates. If the file has a log, the connection must leave that log alone.
pub(crate) fn connect_query_only(path: &Path, settings: &Settings) -> Result<Connection> {
    let mode = match has_content(&with_suffix(path, "-wal")) {
        true => OpenFlags::SQLITE_OPEN_READ_ONLY,
        false => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let set_up = || {
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(settings.busy_timeout)?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(conn)
    };
    set_up().map_err(error::sql)
}
