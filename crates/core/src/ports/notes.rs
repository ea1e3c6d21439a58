//! Ledger lines about what people did with an operation without changing it.

use crate::{OpId, WorkerId};

/// A line for an operation's ledger that changes nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNote {
    /// The operation.
    pub op_id: OpId,
    /// What the person did.
    pub event: NoteEvent,
    /// Who.
    pub by: WorkerId,
    /// Why.
    pub reason: String,
}

/// What a person did with an operation without changing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteEvent {
    /// Looked at payload and result in clear text.
    Revealed,
}

impl NoteEvent {
    /// The name of the ledger line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Revealed => "Revealed",
        }
    }
}
