//! The area `documents::` bites: sinks that are wrong in one way each, and the case that must
//! notice. Each is the reference with one flaw in the way.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use clinch_contract::{
    DocumentsSubject, PortCase, PortFactory, SinkAbilities, check_port, documents_cases,
    port_factory,
};
use clinch_core::ports::{
    Document, DocumentFilter, DocumentName, DocumentSink, check_documents, check_relocation,
};
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
    ListsOtherKinds,
    ListsWithoutCase,
    ListsAgain,
    ListsWithoutEnd,
    RemembersWhatItListed,
    ListsAnything,
    Copies,
    KeepsTheOtherOne,
    CountsWhatIsNotThere,
    MovesEverything,
    MovesAPage,
    CountsMovesOfOthers,
    MovesAnything,
    MovesHalf,
    SaysThatNothingMoved,
    MovesOneByOne,
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
    (Flaw::ListsOtherKinds, "a_list_names_what_a_scan_finds"),
    (Flaw::ListsWithoutCase, "a_list_is_in_the_order_of_bytes"),
    (Flaw::ListsAgain, "a_list_goes_on_after_any_id"),
    (Flaw::ListsWithoutEnd, "a_list_gives_at_most_its_limit"),
    (
        Flaw::RemembersWhatItListed,
        "a_list_sees_every_commit_that_returned",
    ),
    (Flaw::ListsAnything, "what_cannot_be_listed_is_refused"),
    (
        Flaw::Copies,
        "relocated_documents_are_in_the_other_collection_only",
    ),
    (
        Flaw::KeepsTheOtherOne,
        "a_relocated_document_replaces_one_with_its_id",
    ),
    (
        Flaw::CountsWhatIsNotThere,
        "ids_that_are_not_there_are_not_relocated",
    ),
    (Flaw::MovesEverything, "without_ids_nothing_is_relocated"),
    (Flaw::MovesAPage, "the_largest_relocation_is_taken"),
    (
        Flaw::CountsMovesOfOthers,
        "of_callers_that_relocate_the_same_each_document_counts_once",
    ),
    (
        Flaw::MovesAnything,
        "bad_relocations_are_refused_and_none_is_moved",
    ),
    (Flaw::MovesHalf, "a_relocation_that_fails_moves_nothing"),
    (
        Flaw::SaysThatNothingMoved,
        "a_relocation_whose_end_is_unknown_is_ambiguous",
    ),
    (
        Flaw::MovesOneByOne,
        "relocations_back_and_forth_lose_no_document",
    ),
];

struct Broken {
    flaw: Flaw,
    memory: Memory,
    found: Mutex<HashMap<String, Vec<Document>>>,
    listed: Mutex<HashMap<String, Vec<DocumentName>>>,
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

    /// The collection and the filter of a list as this one takes them.
    fn listing(&self, collection: &str, filter: &DocumentFilter) -> (String, DocumentFilter) {
        let (mut collection, mut filter) = (collection.to_owned(), filter.clone());
        match self.flaw {
            Flaw::ListsOtherKinds => filter.kind = None,
            Flaw::ListsAnything => collection = collection.replace('\0', ""),
            _ => {}
        }
        (collection, filter)
    }

    /// Copies documents and then removes them: others see what is between.
    async fn move_one_by_one(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        let all = DocumentFilter::default();
        let mut found = self.everything(from, &all).await?;
        found.retain(|document| ids.contains(&document.id));
        for document in &found {
            let one = std::slice::from_ref(document);
            self.memory.upsert(to, one).await?;
            tokio::task::yield_now().await;
            let spare = "a collection that no case looks at";
            let id = [document.id.clone()];
            self.memory.relocate(from, spare, &id).await?;
        }
        Ok(found.len() as u64)
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

    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>> {
        let (collection, filter) = self.listing(collection, filter);
        let from = after.filter(|_| !self.is(Flaw::ListsAgain));
        let listed = DocumentSink::list(&self.memory, &collection, &filter, from, limit);
        let mut listed = listed.await?;
        match self.flaw {
            Flaw::ListsWithoutCase => listed.sort_by_key(|name| name.id.to_lowercase()),
            Flaw::ListsAgain => listed.retain(|name| Some(name.id.as_str()) >= after),
            Flaw::ListsWithoutEnd if limit > 1_000 => {
                let all = self.everything(&collection, &filter).await?;
                listed = all.iter().map(DocumentName::from).collect();
            }
            Flaw::RemembersWhatItListed => {
                let mut known = self.listed.lock().expect("no panic");
                let asked = format!("{collection} {filter:?} {after:?}");
                listed = known.entry(asked).or_insert(listed).clone();
            }
            _ => {}
        }
        Ok(listed)
    }

    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        let all = DocumentFilter::default();
        let mut ids = ids.to_vec();
        let mut before = Vec::new();
        if matches!(
            self.flaw,
            Flaw::Copies | Flaw::MovesEverything | Flaw::KeepsTheOtherOne
        ) {
            before = self.everything(from, &all).await?;
        }
        match self.flaw {
            Flaw::MovesEverything => ids = before.iter().map(|one| one.id.clone()).collect(),
            Flaw::MovesAPage => ids.truncate(100),
            Flaw::MovesOneByOne => return self.move_one_by_one(from, to, &ids).await,
            Flaw::MovesAnything if check_relocation(from, to, &ids).is_err() => {
                ids.retain(|id| check_relocation("from", "to", std::slice::from_ref(id)).is_ok());
                ids.truncate(1_000);
            }
            Flaw::KeepsTheOtherOne => {
                let there = self.everything(to, &all).await?;
                ids.retain(|id| there.iter().all(|one| one.id != *id));
            }
            _ => {}
        }
        let moved = self.memory.relocate(from, to, &ids).await;
        match self.flaw {
            Flaw::Copies => self.memory.upsert(from, &before).await?,
            Flaw::MovesHalf if moved.is_err() => {
                self.memory.relocate(from, to, &ids[..1]).await?;
            }
            Flaw::CountsWhatIsNotThere | Flaw::CountsMovesOfOthers => {
                return moved.map(|_| ids.len() as u64);
            }
            Flaw::SaysThatNothingMoved => {
                let unavailable =
                    |error: Error| Error::new(ErrorKind::Unavailable, error.message());
                return moved.map_err(unavailable);
            }
            _ => {}
        }
        moved
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
            listed: Mutex::default(),
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
    assert_eq!(plain.len() + 6, cases().len());
}
