//! Documents of an application.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use clinch_core::Result;
use clinch_core::ports::{
    DOCUMENTS_MAX, Document, DocumentFilter, DocumentName, DocumentSink, check_document_search,
    check_documents, check_relocation,
};
use tokio_postgres::Row;

use crate::Postgres;
use crate::link::Params;
use crate::query::Query;
use crate::row::{count, stored};

/// Documents that one commit removes: it holds their locks until it ends.
const CLEARED_MAX: usize = 1_000;

/// Documents of one call, by id: each once, and locked in this order.
type ById = BTreeMap<String, Document>;

impl Postgres {
    /// One page of what the statement looks for.
    async fn search(
        &self,
        query: Query,
        collection: &str,
        filter: &DocumentFilter,
        after: &str,
        limit: usize,
    ) -> Result<Vec<Row>> {
        let limit = stored(limit as u64);
        let params: Params<'_> = &[
            &collection,
            &after,
            &filter.user,
            &filter.kind,
            &filter.resource,
            &limit,
        ];
        self.shared.query(query, params).await
    }

    /// Removes those of the documents that the filter still matches.
    async fn clear_some(
        &self,
        collection: &str,
        ids: Vec<String>,
        filter: &DocumentFilter,
    ) -> Result<()> {
        let call = (collection.to_owned(), ids, filter.clone());
        self.write(call, |tx, (collection, ids, filter)| {
            Box::pin(async move {
                let params: Params<'_> = &[
                    collection,
                    ids,
                    &filter.user,
                    &filter.kind,
                    &filter.resource,
                ];
                tx.query(Query::ClearDocuments, params).await.map(|_| ())
            })
        })
        .await
    }
}

#[async_trait]
impl DocumentSink for Postgres {
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()> {
        check_documents(collection, documents)?;
        if documents.is_empty() {
            return Ok(());
        }
        let by_id = |document: &Document| (document.id.clone(), document.clone());
        let by_id: ById = documents.iter().map(by_id).collect();
        let call = (collection.to_owned(), by_id);
        self.write(call, |tx, (collection, by_id)| {
            Box::pin(async move {
                let column = |of: fn(&Document) -> &str| by_id.values().map(of).collect();
                let ids: Vec<&str> = column(|document| &document.id);
                let kinds: Vec<&str> = column(|document| &document.kind);
                let users: Vec<&str> = column(|document| &document.user);
                let resources: Vec<&str> = column(|document| &document.resource);
                let bodies: Vec<&str> = column(|document| &document.body);
                let params: Params<'_> = &[collection, &ids, &kinds, &users, &resources, &bodies];
                tx.query(Query::PutDocuments, params).await.map(|_| ())
            })
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
        let query = match (&filter.user, &filter.kind, &filter.resource) {
            (Some(_), Some(_), Some(_)) => Query::DocumentsOfResourceKind,
            (Some(_), Some(_), None) => Query::DocumentsOfKind,
            (Some(_), None, _) => Query::DocumentsOfUser,
            (None, _, _) => Query::Documents,
        };
        let (after, limit) = (after.unwrap_or_default(), limit.min(DOCUMENTS_MAX));
        let rows = self.search(query, collection, filter, after, limit).await?;
        Ok(rows.iter().map(read).collect())
    }

    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>> {
        check_document_search(collection, filter, after)?;
        let query = match (&filter.user, &filter.kind, &filter.resource) {
            (Some(_), Some(_), Some(_)) => Query::DocumentNamesOfResourceKind,
            (Some(_), None, Some(_)) => Query::DocumentNamesOfResource,
            (Some(_), Some(_), None) => Query::DocumentNamesOfKind,
            (Some(_), None, None) => Query::DocumentNamesOfUser,
            (None, _, _) => Query::DocumentNames,
        };
        let (after, limit) = (after.unwrap_or_default(), limit.min(DOCUMENTS_MAX));
        let rows = self.search(query, collection, filter, after, limit).await?;
        Ok(rows.iter().map(read_name).collect())
    }

    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>> {
        let filter = DocumentFilter {
            user: user.map(str::to_owned),
            ..DocumentFilter::default()
        };
        check_document_search(collection, &filter, None)?;
        let (of_user, of_all) = (Query::CountDocumentsOfUser, Query::CountDocuments);
        let rows = match user {
            Some(user) => self.shared.query(of_user, &[&collection, &user]).await?,
            None => self.shared.query(of_all, &[&collection]).await?,
        };
        let read = |row: &Row| Ok((row.get(0), count(row.get(1))?));
        rows.iter().map(read).collect()
    }

    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()> {
        check_document_search(collection, filter, None)?;
        let mut after = String::new();
        loop {
            let query = Query::ClearableDocuments;
            let rows = self.search(query, collection, filter, &after, CLEARED_MAX);
            let ids: Vec<String> = rows.await?.iter().map(|row| row.get(0)).collect();
            let Some(last) = ids.last() else {
                return Ok(());
            };
            after = last.clone();
            let is_last = ids.len() < CLEARED_MAX;
            self.clear_some(collection, ids, filter).await?;
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
        let ids: Vec<String> = ids
            .iter()
            .cloned()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let call = (from.to_owned(), to.to_owned(), ids);
        self.write(call, |tx, (from, to, ids)| {
            Box::pin(async move {
                let rows = tx.query(Query::RelocateDocuments, &[from, to, ids]).await?;
                rows.first().map_or(Ok(0), |row| count(row.get(0)))
            })
        })
        .await
    }
}

fn read(row: &Row) -> Document {
    Document {
        id: row.get(0),
        kind: row.get(1),
        user: row.get(2),
        resource: row.get(3),
        body: row.get(4),
    }
}

fn read_name(row: &Row) -> DocumentName {
    DocumentName {
        id: row.get(0),
        kind: row.get(1),
        user: row.get(2),
        resource: row.get(3),
    }
}
