//! The area `documents::` bites: sinks that are wrong in one way each, and the case that must
//! notice. Each is the reference with one flaw in the way.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use clinch_contract::{
    DocumentsSubject, PortCase, PortFactory, SinkAbilities, check_port, documents_cases,
    port_factory,
};
use clinch_core::ports::{Document, DocumentFilter, DocumentSink, check_documents};
use clinch_core::{Error, ErrorKind, Result};
use clinch_memory::{ManualClock, Memory};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    LosesResources,
    KeepsTheFirst,
    TheFirstOfTwoCounts,
    HasOneCollection,
    FoldsCase,
    StoresWhatItCan,
    ClearsEverything,
    ClearsOnePage,
    LeavesHalfBehind,
    SaysThatNothingHappened,
    RewritesBodies,
    OrdersWithoutCase,
    IgnoresUsers,
    IgnoresKinds,
    IgnoresResources,
    PagesOverlap,
    ScansWithoutEnd,
    RemembersWhatItFound,
    CountsOfEverybody,
    LooksForAnything,
}

/// Every flaw with the case that must notice it.
const FLAWS: &[(Flaw, &str)] = &[
    (Flaw::LosesResources, "what_is_stored_is_found"),
    (Flaw::KeepsTheFirst, "the_same_id_again_replaces"),
    (
        Flaw::TheFirstOfTwoCounts,
        "of_two_with_one_id_in_a_call_the_later_counts",
    ),
    (Flaw::HasOneCollection, "collections_do_not_see_each_other"),
    (Flaw::FoldsCase, "ids_are_told_apart_by_their_bytes"),
    (
        Flaw::StoresWhatItCan,
        "bad_documents_are_refused_and_none_is_stored",
    ),
    (
        Flaw::ClearsEverything,
        "clearing_removes_what_the_filter_matches",
    ),
    (Flaw::ClearsOnePage, "clearing_removes_any_number"),
    (Flaw::LeavesHalfBehind, "a_call_that_fails_stores_nothing"),
    (
        Flaw::SaysThatNothingHappened,
        "a_call_whose_end_is_unknown_is_ambiguous",
    ),
    (Flaw::RewritesBodies, "bodies_are_kept_to_the_byte"),
    (Flaw::OrdersWithoutCase, "a_scan_is_in_the_order_of_bytes"),
    (Flaw::IgnoresUsers, "every_narrowing_narrows"),
    (Flaw::IgnoresKinds, "every_narrowing_narrows"),
    (Flaw::IgnoresResources, "every_narrowing_narrows"),
    (Flaw::PagesOverlap, "a_page_goes_on_after_any_id"),
    (Flaw::ScansWithoutEnd, "a_scan_gives_at_most_its_limit"),
    (
        Flaw::RemembersWhatItFound,
        "a_scan_sees_every_commit_that_returned",
    ),
    (
        Flaw::CountsOfEverybody,
        "kinds_are_counted_of_one_user_and_of_all",
    ),
    (
        Flaw::LooksForAnything,
        "what_cannot_be_looked_for_is_refused",
    ),
];

struct Broken {
    flaw: Flaw,
    memory: Memory,
    found: Mutex<HashMap<String, Vec<Document>>>,
}

impl Broken {
    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn collection<'c>(&self, collection: &'c str) -> &'c str {
        match self.flaw {
            Flaw::HasOneCollection if !collection.is_empty() => "all",
            Flaw::LooksForAnything if collection.is_empty() => "none",
            _ => collection,
        }
    }

    /// The document as this one takes it.
    fn take(&self, mut document: Document) -> Document {
        match self.flaw {
            Flaw::LosesResources => document.resource.clear(),
            Flaw::FoldsCase => document.id = document.id.to_lowercase(),
            Flaw::RewritesBodies => document.body = document.body.replace(' ', ""),
            _ => {}
        }
        document
    }

    /// The filter as this one takes it.
    fn narrow(&self, filter: &DocumentFilter) -> DocumentFilter {
        let mut filter = filter.clone();
        match self.flaw {
            Flaw::IgnoresUsers => filter.user = None,
            Flaw::IgnoresKinds => filter.kind = None,
            Flaw::IgnoresResources => filter.resource = None,
            _ => {}
        }
        filter
    }

    async fn everything(&self, collection: &str, filter: &DocumentFilter) -> Result<Vec<Document>> {
        let mut all: Vec<Document> = Vec::new();
        loop {
            let after = all.last().map(|last| last.id.clone());
            let page = self
                .memory
                .scan(collection, filter, after.as_deref(), 1_000);
            let page = page.await?;
            let is_last = page.len() < 1_000;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }
}

