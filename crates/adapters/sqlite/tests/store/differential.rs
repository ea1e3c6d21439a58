//! The same random calls on the in-memory reference and on a file give the same answers.

use std::sync::Arc;

use clinch_contract::{Subject, differ_nowhere, factory, moved_by};
use clinch_memory::{ManualClock, Memory};
use clinch_sqlite::{Settings, Sqlite};

use crate::common::{Folder, shrink_levels};

async fn memory() -> Result<Subject, String> {
    let clock = Arc::new(ManualClock::default());
    let memory = Arc::new(Memory::new(clock.clone()));
    let hands = moved_by(move |by| {
        clock.advance(by);
        Box::pin(async {})
    });
    Ok(Subject::of_store(&memory, None, hands))
}

async fn sqlite() -> Result<Subject, String> {
    let clock = Arc::new(ManualClock::default());
    let folder = Folder::new("differential");
    let sqlite = Sqlite::open(folder.file(), Settings::default(), clock.clone());
    let sqlite = sqlite.map_err(|error| error.to_string())?;
    // Limits so small that the keys of a sequence are spread over all levels.
    shrink_levels(&sqlite, 2, 6);
    let hands = moved_by(move |by| {
        // Keeps the folder as long as the subject.
        let _held = &folder;
        clock.advance(by);
        Box::pin(async {})
    });
    Ok(Subject::of_store(&Arc::new(sqlite), None, hands))
}

#[test]
fn core_12_a_thousand_sequences_differ_nowhere_from_the_reference() {
    let verdict = differ_nowhere(&factory(memory), &factory(sqlite), 10);
    assert_eq!(verdict, Ok(()));
}
