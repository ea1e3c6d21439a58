//! The whole contract suite on PostgreSQL, and again through PgBouncer in transaction mode
//! (CORE-9, CORE-12, RUN-7, RUN-11, OUT-2, OUT-7).
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
use clinch_testbed::PgBouncer;
use libtest_mimic::Trial;

use crate::database::{Database, advance};

struct Hands {
    clock: Arc<ManualClock>,
    store: Postgres,
    admin: tokio_postgres::Client,
    database: Arc<Database>,
    pooler: Option<Arc<PgBouncer>>,
}

async fn open(
    clock: Arc<ManualClock>,
    database: Arc<Database>,
    pooler: Option<Arc<PgBouncer>>,
) -> Result<Subject, String> {
    let direct = database.url();
    let (url, settings) = match &pooler {
        Some(pooler) => (
            pooler.url(&direct),
            Settings {
                listen_url: Some(direct),
                through_pgbouncer: true,
                ..Settings::default()
            },
        ),
        None => (direct, Settings::default()),
    };
    let store = Postgres::connect(&url, settings, clock.clone()).await;
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
        pooler,
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
        let (clock, database) = (self.clock.clone(), self.database.clone());
        // The old pooler may not have noticed yet which of its connections are dead.
        let before = |_: &Arc<PgBouncer>| PgBouncer::start(&database.url()).expect("a pooler");
        let pooler = self.pooler.as_ref().map(before).map(Arc::new);
        let opened = open(clock, database, pooler).await;
        opened.expect("what was committed can be opened")
    }
}

async fn fresh() -> Result<Subject, String> {
    let database = Database::with_still_clock().await?;
    open(Arc::new(ManualClock::default()), database, None).await
}

/// What a store sets on its connections by itself, where no pooler is between.
const SETTINGS: &str = "statement_timeout = '30s'; lock_timeout = '10s'; \
    idle_in_transaction_session_timeout = '30s'; jit = off; enable_seqscan = off; \
    enable_bitmapscan = off; enable_hashjoin = off; enable_mergejoin = off";

async fn behind_a_pooler() -> Result<Subject, String> {
    let database = Database::with_still_clock().await?;
    let admin = database.client().await;
    for setting in SETTINGS.split("; ") {
        let text = format!(
            "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || $s$ SET {setting}$s$; \
             END $$"
        );
        let set = admin.batch_execute(&text).await;
        set.map_err(|error| format!("{text}: {error:?}"))?;
    }
    let pooler = PgBouncer::start(&database.url()).map_err(|trouble| trouble.to_string())?;
    let clock = Arc::new(ManualClock::default());
    open(clock, database, Some(Arc::new(pooler))).await
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = contract_trials("postgres", cases(Capabilities::ALL), &factory(fresh));
    if PgBouncer::program().is_some() || std::env::var_os("CI").is_some() {
        let pooled = factory(behind_a_pooler);
        trials.extend(contract_trials(
            "pgbouncer",
            cases(Capabilities::ALL),
            &pooled,
        ));
    }
    trials
}
