//! The whole contract suite on a MariaDB server (CORE-9, CORE-11, RUN-7, RUN-11, OUT-2, OUT-7).
//!
//! Each case has a database of its own. A crash closes every connection of the instance, as a
//! killed process does, and opens another on the same database; the server itself is killed in
//! `atomicity.rs`.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{
    Capabilities, Control, Factory, Fault, LockPorts, StorePorts, Subject, cases, check, factory,
};
use clinch_core::OpId;
use clinch_memory::{ManualClock, MemoryBus};
use clinch_mysql::{Mysql, Settings};
use clinch_servers::{Kind, Trouble};
use common::Database;
use libtest_mimic::{Arguments, Failed, Trial};
use mysql_async::prelude::Queryable;

struct Hands {
    clock: Arc<ManualClock>,
    store: Mysql,
    database: Arc<Database>,
    /// How far time was moved: a new instance starts from the server's own.
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
    let port = Arc::new(store.clone());
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
            database,
            ahead,
        }),
    })
}

#[async_trait]
impl Control for Hands {
    async fn advance(&self, by: Duration) {
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) += by;
        self.store.advance(by);
        // Waits go by it.
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
        self.store.fail_next(match fault {
            Fault::BeforeCommit => clinch_mysql::Fault::BeforeCommit,
            Fault::MidCommit => clinch_mysql::Fault::MidCommit,
            Fault::AfterCommit => clinch_mysql::Fault::AfterCommit,
        });
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

fn trial(case: clinch_contract::Case, server: Result<String, String>) -> Trial {
    let name = format!("mysql::{}", case.name);
    let kind = case.proves.join(" ");
    let ignored = server.is_err() && !common::must_run();
    let run = move || {
        let server = server.clone().map_err(Failed::from)?;
        let fresh: Factory = factory(move || {
            let server = server.clone();
            async move {
                let database = Arc::new(Database::on(&server).await);
                open(Arc::new(ManualClock::default()), database, Arc::default()).await
            }
        });
        check(&case, &fresh).map_err(Failed::from)
    };
    Trial::test(name, run)
        .with_kind(kind)
        .with_ignored_flag(ignored)
}

fn main() -> ExitCode {
    let capabilities = Capabilities {
        store: true,
        bus: true,
        queue: true,
        locks: true,
        faults: true,
    };
    let arguments = Arguments::from_args();
    // Listing must not start a server.
    let server = match Kind::MariaDb.program() {
        Some(_) if arguments.list => Ok(String::new()),
        Some(_) => clinch_servers::shared(Kind::MariaDb).map_err(|trouble| trouble.to_string()),
        None => Err(Trouble::Missing(Kind::MariaDb).to_string()),
    };
    if let Err(why) = &server {
        eprintln!("{why}");
    }
    let trials = cases(capabilities)
        .into_iter()
        .map(|case| trial(case, server.clone()))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