#[async_trait]
impl DocumentSink for Broken {
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()> {
        let collection = self.collection(collection);
        let taken = documents.iter().map(|document| self.take(document.clone()));
        let mut taken: Vec<_> = taken.collect();
        match self.flaw {
            Flaw::KeepsTheFirst => {
                let all = DocumentFilter::default();
                let known = self.everything(collection, &all).await?;
                taken.retain(|new| known.iter().all(|old| old.id != new.id));
            }
            Flaw::TheFirstOfTwoCounts => taken.reverse(),
            Flaw::StoresWhatItCan => {
                let mut fits = taken.clone();
                fits.truncate(1_000);
                fits.retain(|one| check_documents("main", std::slice::from_ref(one)).is_ok());
                self.memory.upsert(collection, &fits).await?;
            }
            _ => {}
        }
        let stored = self.memory.upsert(collection, &taken).await;
        match stored {
            Err(error) if self.is(Flaw::LeavesHalfBehind) && error.is_retryable() => {
                self.memory.upsert(collection, &taken[..1]).await?;
                Err(error)
            }
            Err(error) if self.is(Flaw::SaysThatNothingHappened) => {
                Err(Error::new(ErrorKind::Unavailable, error.message()))
            }
            stored => stored,
        }
    }

    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        let (collection, filter) = (self.collection(collection), self.narrow(filter));
        let mut found = self.memory.scan(collection, &filter, after, limit).await?;
        match self.flaw {
            Flaw::OrdersWithoutCase => found.sort_by_key(|document| document.id.to_lowercase()),
            Flaw::PagesOverlap => {
                let again = |document: &Document| Some(document.id.as_str()) == after;
                let all = self.everything(collection, &filter).await?;
                found.splice(0..0, all.into_iter().filter(again));
                found.truncate(limit);
            }
            Flaw::ScansWithoutEnd if limit > 1_000 => {
                found = self.everything(collection, &filter).await?;
            }
            Flaw::RemembersWhatItFound => {
                let mut known = self.found.lock().expect("no panic");
                let asked = format!("{collection} {filter:?} {after:?}");
                found = known.entry(asked).or_insert(found).clone();
            }
            _ => {}
        }
        Ok(found)
    }

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        let user = user.filter(|_| !self.is(Flaw::CountsOfEverybody));
        self.memory.count(self.collection(collection), user).await
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        let collection = self.collection(collection);
        let all = DocumentFilter::default();
        let cleared = match self.flaw {
            Flaw::ClearsEverything => &all,
            _ => filter,
        };
        let before = self.everything(collection, cleared).await?;
        self.memory.clear(collection, cleared).await?;
        if self.is(Flaw::ClearsOnePage) {
            for part in before.get(1_000..).unwrap_or_default().chunks(1_000) {
                self.memory.upsert(collection, part).await?;
            }
        }
        Ok(())
    }
}

fn with(flaw: Flaw) -> PortFactory<DocumentsSubject> {
    port_factory(move || async move {
        let memory = Memory::new(Arc::new(ManualClock::default()));
        let failing = memory.clone();
        let fail_next = move |fault| {
            failing.fail_next(fault);
        };
        let broken = Broken {
            flaw,
            memory,
            found: Mutex::default(),
        };
        Ok(DocumentsSubject {
            documents: Arc::new(broken),
            fail_next: Some(Arc::new(fail_next)),
            held: Arc::new(()),
        })
    })
}

fn cases() -> Vec<PortCase<DocumentsSubject>> {
    documents_cases(SinkAbilities {
        transactional: true,
        exact: true,
    })
}

#[test]
fn a_sink_without_a_flaw_passes_every_case() {
    for case in cases() {
        let verdict = check_port(&case, &with(Flaw::None));
        assert_eq!(verdict, Ok(()), "{}", case.name);
    }
}

#[test]
fn every_flaw_of_a_sink_is_noticed() {
    let cases = cases();
    for (flaw, noticed_by) in FLAWS {
        let name = format!("documents::{noticed_by}");
        let case = cases.iter().find(|case| case.name == name);
        let case = case.expect("the case is there");
        let verdict = check_port(case, &with(*flaw));
        assert!(verdict.is_err(), "{flaw:?} passes {name}");
    }
}

#[test]
fn what_a_sink_does_not_claim_is_not_listed() {
    let plain = documents_cases(SinkAbilities {
        transactional: false,
        exact: false,
    });
    assert_eq!(plain.len() + 3, cases().len());
}
