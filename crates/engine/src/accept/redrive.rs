//! A new operation for a dead letter.
//!
//! The new operation inherits what may have happened to the first: effect, age of the key, calls.
//! It has the outbound key of the first operation, so that a provider which remembers the key
//! recognizes it.
//!
//! A dead letter is redriven once. If the new operation fails too, it is a dead letter of its own.
//! A dead letter whose call turned out to be applied is not redriven, nor is a dismissed one. A late answer that comes
//! after the redrive settles both operations.

use clinch_core::policy::Safety;
use clinch_core::ports::{Accepted, LetterStatus, NewOperation, Operation};
use clinch_core::{
    Actor, BatchId, Effect, Error, ErrorKind, IdemKey, OpId, Options, Result, Status,
};

use super::Orchestrator;

/// Why an operation with a recorded late Ok is not redriven. The store checks again in the commit
/// that accepts the redrive, because the Ok may have come since.
const APPLIED: &str = "a late answer says that the call was applied";

/// Why an operation whose dead letter is dismissed is not redriven. The store checks again, too.
const DISMISSED: &str = "it is dismissed; reopen it first";

/// What a redrive did, or would do, with one dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redriven {
    /// A new operation. `None` for a dry run.
    New(Option<OpId>),
    /// The dead letter was redriven before, by this operation.
    Before(OpId),
    /// The dead letter may not be redriven; the text says why.
    Refused(&'static str),
}

impl Orchestrator {
    /// Redrives dead letters, in order, in one commit. With `dry_run` it reports what it would do
    /// and changes nothing. A second call creates no second operation. The ledgers of both
    /// operations say by whom.
    pub async fn redrive(&self, ops: &[OpId], dry_run: bool, by: &Actor) -> Result<Vec<Redriven>> {
        self.redrive_all(ops, dry_run, None, by).await
    }

    /// Like [`Orchestrator::redrive`], with the new operations as members of an open batch: the
    /// batch ends when all of them have. The batches that the dead letters were members of do not
    /// change.
    pub async fn redrive_to_batch(&self, batch_id: BatchId, ops: &[OpId]) -> Result<Vec<Redriven>> {
        let by = self.actor();
        self.redrive_all(ops, false, Some(batch_id), &by).await
    }

    async fn redrive_all(
        &self,
        ops: &[OpId],
        dry_run: bool,
        batch_id: Option<BatchId>,
        by: &Actor,
    ) -> Result<Vec<Redriven>> {
        let rows = self.accept.ports.inspect.get(ops).await?;
        let letters = self.accept.ports.recovery.letters(ops).await?;
        let mut plan = Vec::with_capacity(ops.len());
        let mut new = Vec::new();
        for (row, letter) in rows.into_iter().zip(letters) {
            let is_dismissed = matches!(
                letter.map(|letter| letter.status),
                Some(LetterStatus::Dismissed { .. })
            );
            let verdict = match &row {
                _ if is_dismissed => Redriven::Refused(DISMISSED),
                None => Redriven::Refused("there is no such operation"),
                Some(row) => self.judge(row),
            };
            if let (Redriven::New(_), Some(row)) = (&verdict, row) {
                let successor = self.successor(row, batch_id)?;
                new.push(NewOperation {
                    by: Some(by.name().clone()),
                    ..successor
                });
            }
            plan.push(verdict);
        }
        if dry_run || new.is_empty() {
            return Ok(plan);
        }
        let accepted = self.accept.commits.accept_all(new.clone()).await?;
        let mut made = new
            .iter()
            .zip(accepted)
            .map(|(new, accepted)| match accepted {
                Accepted::New { .. } => Redriven::New(Some(new.op_id)),
                Accepted::Known(known) => Redriven::Before(known.op_id),
                Accepted::Mismatch(known) => Redriven::Before(known.op_id),
                Accepted::BatchClosed => Redriven::Refused("its batch is closed"),
                Accepted::PredecessorApplied => Redriven::Refused(APPLIED),
                Accepted::PredecessorDismissed => Redriven::Refused(DISMISSED),
            });
        let fill = |verdict: Redriven| match verdict {
            Redriven::New(_) => {
                let missing = || Error::new(ErrorKind::Ambiguous, "the store gave no result");
                made.next().ok_or_else(missing)
            }
            other => Ok(other),
        };
        plan.into_iter().map(fill).collect()
    }

    fn judge(&self, row: &Operation) -> Redriven {
        let keys = &row.keys;
        let rules = self.accept.routes.find(&keys.domain, &keys.event_type);
        if let Some(before) = row.redriven_by {
            return Redriven::Before(before);
        }
        match rules {
            None => Redriven::Refused("no route is declared for its domain and event type"),
            _ if row.state.status != Status::Failed => Redriven::Refused("it did not fail"),
            _ if row.state.late_ok => Redriven::Refused(APPLIED),
            Some(rules)
                if row.state.effect == Effect::Unknown && rules.safety == Safety::Unsafe =>
            {
                Redriven::Refused("its call may have been applied, and may not be repeated")
            }
            Some(_) => Redriven::New(None),
        }
    }

    fn successor(&self, row: Operation, batch_id: Option<BatchId>) -> Result<NewOperation> {
        let payload = self
            .accept
            .ports
            .sealer
            .open_payload(row.op_id, &row.payload)?;
        let mut keys = row.keys;
        let invalid =
            |error: clinch_core::Invalid| Error::new(ErrorKind::Invalid, error.to_string());
        keys.idem_key = IdemKey::new(format!("redrive:{}:1", row.op_id)).map_err(invalid)?;
        let options = Options {
            priority: row.options.priority,
            labels: row.options.labels,
            ..Options::default()
        };
        let command = clinch_core::Command {
            keys,
            payload,
            options,
        };
        let prepared = self.accept.prepare(command, row.trace.clone())?;
        Ok(NewOperation {
            outbound_key: row.outbound_key,
            redrive_of: Some(row.op_id),
            batch_id,
            inherited: row.state.bequest(),
            ..prepared
        })
    }
}
