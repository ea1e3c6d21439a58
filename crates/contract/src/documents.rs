//! Documents of an application: the area `documents::`.

mod searches;
mod stores;

use std::any::Any;
use std::sync::Arc;

use clinch_core::ports::{Document, DocumentFilter, DocumentSink};

use crate::case::Verdict;
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
    let mut cases = [stores::CASES, searches::CASES].concat();
    if abilities.transactional {
        cases.extend_from_slice(stores::TRANSACTIONAL);
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

    async fn everything(&self) -> Verdict<Vec<Document>> {
        self.scan(MAIN, &all()).await
    }

    async fn ids(&self, filter: &DocumentFilter) -> Verdict<Vec<String>> {
        let found = self.scan(MAIN, filter).await?;
        Ok(found.into_iter().map(|document| document.id).collect())
    }
}
