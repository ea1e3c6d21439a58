//! Where the documents of an application go.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::records::{invalid, refuse_nul};
use crate::Result;

/// Longest id of a document, in bytes.
pub const DOCUMENT_ID_BYTES_MAX: usize = 255;

/// Longest name of a collection, kind, user or resource, in bytes.
pub const DOCUMENT_NAME_BYTES_MAX: usize = 255;

/// Longest body of a document, in bytes: what every database takes in one statement.
pub const DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most documents that one call takes or gives.
pub const DOCUMENTS_MAX: usize = 1_000;

/// Keeps documents by deterministic ids. Collections do not see each other.
#[async_trait]
pub trait DocumentSink: Send + Sync {
    /// Stores documents, all of them or none.
    ///
    /// - The same collection and id again replaces the document: storing twice is storing once.
    /// - Of two with the same id in one call the later one counts.
    /// - Longer ids than [`DOCUMENT_ID_BYTES_MAX`], longer names than
    ///   [`DOCUMENT_NAME_BYTES_MAX`], longer bodies than [`DOCUMENT_BYTES_MAX`] and more
    ///   documents than [`DOCUMENTS_MAX`] are refused as `Invalid`, and so are NUL characters
    ///   and an empty id or collection.
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

/// Refuses documents that the port does not take.
pub fn check_documents(collection: &str, documents: &[Document]) -> Result<()> {
    check_collection(collection)?;
    if documents.len() > DOCUMENTS_MAX {
        return Err(invalid(format!(
            "at most {DOCUMENTS_MAX} documents a call; split it"
        )));
    }
    for document in documents {
        let Document {
            id,
            kind,
            user,
            resource,
            body,
        } = document;
        if id.is_empty() || id.len() > DOCUMENT_ID_BYTES_MAX {
            let message = format!("a document's id has 1 to {DOCUMENT_ID_BYTES_MAX} bytes");
            return Err(invalid(message));
        }
        let is_long = |name: &&String| name.len() > DOCUMENT_NAME_BYTES_MAX;
        if [kind, user, resource].iter().any(is_long) {
            let message = format!(
                "a document's kind, user and resource have at most {DOCUMENT_NAME_BYTES_MAX} bytes"
            );
            return Err(invalid(message));
        }
        if body.len() > DOCUMENT_BYTES_MAX {
            let message = format!("a document has at most {DOCUMENT_BYTES_MAX} bytes; split it");
            return Err(invalid(message));
        }
        for text in [id, kind, user, resource, body] {
            refuse_nul("a document", text)?;
        }
    }
    Ok(())
}

/// Refuses what no sink can look for: a collection that is none, and NUL characters.
pub fn check_document_search(
    collection: &str,
    filter: &DocumentFilter,
    after: Option<&str>,
) -> Result<()> {
    check_collection(collection)?;
    let DocumentFilter {
        user,
        kind,
        resource,
    } = filter;
    let texts = [user.as_deref(), kind.as_deref(), resource.as_deref(), after];
    let mut texts = texts.into_iter().flatten();
    texts.try_for_each(|text| refuse_nul("an id or a filter", text))
}

fn check_collection(collection: &str) -> Result<()> {
    if collection.is_empty() || collection.len() > DOCUMENT_NAME_BYTES_MAX {
        let message = format!("a collection's name has 1 to {DOCUMENT_NAME_BYTES_MAX} bytes");
        return Err(invalid(message));
    }
    refuse_nul("a collection's name", collection)
}
