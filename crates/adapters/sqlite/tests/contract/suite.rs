//! The whole contract suite on a file (CORE-9, CORE-11, RUN-7, RUN-11, OUT-7).
//!
//! A crash copies the file and its log as they are at that moment, as a killed process
//! leaves them, and opens the copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{Capabilities, Control, Fault, Subject, cases, contract_trials, factory};
use clinch_core::OpId;
use clinch_memory::{ManualClock, MemoryBus};
use clinch_sqlite::{Settings, Sqlite};
use libtest_mimic::Trial;

use crate::folder::Folder;

struct Hands {
    clock: Arc<ManualClock>,
    sqlite: Sqlite,
    folder: Arc<Folder>,
}

fn open(clock: Arc<ManualClock>, folder: Arc<Folder>) -> Result<Subject, String> {
    let sqlite = Sqlite::open(folder.file(), Settings::default(), clock.clone());
    let sqlite = sqlite.map_err(|error| error.to_string())?;
    // Limits so small that the keys of a test are spread over all levels.
    let conn = sqlite.connect().map_err(|error| error.to_string())?;
    conn.execute_batch("UPDATE clinch_store SET keys_new_max = 2, keys_mid_max = 6")
        .map_err(|error| error.to_string())?;
    let (port, bus) = (
        Arc::new(sqlite.clone()),
        Arc::new(MemoryBus::new(clock.clone())),
    );
    let hands = Hands {
        clock,
        sqlite,
        folder,
    };
    Ok(Subject::of_store(&port, Some(bus), Arc::new(hands)))
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

/// The files of the processes that the crash killed; nobody locks the copies.
fn copy_processes(from: &Path, to: &Path) {
    let folder = |path: &Path| PathBuf::from(format!("{}.wake", path.display()));
    let (from, to) = (folder(from), folder(to));
    for entry in std::fs::read_dir(from).expect("the folder can be read") {
        let entry = entry.expect("the folder can be read");
        let name = entry.file_name();
        if name.to_string_lossy().ends_with(".process") {
            std::fs::copy(entry.path(), to.join(name)).expect("the file can be copied");
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
        self.sqlite.fail_next(fault);
    }

    async fn crash(&self) -> Subject {
        let folder = Arc::new(Folder::new("crash"));
        copy(&self.folder.file(), &folder.file());
        let copy = folder.file();
        let subject = open(self.clock.clone(), folder).expect("what was committed can be opened");
        copy_processes(&self.folder.file(), &copy);
        subject
    }
}

async fn fresh() -> Result<Subject, String> {
    let folder = Arc::new(Folder::new("contract"));
    open(Arc::new(ManualClock::default()), folder)
}

pub(crate) fn trials() -> Vec<Trial> {
    contract_trials("sqlite", cases(Capabilities::ALL), &factory(fresh))
}
