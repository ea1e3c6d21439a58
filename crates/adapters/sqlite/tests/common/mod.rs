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
