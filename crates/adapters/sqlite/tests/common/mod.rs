//! What the tests of the file share.
// tidy: allow(attributes) each test file uses another part, so that no expectation holds in all
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clinch_core::policy::{EventTypes, Routes, Rules, Safety};
use clinch_core::ports::{Clock, NewOperation};
use clinch_core::protocol::Inherited;
use clinch_core::{
    BizKey, ContentHash, Domain, EventType, Fingerprint, IdemKey, Keys, OpId, Options, Payload,
    Sealed, WorkerId,
};
use clinch_sqlite::{Settings, Sqlite};
use clinch_system::{SystemClock, SystemIds};

/// A folder that goes with its last user.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("clinch-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a temporary folder");
        Self(path)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("clinch.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

pub(crate) fn open(folder: &Folder) -> Sqlite {
    Sqlite::open(folder.file(), Settings::default(), clock()).expect("the file opens")
}

pub(crate) fn keys(domain: &str, number: usize) -> Keys {
    Keys {
        domain: Domain::new(domain).expect("valid"),
        event_type: EventType::new("call").expect("valid"),
        biz_key: BizKey::new(format!("order-{number}")).expect("valid"),
        idem_key: IdemKey::new(format!("key-{number}")).expect("valid"),
    }
}

pub(crate) fn operation(domain: &str, number: usize) -> NewOperation {
    use clinch_core::ports::Ids;
    let payload = Payload::parse(&format!("{{\"n\":{number}}}"), 1_000).expect("valid");
    let (op_id, keys): (OpId, Keys) = (SystemIds.op_id(), keys(domain, number));
    let stored = Sealed::new(payload.as_bytes().to_vec());
    NewOperation {
        op_id,
        fingerprints: vec![Fingerprint::plain(&payload)],
        content_hash: ContentHash::of(&op_id, &keys.event_type, stored.as_bytes()),
        outbound_key: keys.outbound_key(),
        keys,
        payload: stored,
        options: Options::default(),
        batch_id: None,
        redrive_of: None,
        inherited: Inherited::default(),
        trace: None,
        begin: None,
    }
}

/// `natural` may be repeated, `unsafe` may not.
pub(crate) fn routes() -> Routes {
    let rules = |safety| Rules {
        safety,
        ..Rules::default()
    };
    let domain = |name| Domain::new(name).expect("valid");
    Routes::new()
        .with(domain("natural"), EventTypes::Any, rules(Safety::Natural))
        .with(domain("unsafe"), EventTypes::Any, rules(Safety::Unsafe))
}

pub(crate) fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).expect("valid")
}

/// Runs a test on a runtime of its own.
pub(crate) fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work)
}

/// `PRAGMA integrity_check` of a file, by a connection of its own.
pub(crate) fn integrity(folder: &Folder) -> String {
    let conn = rusqlite::Connection::open(folder.file()).expect("the file opens");
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

/// How many keys are in `new`, `mid` and the rest, after a look at what must hold: each key is
/// in one level, and the row of the store has the counts.
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
