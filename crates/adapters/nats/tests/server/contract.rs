//! The bus's contract, and the engine over this bus with rows in SQLite (CORE-11, RUN-3, RUN-7,
//! RUN-11). The server is real; the clock of bus and store moves when the suite says so.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{
    Capabilities, Case, Control, Fault, Need, StorePorts, Subject, cases, contract_trials, factory,
};
use clinch_core::OpId;
use clinch_memory::ManualClock;
use clinch_sqlite::{Settings, Sqlite};
use clinch_testbed::{Kind, shared};
use libtest_mimic::Trial;

use crate::common;

/// A folder that goes with its last user.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Hands {
    clock: Arc<ManualClock>,
    folder: Arc<Folder>,
    url: String,
}

async fn open(
    url: String,
    clock: Arc<ManualClock>,
    folder: Arc<Folder>,
) -> Result<Subject, String> {
    let file = folder.0.join("clinch.db");
    let sqlite = Sqlite::open(file, Settings::default(), clock.clone());
    let port = Arc::new(sqlite.map_err(|error| error.to_string())?);
    let bus = common::connect(&url, clock.clone()).await?;
    Ok(Subject {
        store: Some(StorePorts::of(&port)),
        bus: Some(Arc::new(bus)),
        queue: None,
        locks: None,
        control: Arc::new(Hands { clock, folder, url }),
    })
}

#[async_trait]
impl Control for Hands {
    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn corrupt(&self, _op: OpId) {
        unreachable!("the store's own suite does this");
    }

    async fn arm(&self, _fault: Fault) {
        unreachable!("faults are not claimed");
    }

    async fn crash(&self) -> Subject {
        let (url, clock, folder) = (self.url.clone(), self.clock.clone(), self.folder.clone());
        // Another connection to the same file: what was committed is there.
        open(url, clock, folder).await.expect("it opens again")
    }
}

async fn fresh() -> Result<Subject, String> {
    let url = shared(Kind::Nats).map_err(|trouble| trouble.to_string())?;
    let folder = std::env::temp_dir().join(format!("clinch-nats-{}", common::prefix()));
    std::fs::create_dir(&folder).map_err(|error| format!("no folder: {error}"))?;
    let clock = Arc::new(ManualClock::default());
    open(url, clock, Arc::new(Folder(folder))).await
}

pub(crate) fn trials() -> Vec<Trial> {
    let capabilities = Capabilities {
        queue: false,
        locks: false,
        faults: false,
        ..Capabilities::ALL
    };
    // What needs the store alone is the store's own suite.
    let of_the_bus = |case: &Case| matches!(case.needs, Need::Bus | Need::StoreAndBus);
    let cases = cases(capabilities).into_iter().filter(of_the_bus);
    contract_trials("nats", cases, &factory(fresh))
}
