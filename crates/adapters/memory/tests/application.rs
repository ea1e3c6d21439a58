//! Records and documents in memory pass the areas `records::` and `documents::`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;

use clinch_contract::{
    DocumentsSubject, FailNext, Fault, RecordsSubject, SinkAbilities, documents_cases,
    port_factory, port_trials, records_cases,
};
use clinch_memory::{ManualClock, Memory};
use libtest_mimic::Arguments;

fn open() -> (Arc<Memory>, FailNext) {
    let memory = Memory::new(Arc::new(ManualClock::default()));
    let failing = memory.clone();
    let fail_next = move |fault| {
        failing.fail_next(match fault {
            Fault::BeforeCommit => clinch_memory::Fault::BeforeCommit,
            Fault::MidCommit => clinch_memory::Fault::MidCommit,
            Fault::AfterCommit => clinch_memory::Fault::AfterCommit,
        });
    };
    (Arc::new(memory), Arc::new(fail_next))
}

fn main() -> ExitCode {
    let records = port_factory(|| async {
        let (records, fail_next) = open();
        Ok(RecordsSubject {
            records,
            fail_next,
            held: Arc::new(()),
        })
    });
    let documents = port_factory(|| async {
        let (documents, fail_next) = open();
        Ok(DocumentsSubject {
            documents,
            fail_next: Some(fail_next),
            held: Arc::new(()),
        })
    });
    let abilities = SinkAbilities {
        transactional: true,
        exact: true,
    };
    let mut trials = port_trials("memory", records_cases(), &records, false);
    trials.extend(port_trials(
        "memory",
        documents_cases(abilities),
        &documents,
        false,
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
