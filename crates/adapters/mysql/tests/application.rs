//! Records and documents on MariaDB pass the areas `records::` and `documents::`.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::process::ExitCode;
use std::sync::Arc;

use clinch_contract::{
    DocumentsSubject, FailNext, Fault, RecordsSubject, SinkAbilities, documents_cases,
    port_factory, port_trials, records_cases,
};
use clinch_mysql::{Mysql, Settings};
use clinch_servers::{Kind, Trouble};
use common::Database;
use libtest_mimic::Arguments;

async fn open() -> (Arc<Mysql>, FailNext, Arc<Database>) {
    let database = Database::on(&common::url()).await;
    let settings = Settings {
        pool_size: 20,
        ..Settings::default()
    };
    let store = database.open_with(settings).await;
    let failing = store.clone();
    let fail_next = move |fault| {
        failing.fail_next(match fault {
            Fault::BeforeCommit => clinch_mysql::Fault::BeforeCommit,
            Fault::MidCommit => clinch_mysql::Fault::MidCommit,
            Fault::AfterCommit => clinch_mysql::Fault::AfterCommit,
        });
    };
    (Arc::new(store), Arc::new(fail_next), Arc::new(database))
}

fn main() -> ExitCode {
    let is_missing = Kind::MariaDb.program().is_none();
    if is_missing {
        eprintln!("{}", Trouble::Missing(Kind::MariaDb));
    }
    let ignored = is_missing && !common::must_run();
    let records = port_factory(|| async {
        let (records, fail_next, held) = open().await;
        Ok(RecordsSubject {
            records,
            fail_next,
            held,
        })
    });
    let documents = port_factory(|| async {
        let (documents, fail_next, held) = open().await;
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
    let mut trials = port_trials("mysql", records_cases(), &records, ignored);
    trials.extend(port_trials(
        "mysql",
        documents_cases(abilities),
        &documents,
        ignored,
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
