//! Where the documents of an application go.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::Result;

/// Longest id of a document, in bytes.
pub const DOCUMENT_ID_BYTES_MAX: usize = 255;

/// Most documents that one call takes or gives.
pub const DOCUMENTS_MAX: usize = 1_000;

/// Keeps documents by deterministic ids. Collections do not see each other.
#[async_trait]
pub trait DocumentSink: Send + Sync {
    /// Stores documents, all of them or none.
    ///
    /// - The same collection and id again replaces the document: storing twice is storing once.
    /// - Of two with the same id in one call the later one counts.
    /// - Longer ids than [`DOCUMENT_ID_BYTES_MAX`] and more documents than [`DOCUMENTS_MAX`]
    ///   are refused as `Invalid`.
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()>;

    /// One page of documents in the order of their ids (of their UTF-8 bytes), after `after`.
    ///
    /// - Every narrowing of the filter narrows.
    /// - At most `limit`, at most [`DOCUMENTS_MAX`]; fewer means that there are no more.
    /// - Sees every commit that returned before the call.
    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>>;

    /// How many documents there are of each kind, of one user or of all.
    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>>;

    /// Removes every document of a collection that the filter matches.
    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()>;
}

/// A document with a deterministic id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The same thing always has the same id.
    pub id: String,
    /// What it is, such as `issue`.
    pub kind: String,
    /// Whose data it belongs to.
    pub user: String,
    /// The resource it came from.
    pub resource: String,
    /// JSON text, as it was sent to us: kept to the byte where the sink can, else to the value.
    pub body: String,
}

/// Which documents; every field narrows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentFilter {
    /// Of this user.
    pub user: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// Of this resource.
    pub resource: Option<String>,
}

impl DocumentFilter {
    /// Whether the document is one of them.
    pub fn matches(&self, document: &Document) -> bool {
        let same =
            |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|one| one == is);
        same(&self.user, &document.user)
            && same(&self.kind, &document.kind)
            && same(&self.resource, &document.resource)
    }
}
