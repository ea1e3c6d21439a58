//! Records and documents on a file pass the areas `records::` and `documents::`.

use std::sync::Arc;

use clinch_contract::{ApplicationSubject, application_trials};
use clinch_memory::ManualClock;
use clinch_sqlite::{Settings, Sqlite};
use libtest_mimic::Trial;

use crate::folder::Folder;

async fn open() -> Result<ApplicationSubject<Sqlite>, String> {
    let folder = Folder::new("application");
    let clock = Arc::new(ManualClock::default());
    let sqlite = Sqlite::open(folder.file(), Settings::default(), clock);
    let store = Arc::new(sqlite.map_err(|error| error.to_string())?);
    let failing = store.clone();
    Ok(ApplicationSubject {
        store,
        fail_next: Arc::new(move |fault| failing.fail_next(fault)),
        held: Arc::new(folder),
    })
}

pub(crate) fn trials() -> Vec<Trial> {
    application_trials("sqlite", open)
}
