//! What an operator decides about dead letters that are not redriven, and who looked at a payload.

use clinch_core::ports::{
    LetterAction, LetterChange, LetterChanged, NewNote, NoteEvent, Operation, Write, Written,
};
use clinch_core::{Actor, Error, ErrorKind, OpId, Payload, Result, WorkerId};

use super::Orchestrator;

impl Orchestrator {
    /// The payload of a row in clear text, after the ledger has noted who looks at it and why.
    pub async fn reveal(&self, row: &Operation, by: &Actor, reason: &str) -> Result<Payload> {
        let note = Write::Note(NewNote {
            op_id: row.op_id,
            event: NoteEvent::Revealed,
            by: by.name().clone(),
            reason: reason.to_owned(),
        });
        let is_noted = self
            .accept
            .commits
            .call(note)
            .await
            .and_then(Written::noted)?;
        if !is_noted {
            return Err(Error::new(
                ErrorKind::NotFound,
                "there is no such operation",
            ));
        }
        let sealer = &self.accept.ports.sealer;
        sealer.open_payload(row.op_id, &row.payload)
    }

    /// Dismisses dead letters, or opens dismissed ones again, in one commit; one answer for each, in
    /// order. A second call changes nothing.
    pub async fn change_letters(
        &self,
        ops: &[OpId],
        action: LetterAction,
        by: &WorkerId,
        reason: &str,
    ) -> Result<Vec<LetterChanged>> {
        let change = |op_id: &OpId| LetterChange {
            op_id: *op_id,
            action,
            by: by.clone(),
            reason: reason.to_owned(),
        };
        let changes = ops.iter().map(change).collect();
        self.accept.commits.change_letters(changes).await
    }
}
