//! Opens the file: checks owner and version, and sets the connection up.

use std::path::Path;

use clinch_core::{Error, ErrorKind, Result, Timestamp};
use rusqlite::{Connection, MAIN_DB, OpenFlags, TransactionBehavior};

use crate::Settings;
use crate::db::Db;
use crate::error;
use crate::private;
use crate::schema::VERSIONS;
use crate::tx::Tx;

/// "clnc" in ASCII: tells Clinch's files from those of other programs.
const APPLICATION_ID: i32 = 0x636c_6e63;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    Read,
    Checkpoint,
}

/// Connects to a file that belongs to Clinch, or that will.
pub(crate) fn connect(path: &Path, settings: &Settings, purpose: Purpose) -> Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if purpose == Purpose::Write {
        private::database(path)?;
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let at = |error: Error| error.with("path", path.display());
    let conn = Connection::open_with_flags(path, flags).map_err(|e| at(error::sql(e)))?;
    set_up(&conn, settings, purpose).map_err(|e| at(error::sql(e)))?;
    if conn.is_readonly(MAIN_DB).map_err(error::sql)? {
        let message = "the file or its file system is read-only";
        return Err(at(Error::new(ErrorKind::Unavailable, message)));
    }
    Ok(conn)
}

fn set_up(conn: &Connection, settings: &Settings, purpose: Purpose) -> rusqlite::Result<()> {
    /// Prepared statements cached per connection: more than there are.
    const STATEMENTS_MAX: usize = 128;
    conn.busy_timeout(settings.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Only takes effect on a new file.
    conn.pragma_update(None, "page_size", settings.page_bytes)?;
    // The first read of the file: detects a damaged file or one of another program.
    conn.pragma_query_value(None, "schema_version", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "foreign_keys", false)?;
    // The checks repeat `State::check`, and are two fifths of the instructions of a write.
    // Tests run with them.
    conn.pragma_update(None, "ignore_check_constraints", !cfg!(debug_assertions))?;
    let cache_kib = match purpose {
        Purpose::Write => settings.writer_cache_kib,
        Purpose::Read => settings.reader_cache_kib,
        Purpose::Checkpoint => 1_024,
    };
    // Negative means KiB, not pages.
    conn.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
    if purpose == Purpose::Read {
        conn.pragma_update(None, "query_only", true)?;
    }
    Ok(())
}

/// Sets up an empty file as Clinch's, and brings the schema up to date. Returns the version that
/// the file had.
pub(crate) fn migrate(conn: &mut Connection, settings: &Settings) -> Result<usize> {
    let before = header(conn)?;
    check(&before, settings)?;
    let mode =
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
    if mode.map_err(error::sql)? != "wal" {
        let message = "the file cannot be switched to write-ahead logging; is it open elsewhere?";
        return Err(Error::new(ErrorKind::Unavailable, message));
    }
    let immediate = TransactionBehavior::Immediate;
    let tx = conn.transaction_with_behavior(immediate);
    let tx = tx.map_err(error::sql)?;
    // Another process may have migrated the file since the check above.
    let header = header(&tx)?;
    check(&header, settings)?;
    for version in VERSIONS.iter().skip(header.version) {
        tx.execute_batch(version.sql).map_err(error::sql)?;
        let number = i64::try_from(version.number).unwrap_or(0);
        tx.pragma_update(None, "user_version", number)
            .map_err(error::sql)?;
    }
    if header.application_id != APPLICATION_ID {
        tx.pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(error::sql)?;
    }
    {
        let mut db = Db::new(&tx);
        let mut tx = Tx::new(&mut db, Timestamp::default());
        tx.complete_letters()?;
        tx.finish()?;
    }
    tx.commit().map_err(error::commit)?;
    Ok(header.version)
}

/// The header fields that tell which program and release wrote a file.
pub(crate) struct FileHeader {
    application_id: i32,
    pub(crate) version: usize,
    tables: i64,
}

impl FileHeader {
    /// Whether Clinch wrote the file.
    pub(crate) fn is_ours(&self) -> bool {
        self.application_id == APPLICATION_ID
    }
}

pub(crate) fn header(conn: &Connection) -> Result<FileHeader> {
    let number = |pragma: &str| {
        let value = conn.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
        value.map_err(error::sql)
    };
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables = conn.query_row(tables, [], |row| row.get::<_, i64>(0));
    let version = usize::try_from(number("user_version")?);
    Ok(FileHeader {
        application_id: number("application_id")?,
        version: version.map_err(|_| error::corrupt("user_version"))?,
        tables: tables.map_err(error::sql)?,
    })
}

/// Refuses a file of another program or of a newer release.
pub(crate) fn check(header: &FileHeader, settings: &Settings) -> Result<()> {
    let ours = header.is_ours();
    let free = header.application_id == 0 && header.version == 0;
    if !ours && !(free && (header.tables == 0 || settings.adopt)) {
        let message = "the file belongs to another program; name another file, or set `adopt` to \
                       add Clinch's tables to it";
        return Err(Error::new(ErrorKind::Corrupt, message)
            .with("application_id", format!("{:#x}", header.application_id)));
    }
    if header.version > VERSIONS.len() {
        let message = "the file was written by a newer release; upgrade this program";
        return Err(Error::new(ErrorKind::Unsupported, message)
            .with("file_version", header.version)
            .with("known_version", VERSIONS.len()));
    }
    Ok(())
}
