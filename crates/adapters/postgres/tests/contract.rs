//! The whole contract suite on PostgreSQL (CORE-9, CORE-12, RUN-7, RUN-11, OUT-2, OUT-7).
//!
//! Each case has a database of its own. A crash ends every connection of the store, as the
//! death of its process does, and opens another store on what was committed.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{Capabilities, Control, Fault, LockPorts, StorePorts, Subject};
use clinch_core::OpId;
use clinch_memory::{ManualClock, MemoryBus};
use clinch_postgres::{Postgres, Settings};
use common::Database;

struct Hands {
    clock: Arc<ManualClock>,
    store: Postgres,
    admin: tokio_postgres::Client,
    database: Arc<Database>,
}

async fn open(clock: Arc<ManualClock>, database: Arc<Database>) -> Result<Subject, String> {
    let url = database.url();
    let store = Postgres::connect(&url, Settings::default(), clock.clone()).await;
    let store = store.map_err(|error| format!("{error:?}"))?;
    let port = Arc::new(store.clone());
    let admin = common::client(&url).await?;
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
            store,
            admin,
            database,
        }),
    })
}

#[async_trait]
impl Control for Hands {
    async fn advance(&self, by: Duration) {
        // The server first: who wakes by the other clock asks this one.
        common::advance(&self.admin, by).await;
        self.clock.advance(by);
    }

    async fn corrupt(&self, op: OpId) {
        let text = "UPDATE clinch_queue SET payload = set_byte(payload, 0, 255) WHERE op_id = $1";
        let changed = self.admin.execute(text, &[&op.0]).await;
        assert_eq!(changed.expect("the row is there"), 1);
    }

    async fn arm(&self, fault: Fault) {
        self.store.fail_next(match fault {
            Fault::BeforeCommit => clinch_postgres::Fault::BeforeCommit,
            Fault::MidCommit => clinch_postgres::Fault::MidCommit,
            Fault::AfterCommit => clinch_postgres::Fault::AfterCommit,
        });
    }

    async fn crash(&self) -> Subject {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        self.admin.execute(end, &[]).await.expect("they are ended");
        let opened = open(self.clock.clone(), self.database.clone()).await;
        opened.expect("what was committed can be opened")
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
    let fresh = || async {
        let database = Database::with_still_clock().await?;
        open(Arc::new(ManualClock::default()), database).await
    };
    clinch_contract::run("postgres", capabilities, clinch_contract::factory(fresh))
}
