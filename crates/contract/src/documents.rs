//! Documents of an application: the area `documents::`.

mod lists;
mod relocations;
mod searches;
mod stores;

use std::any::Any;
use std::sync::Arc;

use clinch_core::ports::{Document, DocumentFilter, DocumentName, DocumentSink};

use crate::Fault;
use crate::case::{Failure, Verdict};
use crate::port::{FailNext, PortCase};

/// One fresh, empty implementation.
#[derive(Clone)]
pub struct DocumentsSubject {
    /// The port.
    pub documents: Arc<dyn DocumentSink>,
    /// Makes the next writing call fail, where the sink is transactional.
    pub fail_next: Option<FailNext>,
    /// Kept alive for as long as the case runs, for example a folder.
    pub held: Arc<dyn Any + Send + Sync>,
}

/// Abilities that not every sink has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkAbilities {
    /// A failed call leaves nothing behind, and tests can make a call fail.
    pub transactional: bool,
    /// Bodies are returned byte for byte.
    pub exact: bool,
}

/// Every case of the area `documents::` that a sink with these abilities must pass.
pub fn documents_cases(abilities: SinkAbilities) -> Vec<PortCase<DocumentsSubject>> {
    let areas = [
        stores::CASES,
        searches::CASES,
        lists::CASES,
        relocations::CASES,
    ];
    let mut cases = areas.concat();
    if abilities.transactional {
        cases.extend_from_slice(stores::TRANSACTIONAL);
        cases.extend_from_slice(relocations::TRANSACTIONAL);
    }
    if abilities.exact {
        cases.extend_from_slice(stores::EXACT);
    }
    cases
}

const MAIN: &str = "main";

fn document(id: &str, kind: &str, user: &str, resource: &str) -> Document {
    Document {
        id: id.into(),
        kind: kind.into(),
        user: user.into(),
        resource: resource.into(),
        body: format!("{{\"of\":\"{}\"}}", id.len()),
    }
}

/// A document of which only the id matters.
fn plain(id: &str) -> Document {
    document(id, "issue", "ann", "repo")
}

fn numbered(numbers: std::ops::Range<usize>) -> Vec<Document> {
    numbers.map(|n| plain(&format!("n{n:05}"))).collect()
}

fn all() -> DocumentFilter {
    DocumentFilter::default()
}

/// Every filter of three kinds, users and resources, including one that no document has.
fn filters() -> Vec<DocumentFilter> {
    let values = |names: [&str; 3]| {
        let some = names.map(|name| Some(name.to_owned()));
        some.into_iter().chain([None]).collect::<Vec<_>>()
    };
    let mut filters = Vec::new();
    for user in values(["u1", "u2", "nobody"]) {
        for kind in values(["k1", "K1", "nothing"]) {
            for resource in values(["r1", "r1 ", "nowhere"]) {
                filters.push(DocumentFilter {
                    user: user.clone(),
                    kind: kind.clone(),
                    resource: resource.clone(),
                });
            }
        }
    }
    filters
}

/// Forty documents of two kinds, users and resources, in the order of their ids.
fn mixed() -> Vec<Document> {
    let mixed = |number: usize| {
        let pick = |of: [&'static str; 2], by: usize| of[number / by % 2];
        let (kind, user) = (pick(["k1", "K1"], 1), pick(["u1", "u2"], 2));
        document(&format!("{number:02}"), kind, user, pick(["r1", "r1 "], 4))
    };
    (0..40).map(mixed).collect()
}

/// Ids in the order of their bytes, which is no other order.
const IDS: [&str; 13] = [
    "!",
    "10",
    "9",
    "A",
    "B",
    "a",
    "aB",
    "ab",
    "a\u{308}",
    "b",
    "\u{e4}",
    "\u{ffff}",
    "\u{10000}",
];

/// Documents with those ids, in another order.
fn disordered() -> [Document; 13] {
    let mut documents = IDS.map(plain);
    documents.rotate_left(5);
    documents.swap(0, 9);
    documents
}

impl DocumentsSubject {
    async fn store(&self, documents: &[Document]) -> Verdict {
        Ok(self.documents.upsert(MAIN, documents).await?)
    }

    /// Every document that the filter matches, page by page.
    async fn scan(&self, collection: &str, filter: &DocumentFilter) -> Verdict<Vec<Document>> {
        const PAGE: usize = 400;
        let mut found: Vec<Document> = Vec::new();
        loop {
            let after = found.last().map(|last| last.id.clone());
            let sink = &self.documents;
            let page = sink.scan(collection, filter, after.as_deref(), PAGE);
            let page = page.await?;
            ensure!(page.len() <= PAGE, "a page of {}", page.len());
            let is_last = page.len() < PAGE;
            found.extend(page);
            if is_last {
                return Ok(found);
            }
        }
    }

    /// The names of every document that the filter matches, page by page.
    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        page_size: usize,
    ) -> Verdict<Vec<DocumentName>> {
        let mut found: Vec<DocumentName> = Vec::new();
        loop {
            let after = found.last().map(|last| last.id.clone());
            let sink = &self.documents;
            let page = sink.list(collection, filter, after.as_deref(), page_size);
            let page = page.await?;
            ensure!(page.len() <= page_size, "a page of {}", page.len());
            let is_last = page.len() < page_size;
            found.extend(page);
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Makes the next writing call fail.
    fn fail_next(&self, fault: Fault) -> Verdict {
        let missing = || Failure::new("a transactional sink must be able to fail");
        self.fail_next.as_ref().ok_or_else(missing)?(fault);
        Ok(())
    }

    async fn everything(&self) -> Verdict<Vec<Document>> {
        self.scan(MAIN, &all()).await
    }

    async fn ids(&self, filter: &DocumentFilter) -> Verdict<Vec<String>> {
        let found = self.scan(MAIN, filter).await?;
        Ok(found.into_iter().map(|document| document.id).collect())
    }
}
