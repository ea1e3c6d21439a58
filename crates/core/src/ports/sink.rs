//! Where documents and alarms go.

use async_trait::async_trait;

use crate::{OpId, Payload, Result};

/// Takes documents of the collector.
#[async_trait]
pub trait DocumentSink: Send + Sync {
    /// Stores documents by their ids.
    ///
    /// - The same id again replaces the document: storing twice is storing once.
    async fn upsert(&self, documents: &[Document]) -> Result<()>;
}

/// A document with a deterministic id.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The same thing always has the same id.
    pub id: String,
    /// What it is, such as `issue`.
    pub kind: String,
    /// Whose data it belongs to.
    pub user: String,
    /// The resource it came from.
    pub resource: String,
    /// The document as it was sent to us.
    pub body: Payload,
}

/// Pages someone. The last level of the safety net.
#[async_trait]
pub trait Alert: Send + Sync {
    /// Sends one note.
    ///
    /// - Holds no payload and no key.
    async fn raise(&self, note: &AlertNote) -> Result<()>;
}

/// What someone is paged with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertNote {
    /// How bad it is.
    pub severity: Severity,
    /// Stable code for programs, such as `late_ok`.
    pub code: &'static str,
    /// What happened and what to do.
    pub message: String,
    /// The operation, if it is about one.
    pub op_id: Option<OpId>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Look at it today.
    Warning,
    /// Look at it now.
    Critical,
}
