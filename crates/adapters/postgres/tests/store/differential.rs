//! The same random calls on the in-memory reference and on PostgreSQL give the same answers.

use std::sync::Arc;

use clinch_contract::{Subject, differ_nowhere, factory, moved_by};
use clinch_memory::{ManualClock, Memory};
use clinch_postgres::{Postgres, Settings};

use crate::common::{Database, advance};

async fn memory() -> Result<Subject, String> {
    let clock = Arc::new(ManualClock::default());
    let memory = Arc::new(Memory::new(clock.clone()));
    let hands = moved_by(move |by| {
        clock.advance(by);
        Box::pin(async {})
    });
    Ok(Subject::of_store(&memory, None, hands))
}

async fn postgres() -> Result<Subject, String> {
    let clock = Arc::new(ManualClock::default());
    let database = Database::with_still_clock().await?;
    let store = Postgres::connect(&database.url(), Settings::default(), clock.clone()).await;
    let store = store.map_err(|error| error.to_string())?;
    let server = Arc::new((database.client().await, database));
    let hands = moved_by(move |by| {
        let (server, clock) = (server.clone(), clock.clone());
        Box::pin(async move {
            advance(&server.0, by).await;
            clock.advance(by);
        })
    });
    Ok(Subject::of_store(&Arc::new(store), None, hands))
}

#[test]
fn core_12_a_thousand_sequences_differ_nowhere_from_the_reference() {
    let verdict = differ_nowhere(&factory(memory), &factory(postgres), 25);
    assert_eq!(verdict, Ok(()));
}
