//! The whole contract suite on PostgreSQL (CORE-9, CORE-12, RUN-7, RUN-11, OUT-2, OUT-7).
//!
//! Each case has a database of its own. A crash ends every connection of the store, as the
//! death of its process does, and opens another store on what was committed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{Capabilities, Control, Fault, Subject, cases, contract_trials, factory};
use clinch_core::OpId;
use clinch_memory::{ManualClock, MemoryBus};
use clinch_postgres::{Postgres, Settings};
use libtest_mimic::Trial;

use crate::database::{Database, advance};

struct Hands {
    clock: Arc<ManualClock>,
    store: Postgres,
    admin: tokio_postgres::Client,
    database: Arc<Database>,
}

async fn open(clock: Arc<ManualClock>, database: Arc<Database>) -> Result<Subject, String> {
    let store = Postgres::connect(&database.url(), Settings::default(), clock.clone()).await;
    let store = store.map_err(|error| format!("{error:?}"))?;
    let (port, bus) = (
        Arc::new(store.clone()),
        Arc::new(MemoryBus::new(clock.clone())),
    );
    let hands = Hands {
        clock,
        store,
        admin: database.client().await,
        database,
    };
    Ok(Subject::of_store(&port, Some(bus), Arc::new(hands)))
}

#[async_trait]
impl Control for Hands {
    async fn advance(&self, by: Duration) {
        // The server first: who wakes by the other clock asks this one.
        advance(&self.admin, by).await;
        self.clock.advance(by);
    }

    async fn corrupt(&self, op: OpId) {
        let text = "UPDATE clinch_queue SET payload = set_byte(payload, 0, 255) WHERE op_id = $1";
        let changed = self.admin.execute(text, &[&op.0]).await;
        assert_eq!(changed.expect("the row is there"), 1);
    }

    async fn arm(&self, fault: Fault) {
        self.store.fail_next(fault);
    }

    async fn crash(&self) -> Subject {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        self.admin.execute(end, &[]).await.expect("they are ended");
        let opened = open(self.clock.clone(), self.database.clone()).await;
        opened.expect("what was committed can be opened")
    }
}

async fn fresh() -> Result<Subject, String> {
    let database = Database::with_still_clock().await?;
    open(Arc::new(ManualClock::default()), database).await
}

pub(crate) fn trials() -> Vec<Trial> {
    contract_trials("postgres", cases(Capabilities::ALL), &factory(fresh))
}
