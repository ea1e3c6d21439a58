//! Records and documents on a file pass the areas `records::` and `documents::`.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::process::ExitCode;
use std::sync::Arc;

use clinch_contract::{
    DocumentsSubject, FailNext, Fault, RecordsSubject, SinkAbilities, documents_cases,
    port_factory, port_trials, records_cases,
};
use clinch_sqlite::Sqlite;
use common::Folder;
use libtest_mimic::Arguments;

fn open() -> (Arc<Sqlite>, FailNext, Arc<Folder>) {
    let folder = Folder::new("application");
    let sqlite = common::open(&folder);
    let failing = sqlite.clone();
    let fail_next = move |fault| {
        failing.fail_next(match fault {
            Fault::BeforeCommit => clinch_sqlite::Fault::BeforeCommit,
            Fault::MidCommit => clinch_sqlite::Fault::MidCommit,
            Fault::AfterCommit => clinch_sqlite::Fault::AfterCommit,
        });
    };
    (Arc::new(sqlite), Arc::new(fail_next), Arc::new(folder))
}

fn main() -> ExitCode {
    let records = port_factory(|| async {
        let (records, fail_next, held) = open();
        Ok(RecordsSubject {
            records,
            fail_next,
            held,
        })
    });
    let documents = port_factory(|| async {
        let (documents, fail_next, held) = open();
        Ok(DocumentsSubject {
            documents,
            fail_next: Some(fail_next),
            held,
        })
    });
    let abilities = SinkAbilities {
        transactional: true,
        exact: true,
    };
    let mut trials = port_trials("sqlite", records_cases(), &records, false);
    trials.extend(port_trials(
        "sqlite",
        documents_cases(abilities),
        &documents,
        false,
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
