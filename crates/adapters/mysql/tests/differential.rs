//! The same random calls on the in-memory reference and on a server give the same answers.
//!
//! `CLINCH_SEQUENCES` sets how many sequences are played (1,000 by default), and
//! `CLINCH_SEED` the first.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use async_trait::async_trait;
use clinch_contract::{
    Control, Factory, Fault, LockPorts, Sequences, StorePorts, Subject, differ, factory,
};
use clinch_core::OpId;
use clinch_core::ports::Clock;
use clinch_memory::{ManualClock, Memory};
use clinch_mysql::{Mysql, Settings};
use common::Database;

/// Moves both clocks, and keeps the database.
struct Hands {
    clock: Arc<ManualClock>,
    store: Option<(Mysql, Database)>,
}

#[async_trait]
impl Control for Hands {
    async fn advance(&self, by: std::time::Duration) {
        self.clock.advance(by);
        if let Some((store, _)) = &self.store {
            store.advance(by);
        }
    }
    async fn corrupt(&self, _op: OpId) {}
    async fn arm(&self, _fault: Fault) {}
    async fn crash(&self) -> Subject {
        memory_subject()
    }
}

macro_rules! subject {
    ($port:expr, $hands:expr) => {{
        let port = Arc::new($port);
        Subject {
            store: Some(StorePorts {
                store: port.clone(),
                outbox: port.clone(),
                recovery: port.clone(),
                batches: port.clone(),
                domains: port.clone(),
                inspect: port.clone(),
                notices: port.clone(),
            }),
            bus: None,
            queue: Some(port.clone()),
            locks: Some(LockPorts {
                locks: port.clone(),
                leader: port,
            }),
            control: Arc::new($hands),
        }
    }};
}

fn memory_subject() -> Subject {
    let clock = Arc::new(ManualClock::default());
    let hands = Hands {
        clock: clock.clone(),
        store: None,
    };
    subject!(Memory::new(clock), hands)
}

async fn mysql_subject(server: &str) -> Result<Subject, String> {
    let clock = Arc::new(ManualClock::default());
    let database = Database::on(server).await;
    let store = Mysql::connect(&database.url, Settings::default(), clock.clone()).await;
    let store = store.map_err(|error| error.to_string())?;
    store.stop_clock(clock.now());
    let hands = Hands {
        clock,
        store: Some((store.clone(), database)),
    };
    Ok(subject!(store, hands))
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn core_12_a_thousand_sequences_differ_nowhere_from_the_reference() {
    const THREADS: u64 = 4;
    let server = common::url();
    let (count, first) = (number("CLINCH_SEQUENCES", 1_000), number("CLINCH_SEED", 1));
    let play = |thread: u64| {
        let plan = Sequences {
            from: first + thread * count / THREADS,
            count: count.div_ceil(THREADS),
            calls: 60,
            each: 10,
        };
        let server = server.clone();
        std::thread::spawn(move || {
            let reference: Factory = factory(|| async { Ok(memory_subject()) });
            let other: Factory = factory(move || {
                let server = server.clone();
                async move { mysql_subject(&server).await }
            });
            common::on_a_runtime(differ(&reference, &other, plan))
        })
    };
    let threads: Vec<_> = (0..THREADS).map(play).collect();
    for thread in threads {
        let verdict = thread.join().expect("no panic");
        assert_eq!(verdict, Ok(()));
    }
}

common::tests! {
    core_12_a_thousand_sequences_differ_nowhere_from_the_reference,
}
