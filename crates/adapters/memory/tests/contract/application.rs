//! Records and documents in memory pass the areas `records::` and `documents::`.

use std::sync::Arc;

use clinch_contract::{ApplicationSubject, application_trials};
use clinch_memory::{ManualClock, Memory};
use libtest_mimic::Trial;

async fn open() -> Result<ApplicationSubject<Memory>, String> {
    let store = Arc::new(Memory::new(Arc::new(ManualClock::default())));
    let failing = store.clone();
    Ok(ApplicationSubject {
        store,
        fail_next: Arc::new(move |fault| failing.fail_next(fault)),
        held: Arc::new(()),
    })
}

pub(crate) fn trials() -> Vec<Trial> {
    application_trials("memory", open)
}
