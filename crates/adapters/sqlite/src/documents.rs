//! Documents of an application. Their writes share commits with all other writes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{
    DOCUMENTS_MAX, Document, DocumentFilter, DocumentName, DocumentSink, check_document_search,
    check_documents, check_relocation,
};
use rusqlite::{Row, params};

use crate::Sqlite;
use crate::column::{Column, stored};
use crate::query::Query;
use crate::tx::Tx;

/// Documents that one commit removes, so that other callers of the writer get their turn.
const CLEARED_MAX: usize = 1_000;

impl Tx<'_, '_> {
    fn put_documents(&mut self, collection: &str, documents: &[Document]) -> Result<()> {
        for document in documents {
            let Document {
                id,
                kind,
                user,
                resource,
                body,
            } = document;
            let params = params![collection, id, kind, user, resource, body];
            self.db.run(Query::PutDocument, params)?;
        }
        Ok(())
    }

    /// Moves documents in place: their rows stay where they are in the table.
    fn relocate_documents(&mut self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        let mut moved = 0;
        for id in ids {
            let changed = self
                .db
                .run(Query::RelocateDocument, params![from, to, id])?;
            moved += changed as u64;
        }
        Ok(moved)
    }

    /// Removes some documents whose ids follow `after`; returns the last removed id, or `None` at
    /// the end.
    fn clear_documents(
        &mut self,
        collection: &str,
        DocumentFilter {
            user,
            kind,
            resource,
        }: &DocumentFilter,
        after: &str,
    ) -> Result<Option<String>> {
        let params = params![
            collection,
            after,
            user,
            kind,
            resource,
            stored(CLEARED_MAX as u64)
        ];
        let read = |row: &Row<'_>| Ok((row.int(0)?, row.text(1)?));
        let found = self.db.all(Query::ClearableDocuments, params, read)?;
        for (seq, _) in &found {
            self.db.run(Query::DeleteDocument, [seq])?;
        }
        let is_full = found.len() == CLEARED_MAX;
        let last = found.into_iter().next_back();
        Ok(last.filter(|_| is_full).map(|(_, id)| id))
    }
}

#[async_trait]
impl DocumentSink for Sqlite {
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()> {
        check_documents(collection, documents)?;
        if documents.is_empty() {
            return Ok(());
        }
        let (collection, documents) = (collection.to_owned(), documents.to_vec());
        self.write(move |tx| tx.put_documents(&collection, &documents))
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
        let (collection, after) = (collection.to_owned(), after.unwrap_or_default().to_owned());
        let DocumentFilter {
            user,
            kind,
            resource,
        } = filter.clone();
        let query = match (&user, &kind, &resource) {
            (Some(_), Some(_), Some(_)) => Query::DocumentsOfResourceKind,
            (Some(_), Some(_), None) => Query::DocumentsOfKind,
            (Some(_), None, _) => Query::DocumentsOfUser,
            (None, _, _) => Query::Documents,
        };
        let limit = stored(limit.min(DOCUMENTS_MAX) as u64);
        self.read(move |db| {
            let params = params![collection, after, user, kind, resource, limit];
            db.all(query, params, read)
        })
        .await
    }

    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>> {
        check_document_search(collection, filter, after)?;
        let (collection, after) = (collection.to_owned(), after.unwrap_or_default().to_owned());
        let DocumentFilter {
            user,
            kind,
            resource,
        } = filter.clone();
        let query = match (&user, &kind, &resource) {
            (Some(_), Some(_), Some(_)) => Query::DocumentNamesOfResourceKind,
            (Some(_), None, Some(_)) => Query::DocumentNamesOfResource,
            (Some(_), Some(_), None) => Query::DocumentNamesOfKind,
            (Some(_), None, None) => Query::DocumentNamesOfUser,
            (None, _, _) => Query::DocumentNames,
        };
        let limit = stored(limit.min(DOCUMENTS_MAX) as u64);
        self.read(move |db| {
            let params = params![collection, after, user, kind, resource, limit];
            db.all(query, params, read_name)
        })
        .await
    }

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        let filter = DocumentFilter {
            user: user.map(str::to_owned),
            ..DocumentFilter::default()
        };
        check_document_search(collection, &filter, None)?;
        let collection = collection.to_owned();
        let counted = self.read(move |db| {
            let read = |row: &Row<'_>| Ok((row.text(0)?, row.count(1)?));
            match filter.user {
                Some(user) => db.all(Query::CountDocumentsOfUser, [collection, user], read),
                None => db.all(Query::CountDocuments, [collection], read),
            }
        });
        Ok(counted.await?.into_iter().collect())
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        check_document_search(collection, filter, None)?;
        let mut after = Some(String::new());
        while let Some(from) = after {
            let (collection, filter) = (collection.to_owned(), filter.clone());
            let cleared = self.write(move |tx| tx.clear_documents(&collection, &filter, &from));
            after = cleared.await?;
        }
        Ok(())
    }

    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64> {
        check_relocation(from, to, ids)?;
        if ids.is_empty() {
            return Ok(0);
        }
        let (from, to, ids) = (from.to_owned(), to.to_owned(), ids.to_vec());
        self.write(move |tx| tx.relocate_documents(&from, &to, &ids))
            .await
    }
}

fn read(row: &Row<'_>) -> Result<Document> {
    Ok(Document {
        id: row.text(0)?,
        kind: row.text(1)?,
        user: row.text(2)?,
        resource: row.text(3)?,
        body: row.text(4)?,
    })
}

fn read_name(row: &Row<'_>) -> Result<DocumentName> {
    Ok(DocumentName {
        id: row.text(0)?,
        kind: row.text(1)?,
        user: row.text(2)?,
        resource: row.text(3)?,
    })
}
