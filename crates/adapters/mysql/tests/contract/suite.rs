//! The whole contract suite on a MariaDB server (CORE-9, CORE-11, RUN-7, RUN-11, OUT-2, OUT-7).
//!
//! Each case has a database of its own. A crash closes every connection of the instance, as a
//! killed process does, and opens another on the same database; the server itself is killed in
//! `atomicity.rs`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{Capabilities, Control, Fault, Subject, cases, contract_trials, factory};
use clinch_core::OpId;
use clinch_memory::{ManualClock, MemoryBus};
use clinch_mysql::{Mysql, Settings};
use libtest_mimic::Trial;
use mysql_async::prelude::Queryable;

use crate::common::{Database, url};

struct Hands {
    clock: Arc<ManualClock>,
    store: Mysql,
    database: Arc<Database>,
    /// How far the clock was moved: a new instance starts from the server's time.
    ahead: Arc<Mutex<Duration>>,
}

async fn open(
    clock: Arc<ManualClock>,
    database: Arc<Database>,
    ahead: Arc<Mutex<Duration>>,
) -> Result<Subject, String> {
    let settings = Settings {
        pool_size: 20,
        ..Settings::default()
    };
    let store = Mysql::connect(&database.url, settings, clock.clone()).await;
    let store = store.map_err(|error| error.to_string())?;
    store.advance(*ahead.lock().unwrap_or_else(PoisonError::into_inner));
    let (port, bus) = (
        Arc::new(store.clone()),
        Arc::new(MemoryBus::new(clock.clone())),
    );
    let hands = Hands {
        clock,
        store,
        database,
        ahead,
    };
    Ok(Subject::of_store(&port, Some(bus), Arc::new(hands)))
}

#[async_trait]
impl Control for Hands {
    async fn advance(&self, by: Duration) {
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) += by;
        self.store.advance(by);
        // Waits use this clock.
        self.clock.advance(by);
    }

    async fn corrupt(&self, op: OpId) {
        let mut conn = self.database.conn().await;
        let sql = "UPDATE clinch_request SET payload = CONCAT(X'ff', SUBSTRING(payload, 2)) \
                   WHERE op_id = ?";
        let id = op.0.as_bytes().to_vec();
        conn.exec_drop(sql, (id,)).await.expect("the row is there");
    }

    async fn arm(&self, fault: Fault) {
        self.store.fail_next(fault);
    }

    async fn crash(&self) -> Subject {
        let subject = open(
            self.clock.clone(),
            self.database.clone(),
            self.ahead.clone(),
        );
        subject.await.expect("what was committed can be opened")
    }
}

async fn fresh() -> Result<Subject, String> {
    let database = Arc::new(Database::on(&url()).await);
    open(Arc::new(ManualClock::default()), database, Arc::default()).await
}

pub(crate) fn trials() -> Vec<Trial> {
    contract_trials("mysql", cases(Capabilities::ALL), &factory(fresh))
}
