//! Helpers of the tests.

use std::sync::Arc;

use clinch_contract::samples;
use clinch_core::ports::{Clock, Ids, NewOperation};
use clinch_sqlite::{Settings, Sqlite};
use clinch_system::{SystemClock, SystemIds};

pub(crate) use crate::folder::Folder;
pub(crate) use clinch_contract::samples::{keys, on_a_runtime, routes, worker};

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

pub(crate) fn open(folder: &Folder) -> Sqlite {
    Sqlite::open(folder.file(), Settings::default(), clock()).expect("the file opens")
}

pub(crate) fn operation(domain: &str, number: usize) -> NewOperation {
    samples::operation(SystemIds.op_id(), domain, number)
}

/// `PRAGMA integrity_check` of a file, on a read-only connection. A connection that could write
/// would move the log of a killed process into the file and remove it, which looks like a loss.
pub(crate) fn integrity(folder: &Folder) -> String {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = rusqlite::Connection::open_with_flags(folder.file(), flags);
    let conn = conn.expect("the file opens");
    let check = "PRAGMA integrity_check";
    conn.query_row(check, [], |row| row.get(0))
        .expect("the check runs")
}

/// Makes the levels of the key index small, so that keys are merged all the time.
pub(crate) fn shrink_levels(sqlite: &Sqlite, new_max: u32, mid_max: u32) {
    let conn = sqlite.connect().expect("a connection");
    let sql = "UPDATE clinch_store SET keys_new_max = ?1, keys_mid_max = ?2";
    conn.execute(sql, [new_max, mid_max]).expect("the limits");
}

/// Number of keys in `new`, `mid` and the rest. Also asserts that each key is in one level and that
/// the row of the store has the counts.
pub(crate) fn levels(sqlite: &Sqlite) -> [i64; 3] {
    let conn = sqlite.connect().expect("a connection");
    let sql = "SELECT (SELECT count(*) FROM clinch_key_new), (SELECT count(*) FROM clinch_key_mid), \
               (SELECT count(*) FROM clinch_key), keys_new, keys_mid, \
               (SELECT count(*) FROM (SELECT seq FROM clinch_key_new UNION \
               SELECT seq FROM clinch_key_mid UNION SELECT seq FROM clinch_key)) \
               FROM clinch_store";
    let read = |row: &rusqlite::Row<'_>| {
        let counted = [row.get(0)?, row.get(1)?, row.get(2)?];
        Ok((counted, [row.get(3)?, row.get(4)?], row.get(5)?))
    };
    let (counted, kept, distinct): ([i64; 3], [i64; 2], i64) =
        conn.query_row(sql, [], read).expect("counts");
    assert_eq!(
        kept,
        counted[..2],
        "the store's counts are those of the tables"
    );
    assert_eq!(
        distinct,
        counted.iter().sum::<i64>(),
        "a key is in one level"
    );
    counted
}
