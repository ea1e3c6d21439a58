//! The two application ports, records and documents, on one store.

use std::any::Any;
use std::sync::Arc;

use clinch_core::ports::{DocumentSink, Records};
use libtest_mimic::Trial;

use crate::{
    DocumentsSubject, FailNext, RecordsSubject, SinkAbilities, documents_cases, port_factory,
    port_trials, records_cases,
};

/// A fresh, empty store with both ports.
pub struct ApplicationSubject<S> {
    /// The store.
    pub store: Arc<S>,
    /// Makes its next writing call fail.
    pub fail_next: FailNext,
    /// Kept alive for as long as a case runs, for example a folder.
    pub held: Arc<dyn Any + Send + Sync>,
}

/// Every case of the areas `records::` and `documents::`, as tests of a store that keeps documents
/// exactly and in its own transactions.
pub fn application_trials<S, F, O>(adapter: &str, open: F) -> Vec<Trial>
where
    S: Records + DocumentSink + 'static,
    F: Fn() -> O + Clone + Send + Sync + 'static,
    O: Future<Output = Result<ApplicationSubject<S>, String>> + Send + 'static,
{
    let reopen = open.clone();
    let records = port_factory(move || {
        let opening = open();
        async move {
            let opened = opening.await?;
            Ok(RecordsSubject {
                records: opened.store,
                fail_next: opened.fail_next,
                held: opened.held,
            })
        }
    });
    let documents = port_factory(move || {
        let opening = reopen();
        async move {
            let opened = opening.await?;
            Ok(DocumentsSubject {
                documents: opened.store,
                fail_next: Some(opened.fail_next),
                held: opened.held,
            })
        }
    });
    let abilities = SinkAbilities {
        transactional: true,
        exact: true,
    };
    let mut trials = port_trials(adapter, records_cases(), &records, false);
    let documents = port_trials(adapter, documents_cases(abilities), &documents, false);
    trials.extend(documents);
    trials
}
