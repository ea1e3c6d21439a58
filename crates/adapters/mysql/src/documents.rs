//! Documents of an application.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{
    DOCUMENTS_MAX, Document, DocumentFilter, DocumentName, DocumentSink, check_document_search,
    check_documents, check_relocation,
};
use mysql_async::Row;

use crate::Mysql;
use crate::column::Column;
use crate::query::Query;
use crate::text::{self, Tuple};

/// Documents that one commit removes: it holds their locks until it ends.
const CLEARED_MAX: usize = 1_000;

/// The search conditions as SQL text.
struct Search {
    collection: String,
    user: String,
    kind: String,
    resource: String,
}

impl Search {
    fn new(collection: &str, filter: &DocumentFilter) -> Self {
        let maybe = |text: &Option<String>| text.as_ref().map_or("NULL".into(), text::literal);
        Self {
            collection: text::literal(collection),
            user: maybe(&filter.user),
            kind: maybe(&filter.kind),
            resource: maybe(&filter.resource),
        }
    }

    fn fill(&self, query: Query, more: &[(&str, &str)]) -> String {
        let mut values = vec![
            ("collection", self.collection.as_str()),
            ("user", &self.user),
            ("kind", &self.kind),
            ("resource", &self.resource),
        ];
        values.extend(more);
        query.with(&values)
    }
}

#[async_trait]
impl DocumentSink for Mysql {
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()> {
        check_documents(collection, documents)?;
        // Of two documents with the same id the later one counts. Locks are taken in order of ids.
        let by_id = documents.iter().map(|document| (&document.id, document));
        let by_id: BTreeMap<_, _> = by_id.collect();
        let row = |document: &Document| {
            Tuple::new()
                .bytes(collection)
                .bytes(&document.id)
                .bytes(&document.kind)
                .bytes(&document.user)
                .bytes(&document.resource)
                .bytes(&document.body)
                .end()
        };
        let rows: Vec<_> = by_id.into_values().map(row).collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.write(rows, |tx, rows| {
            tx.later.add_rows(Query::PutDocuments, rows);
            Box::pin(async { Ok(()) })
        })
        .await
    }

    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        check_document_search(collection, filter, after)?;
        // Left to itself, the server may walk all documents of the kind to save a sort.
        let hint = match (&filter.user, &filter.kind, &filter.resource) {
            (Some(_), Some(_), Some(_)) => "FORCE INDEX (by_resource)",
            _ => "",
        };
        let sql = Search::new(collection, filter).fill(
            Query::Documents,
            &[
                ("hint", hint),
                ("after", &text::literal(after.unwrap_or_default())),
                ("limit", &limit.min(DOCUMENTS_MAX).to_string()),
            ],
        );
        self.query(sql).await?.iter().map(read).collect()
    }

    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>> {
        check_document_search(collection, filter, after)?;
        // Left to itself, the server may walk all ids of the collection to save a sort.
        let index = match (&filter.user, &filter.kind, &filter.resource) {
            (Some(_), Some(_), None) => "by_user",
            (Some(_), _, _) => "by_resource",
            (None, _, _) => "PRIMARY",
        };
        let sql = Search::new(collection, filter).fill(
            Query::DocumentNames,
            &[
                ("index", index),
                ("after", &text::literal(after.unwrap_or_default())),
                ("limit", &limit.min(DOCUMENTS_MAX).to_string()),
            ],
        );
        self.query(sql).await?.iter().map(read_name).collect()
    }

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        let filter = DocumentFilter {
            user: user.map(str::to_owned),
            ..DocumentFilter::default()
        };
        check_document_search(collection, &filter, None)?;
        let sql = Search::new(collection, &filter).fill(Query::CountDocuments, &[]);
        let read = |row: &Row| Ok((row.text(0)?, row.count(1)?));
        self.query(sql).await?.iter().map(read).collect()
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        check_document_search(collection, filter, None)?;
        let search = Search::new(collection, filter);
        let limit = CLEARED_MAX.to_string();
        let mut after = Vec::new();
        loop {
            let from = text::literal(&after);
            let more = [("after", from.as_str()), ("limit", &limit)];
            let rows = self.query(search.fill(Query::ClearableDocuments, &more));
            let rows = rows.await?;
            let ids: Vec<_> = rows.iter().map(|row| row.bytes(0)).collect::<Result<_>>()?;
            let Some(last) = ids.last() else {
                return Ok(());
            };
            after = last.to_vec();
            let (list, is_last) = (text::list(&ids), ids.len() < CLEARED_MAX);
            let sql = search.fill(Query::ClearDocuments, &[("ids", &list)]);
            let cleared = self.write(sql, |tx, sql| {
                tx.later.add(sql);
                Box::pin(async { Ok(()) })
            });
            cleared.await?;
            if is_last {
                return Ok(());
            }
        }
    }

    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        check_relocation(from, to, ids)?;
        if ids.is_empty() {
            return Ok(0);
        }
        let call = (text::literal(from), text::literal(to), text::list(ids));
        self.write(call, |tx, (from, to, ids)| {
            Box::pin(async move {
                let asked = [("collection", from.as_str()), ("ids", ids)];
                let rows = tx.query(&Query::LockDocuments.with(&asked)).await?;
                if rows.is_empty() {
                    return Ok(0);
                }
                let found: Vec<_> = rows.iter().map(|row| row.bytes(0)).collect::<Result<_>>()?;
                let (found, moved) = (text::list(&found), found.len() as u64);
                let copied = [("from", from.as_str()), ("to", to), ("ids", &found)];
                tx.later.add(&Query::CopyDocuments.with(&copied));
                let deleted = [("collection", from.as_str()), ("ids", &found)];
                tx.later.add(&Query::DeleteDocuments.with(&deleted));
                Ok(moved)
            })
        })
        .await
    }
}

fn read(row: &Row) -> Result<Document> {
    Ok(Document {
        id: row.text(0)?,
        kind: row.text(1)?,
        user: row.text(2)?,
        resource: row.text(3)?,
        body: row.text(4)?,
    })
}

fn read_name(row: &Row) -> Result<DocumentName> {
    Ok(DocumentName {
        id: row.text(0)?,
        kind: row.text(1)?,
        user: row.text(2)?,
        resource: row.text(3)?,
    })
}
