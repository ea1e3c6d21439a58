//! Records and documents on PostgreSQL pass the areas `records::` and `documents::`.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::process::ExitCode;
use std::sync::Arc;

use clinch_contract::{
    DocumentsSubject, FailNext, Fault, RecordsSubject, SinkAbilities, documents_cases,
    port_factory, port_trials, records_cases,
};
use clinch_postgres::Postgres;
use common::Database;
use libtest_mimic::Arguments;

async fn open() -> Result<(Arc<Postgres>, FailNext, Arc<Database>), String> {
    let database = Database::new().await?;
    let store = database.store().await;
    let failing = store.clone();
    let fail_next = move |fault| {
        failing.fail_next(match fault {
            Fault::BeforeCommit => clinch_postgres::Fault::BeforeCommit,
            Fault::MidCommit => clinch_postgres::Fault::MidCommit,
            Fault::AfterCommit => clinch_postgres::Fault::AfterCommit,
        });
    };
    Ok((Arc::new(store), Arc::new(fail_next), database))
}

fn main() -> ExitCode {
    let records = port_factory(|| async {
        let (records, fail_next, held) = open().await?;
        Ok(RecordsSubject {
            records,
            fail_next,
            held,
        })
    });
    let documents = port_factory(|| async {
        let (documents, fail_next, held) = open().await?;
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
    let mut trials = port_trials("postgres", records_cases(), &records, false);
    trials.extend(port_trials(
        "postgres",
        documents_cases(abilities),
        &documents,
        false,
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
