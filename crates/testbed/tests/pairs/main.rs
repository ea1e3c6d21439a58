//! Stores with buses of another make, on real servers: every scenario of the engine by hints
//! (CORE-11, RUN-3, RUN-7, RUN-11, COL-7).
//!
//! Without a server its cases show as ignored; with `CI=true` they fail.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod buses;
mod stores;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{
    Capabilities, Case, Control, Factory, Fault, Need, StorePorts, Subject, cases, check, factory,
};
use clinch_core::OpId;
use clinch_memory::ManualClock;
use clinch_testbed::{Kind, Trouble};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::buses::Line;
use crate::stores::Rows;

/// Those of the design; SQLite with Redis and with NATS are in the suites of these.
const PAIRS: [(Kind, Kind); 3] = [
    (Kind::MariaDb, Kind::Redis),
    (Kind::Postgres, Kind::Redis),
    (Kind::Postgres, Kind::Nats),
];

const BOTH: Capabilities = Capabilities {
    store: true,
    bus: true,
    queue: false,
    locks: false,
    faults: false,
};

/// The suite's hands on one pair.
struct Hands {
    clock: Arc<ManualClock>,
    rows: Rows,
    line: Line,
}

async fn open(clock: Arc<ManualClock>, rows: Rows, line: Line) -> Result<Subject, String> {
    let ports: StorePorts = rows.ports();
    Ok(Subject {
        store: Some(ports),
        bus: Some(line.bus()),
        queue: None,
        locks: None,
        control: Arc::new(Hands { clock, rows, line }),
    })
}

#[async_trait]
impl Control for Hands {
    async fn advance(&self, by: Duration) {
        // The servers first: who wakes by the other clock asks them.
        self.rows.advance(by).await;
        self.line.advance(by).await;
        self.clock.advance(by);
    }

    async fn corrupt(&self, _op: OpId) {
        unreachable!("the store's own suite does this");
    }

    async fn arm(&self, _fault: Fault) {
        unreachable!("faults are not claimed");
    }

    async fn crash(&self) -> Subject {
        let rows = self.rows.again(self.clock.clone()).await;
        let rows = rows.expect("what was committed can be opened");
        let opened = open(self.clock.clone(), rows, self.line.clone()).await;
        opened.expect("the bus goes on")
    }
}

async fn fresh(store: Kind, bus: Kind) -> Result<Subject, String> {
    let clock = Arc::new(ManualClock::default());
    let rows = Rows::fresh(store, clock.clone()).await?;
    let line = Line::fresh(bus, clock.clone()).await?;
    open(clock, rows, line).await
}

/// A server that is not installed is no failure, but on a machine that should have it.
fn missing(kind: Kind) -> Option<String> {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let is_there = kind.program().is_some() || std::env::var(kind.variable()).is_ok();
    (!in_ci && !is_there).then(|| Trouble::Missing(kind).to_string())
}

fn trial(case: Case, factory: Factory, store: Kind, bus: Kind) -> Trial {
    let name = format!("{store}_and_{bus}::{}", case.name);
    let why = missing(store).or_else(|| missing(bus));
    let run = move || check(&case, &factory).map_err(Failed::from);
    let kind = why.clone().unwrap_or_else(|| case.proves.join(" "));
    Trial::test(name, run)
        .with_kind(kind)
        .with_ignored_flag(why.is_some())
}

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for (store, bus) in PAIRS {
        let factory = factory(move || fresh(store, bus));
        // What needs one of the two alone is its own suite.
        let both = cases(BOTH).into_iter();
        let both = both.filter(|case| case.needs == Need::StoreAndBus);
        trials.extend(both.map(|case| trial(case, factory.clone(), store, bus)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
