//! The schema's versions: what a file has, what it lacks, and bringing it up to date.

use std::path::Path;

use clinch_core::{Error, ErrorKind, Result};
use rusqlite::{Connection, OpenFlags};

use crate::db::Db;
use crate::open::{self, Use};
use crate::partial::beside;
use crate::presence::{Arrival, has_content};
use crate::query::Query;
use crate::{Settings, Sqlite, absolute, error, filesystem, records, side_of, turn};

/// One step of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// From 1.
    pub number: usize,
    /// What it brings.
    pub name: &'static str,
    /// How.
    pub sql: &'static str,
}

/// Every version of the schema. A file of version n gets those after the n-th.
pub(crate) static VERSIONS: [Version; 7] = [
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
];

/// The version that brought records.
const RECORDS_SINCE: usize = 3;

/// Where a file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// Its version; `None`: there is no file.
    pub version: Option<usize>,
    /// The version that this release writes.
    pub known: usize,
    /// What is missing, in order.
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
    /// Looks at the schema of a file and changes nothing; a missing file is not made.
    ///
    /// - `Corrupt`: it is damaged or belongs to another program.
    /// - `Unsupported`: it is of a newer release.
    pub fn schema(path: impl AsRef<Path>, settings: &Settings) -> Result<Schema> {
        let path = path.as_ref();
        if !is_there(path)? {
            return Ok(Schema::of(None));
        }
        let at = |error: Error| error.with("path", path.display());
        let conn = look(path, settings).map_err(at)?;
        let stand = open::stand(&conn).map_err(at)?;
        open::check(&stand, settings).map_err(at)?;
        Ok(Schema::of(Some(stand.version)))
    }

    /// Reads one record of a file and changes nothing; a missing file is not made.
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
        let conn = look(path, settings).map_err(at)?;
        let stand = open::stand(&conn).map_err(at)?;
        open::check(&stand, settings).map_err(at)?;
        if stand.version < RECORDS_SINCE {
            return Ok(None);
        }
        let found = Db::new(&conn).first(Query::Record, [key], records::read);
        Ok(found.map_err(at)?.map(|record| record.body))
    }

    /// Brings the schema of a file up to date, or makes the file, and opens nothing else.
    /// Other processes may have it open, and may do the same at once: each version is applied
    /// once. Returns where the file stood before.
    pub fn migrate(path: impl AsRef<Path>, settings: &Settings) -> Result<Schema> {
        let path = absolute(path.as_ref())?;
        filesystem::check(path.parent().unwrap_or(&path))?;
        let was_there = is_there(&path)?;
        let side = side_of(&path)?;
        let _turn = turn::take_one(&side, settings.busy_timeout)?;
        let arrival = Arrival::at(&path, &side, settings.accept_data_loss)?;
        let mut conn = open::connect(&path, settings, Use::Write)?;
        arrival.check(&conn)?;
        let before = open::migrate(&mut conn, settings);
        let before = before.map_err(|error| error.with("path", path.display()))?;
        arrival.enter(&conn)?.leave(&conn)?;
        let version = (was_there || before > 0).then_some(before);
        Ok(Schema::of(version))
    }

    /// Whether the file is the one that was last used here, and has lost nothing; changes
    /// nothing. While a process has it open, that one watches over it.
    ///
    /// - `Corrupt`: it is gone, was replaced, or its log was lost; the message says what to do.
    pub fn check_file(path: impl AsRef<Path>, settings: &Settings) -> Result<()> {
        let path = absolute(path.as_ref())?;
        let side = beside(&path, ".wake");
        let is_used = side.is_dir();
        let _turn = is_used.then(|| turn::take_one(&side, settings.busy_timeout));
        let arrival = Arrival::at(&path, &side, settings.accept_data_loss)?;
        match is_there(&path)? {
            true => arrival.check(&look(&path, settings)?),
            false => Ok(()),
        }
    }

    /// Refuses a folder where the file could not be kept, such as one of another machine.
    pub fn check_folder(folder: impl AsRef<Path>) -> Result<()> {
        filesystem::check(folder.as_ref())
    }
}

fn is_there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|error| {
        let message = "the database cannot be looked at; check the permissions of its folder";
        Error::new(ErrorKind::Unavailable, message)
            .with("path", path.display())
            .caused_by(error)
    })
}

/// A connection that changes nothing. One to a file without a log must be able to remove the log
/// that it makes; one to a file with a log must leave that alone: the file needs it.
pub(crate) fn look(path: &Path, settings: &Settings) -> Result<Connection> {
    let mode = match has_content(&beside(path, "-wal")) {
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
