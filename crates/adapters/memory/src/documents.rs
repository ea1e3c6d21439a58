//! Documents of an application.

use std::collections::BTreeMap;
use std::ops::Bound;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{
    DOCUMENTS_MAX, Document, DocumentFilter, DocumentName, DocumentSink, check_document_search,
    check_documents, check_relocation,
};

use crate::{Memory, Tables};

/// Documents of one collection after an id, in order.
fn after<'t>(
    tables: &'t Tables,
    collection: &'t str,
    after: &str,
) -> impl Iterator<Item = &'t Document> {
    let first = Bound::Excluded((collection.to_owned(), after.to_owned()));
    let found = tables.documents.range((first, Bound::Unbounded));
    let found = found.take_while(move |((of, _), _)| of == collection);
    found.map(|(_, document)| document)
}

#[async_trait]
impl DocumentSink for Memory {
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()> {
        check_documents(collection, documents)?;
        self.write(|tx| {
            for document in documents {
                let key = (collection.to_owned(), document.id.clone());
                tx.tables.documents.insert(key, document.clone());
            }
            Ok(())
        })
    }

    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        last: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        check_document_search(collection, filter, last)?;
        Ok(self.read(|tables, _| {
            let found = after(tables, collection, last.unwrap_or_default());
            let found = found.filter(|document| filter.matches(document));
            found.take(limit.min(DOCUMENTS_MAX)).cloned().collect()
        }))
    }

    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        last: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>> {
        check_document_search(collection, filter, last)?;
        Ok(self.read(|tables, _| {
            let found = after(tables, collection, last.unwrap_or_default());
            let found = found.filter(|document| filter.matches(document));
            let found = found.take(limit.min(DOCUMENTS_MAX));
            found.map(DocumentName::from).collect()
        }))
    }

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        let filter = DocumentFilter {
            user: user.map(str::to_owned),
            ..DocumentFilter::default()
        };
        check_document_search(collection, &filter, None)?;
        Ok(self.read(|tables, _| {
            let mut counts = BTreeMap::new();
            for document in after(tables, collection, "").filter(|one| filter.matches(one)) {
                *counts.entry(document.kind.clone()).or_default() += 1;
            }
            counts
        }))
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        check_document_search(collection, filter, None)?;
        self.write(|tx| {
            let all = after(tx.tables, collection, "");
            let gone = all.filter(|document| filter.matches(document));
            let gone: Vec<_> = gone.map(|document| document.id.clone()).collect();
            for id in gone {
                tx.tables.documents.remove(&(collection.to_owned(), id));
            }
            Ok(())
        })
    }

    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        check_relocation(from, to, ids)?;
        self.write(|tx| {
            let mut moved = 0;
            for id in ids {
                let documents = &mut tx.tables.documents;
                let key = (from.to_owned(), id.clone());
                if let Some(document) = documents.get(&key).cloned() {
                    documents.remove(&key);
                    documents.insert((to.to_owned(), id.clone()), document);
                    moved += 1;
                }
            }
            Ok(moved)
        })
    }
}
