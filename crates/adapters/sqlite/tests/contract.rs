//! The whole contract suite on a file (CORE-9, CORE-11, RUN-7, RUN-11, OUT-7).
//!
//! A crash copies the file and its log as they are at that moment, as a killed process
//! leaves them, and opens the copy.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{Capabilities, Control, Fault, LockPorts, StorePorts, Subject};
use clinch_core::OpId;
use clinch_memory::{ManualClock, MemoryBus};
use clinch_sqlite::{Settings, Sqlite};

/// A folder that goes with its last user.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Arc<Self>, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("clinch-contract-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|error| format!("cannot make a folder: {error}"))?;
        Ok(Arc::new(Self(path)))
    }

    fn file(&self) -> PathBuf {
        self.0.join("clinch.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Hands {
    clock: Arc<ManualClock>,
    sqlite: Sqlite,
    folder: Arc<Folder>,
}

fn open(clock: Arc<ManualClock>, folder: Arc<Folder>) -> Result<Subject, String> {
    let sqlite = Sqlite::open(folder.file(), Settings::default(), clock.clone());
    let sqlite = sqlite.map_err(|error| error.to_string())?;
    // So few that the keys of a test are in every level.
    let conn = sqlite.connect().map_err(|error| error.to_string())?;
    conn.execute_batch("UPDATE clinch_store SET keys_new_max = 2, keys_mid_max = 6")
        .map_err(|error| error.to_string())?;
    let port = Arc::new(sqlite.clone());
    Ok(Subject {
        store: Some(StorePorts {
            store: port.clone(),
            outbox: port.clone(),
            recovery: port.clone(),
            batches: port.clone(),
            domains: port.clone(),
            inspect: port.clone(),
            notices: port.clone(),
        }),
        // The suite runs the engine on the store with hints as well.
        bus: Some(Arc::new(MemoryBus::new(clock.clone()))),
        queue: Some(port.clone()),
        locks: Some(LockPorts {
            locks: port.clone(),
            leader: port,
        }),
        control: Arc::new(Hands {
            clock,
            sqlite,
            folder,
        }),
    })
}

fn copy(from: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        let name = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            name
        };
        if Path::new(&name(from)).exists() {
            std::fs::copy(name(from), name(to)).expect("the file can be copied");
        }
    }
}

#[async_trait]
impl Control for Hands {
    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn corrupt(&self, op: OpId) {
        let conn = self.sqlite.connect().expect("a connection");
        let sql = "UPDATE clinch_request SET payload = CAST(x'ff' || substr(payload, 2) AS BLOB) \
                   WHERE seq = (SELECT seq FROM clinch_operation WHERE op_id = ?1)";
        conn.execute(sql, [op.0.as_bytes()])
            .expect("the row is there");
    }

    async fn arm(&self, fault: Fault) {
        self.sqlite.fail_next(match fault {
            Fault::BeforeCommit => clinch_sqlite::Fault::BeforeCommit,
            Fault::MidCommit => clinch_sqlite::Fault::MidCommit,
            Fault::AfterCommit => clinch_sqlite::Fault::AfterCommit,
        });
    }

    async fn crash(&self) -> Subject {
        let folder = Folder::new().expect("a folder");
        copy(&self.folder.file(), &folder.file());
        open(self.clock.clone(), folder).expect("what was committed can be opened")
    }
}

fn main() -> ExitCode {
    let capabilities = Capabilities {
        store: true,
        bus: true,
        queue: true,
        locks: true,
        faults: true,
    };
    let fresh = || async { open(Arc::new(ManualClock::default()), Folder::new()?) };
    clinch_contract::run("sqlite", capabilities, clinch_contract::factory(fresh))
}
