//! Where an application's documents are stored.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::records::{invalid, refuse_nul};
use crate::Result;

/// Maximum length of a document's id, in bytes.
pub const DOCUMENT_ID_BYTES_MAX: usize = 255;

/// Maximum length of a collection's, kind's, user's or resource's name, in bytes.
pub const DOCUMENT_NAME_BYTES_MAX: usize = 255;

/// Maximum size of a document's body, in bytes: every database takes this much in one statement.
pub const DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of documents that one call takes or returns.
pub const DOCUMENTS_MAX: usize = 1_000;

/// Stores documents by deterministic ids. Collections are separate from each other.
#[async_trait]
pub trait DocumentSink: Send + Sync {
    /// Stores documents: all of them or none.
    ///
    /// - The same collection and id again replaces the document: storing a document twice leaves
    ///   one.
    /// - If two documents of one call have the same id, the later one counts.
    /// - Longer ids than [`DOCUMENT_ID_BYTES_MAX`], longer names than
    ///   [`DOCUMENT_NAME_BYTES_MAX`], longer bodies than [`DOCUMENT_BYTES_MAX`] and more
    ///   documents than [`DOCUMENTS_MAX`] are refused as `Invalid`, and so are NUL characters
    ///   and an empty id or collection.
    async fn upsert(&self, collection: &str, documents: &[Document]) -> Result<()>;

    /// One page of documents in the order of their ids (of their UTF-8 bytes), after `after`.
    ///
    /// - Every field of the filter narrows the result.
    /// - At most `limit`, at most [`DOCUMENTS_MAX`]; fewer means that there are no more.
    /// - Sees every commit that returned before the call.
    /// - With a user, a kind and a resource, a page costs as much as that resource has documents of
    ///   the kind.
    async fn scan(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>>;

    /// One page of documents without their bodies: which documents there are.
    ///
    /// - In the order of [`scan`](Self::scan), with the same limits and the same rules.
    /// - Does not read bodies. With a user and a resource, a page costs as much as that resource has
    ///   documents of the kind, however many the user has.
    async fn list(
        &self,
        collection: &str,
        filter: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentName>>;

    /// The number of documents of each kind, for one user or for all.
    async fn count(&self, collection: &str, user: Option<&str>) -> Result<BTreeMap<String, u64>>;

    /// Removes every document of a collection that the filter matches.
    async fn clear(&self, collection: &str, filter: &DocumentFilter) -> Result<()>;

    /// Moves documents from the collection `from` to the collection `to`, all of them or none, and
    /// returns how many it moved: a document that its source deleted is set aside, not removed.
    ///
    /// - A document in `to` with the same id is replaced.
    /// - Ids that `from` does not hold are ignored, and an id that is named twice counts once.
    /// - More ids than [`DOCUMENTS_MAX`], ids and collections that [`upsert`](Self::upsert) refuses,
    ///   and the same collection twice are refused as `Invalid`.
    async fn relocate(&self, from: &str, to: &str, ids: &[String]) -> Result<u64>;
}

/// A document with a deterministic id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The same object always has the same id.
    pub id: String,
    /// Its kind, such as `issue`.
    pub kind: String,
    /// The user that the data belongs to.
    pub user: String,
    /// The resource it came from.
    pub resource: String,
    /// JSON text as it was received. The sink keeps it byte for byte if it can, otherwise as the
    /// same JSON value.
    pub body: String,
}

/// A document without its body.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentName {
    /// The document's id.
    pub id: String,
    /// Its kind, such as `issue`.
    pub kind: String,
    /// The user that the data belongs to.
    pub user: String,
    /// The resource it came from.
    pub resource: String,
}

impl From<&Document> for DocumentName {
    fn from(document: &Document) -> Self {
        Self {
            id: document.id.clone(),
            kind: document.kind.clone(),
            user: document.user.clone(),
            resource: document.resource.clone(),
        }
    }
}

/// Selects documents; every field narrows.
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
    /// Whether the filter selects the document.
    pub fn matches(&self, document: &Document) -> bool {
        let same =
            |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|one| one == is);
        same(&self.user, &document.user)
            && same(&self.kind, &document.kind)
            && same(&self.resource, &document.resource)
    }
}

/// Refuses documents that the port does not accept.
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
        check_id(id)?;
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
        for text in [kind, user, resource, body] {
            refuse_nul("a document", text)?;
        }
    }
    Ok(())
}

/// Refuses a search that no sink supports: an invalid collection name, or NUL characters.
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

/// Refuses a relocation that the port does not accept.
pub fn check_relocation(from: &str, to: &str, ids: &[String]) -> Result<()> {
    check_collection(from)?;
    check_collection(to)?;
    if from == to {
        let message = "documents are relocated to another collection than their own";
        return Err(invalid(message.to_owned()));
    }
    if ids.len() > DOCUMENTS_MAX {
        return Err(invalid(format!(
            "at most {DOCUMENTS_MAX} ids a call; split it"
        )));
    }
    ids.iter().try_for_each(|id| check_id(id))
}

fn check_id(id: &str) -> Result<()> {
    if id.is_empty() || id.len() > DOCUMENT_ID_BYTES_MAX {
        let message = format!("a document's id has 1 to {DOCUMENT_ID_BYTES_MAX} bytes");
        return Err(invalid(message));
    }
    refuse_nul("a document's id", id)
}

fn check_collection(collection: &str) -> Result<()> {
    if collection.is_empty() || collection.len() > DOCUMENT_NAME_BYTES_MAX {
        let message = format!("a collection's name has 1 to {DOCUMENT_NAME_BYTES_MAX} bytes");
        return Err(invalid(message));
    }
    refuse_nul("a collection's name", collection)
}
