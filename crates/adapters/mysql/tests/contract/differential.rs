//! The same random calls on the in-memory reference and on a server give the same answers.

use std::sync::Arc;

use clinch_contract::{Subject, differ_nowhere, factory, moved_by};
use clinch_core::ports::Clock;
use clinch_memory::{ManualClock, Memory};
use clinch_mysql::{Mysql, Settings};

use crate::common::{Database, url};

async fn memory() -> Result<Subject, String> {
    let clock = Arc::new(ManualClock::default());
    let memory = Arc::new(Memory::new(clock.clone()));
    let hands = moved_by(move |by| {
        clock.advance(by);
        Box::pin(async {})
    });
    Ok(Subject::of_store(&memory, None, hands))
}

async fn mysql() -> Result<Subject, String> {
    let clock = Arc::new(ManualClock::default());
    let database = Database::on(&url()).await;
    let store = Mysql::connect(&database.url, Settings::default(), clock.clone()).await;
    let store = store.map_err(|error| error.to_string())?;
    store.stop_clock(clock.now());
    let port = Arc::new(store.clone());
    let hands = moved_by(move |by| {
        // Keeps the database as long as the subject.
        let _held = &database;
        clock.advance(by);
        store.advance(by);
        Box::pin(async {})
    });
    Ok(Subject::of_store(&port, None, hands))
}

fn core_12_a_thousand_sequences_differ_nowhere_from_the_reference() {
    let verdict = differ_nowhere(&factory(memory), &factory(mysql), 10);
    assert_eq!(verdict, Ok(()));
}

clinch_contract::tests! {
    core_12_a_thousand_sequences_differ_nowhere_from_the_reference,
}
