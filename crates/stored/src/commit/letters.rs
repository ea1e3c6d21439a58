//! What becomes of dead letters: made with the failure, redriven, dismissed, opened again.

use clinch_core::ports::{
    Counts, LetterAction, LetterChange, LetterChanged, LetterState, LetterStatus, NewNote,
    NewOperation,
};
use clinch_core::{Domain, MESSAGE_BYTES_MAX, OpId, Status, shorten};

use super::plan::RowWrite;
use super::seen::SeenLetter;
use super::work::{Note, Step, Stop, Work};

/// A dead letter that a plan made or changed.
pub(super) struct LetterWork {
    domain: Domain,
    /// As it is stored, or as it is when it is made.
    before: LetterStatus,
    status: LetterStatus,
}

/// A dead letter whose status changed. One that the plan makes is open before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterWrite {
    /// The operation.
    pub op_id: OpId,
    /// The letter's domain.
    pub domain: Domain,
    /// Its status before.
    pub before: LetterState,
    /// Its status after the commit.
    pub status: LetterStatus,
}

impl Work<'_> {
    /// The status of a dead letter as this commit leaves it so far.
    pub(super) fn letter(&mut self, op_id: OpId) -> Step<Option<LetterStatus>> {
        if let Some(letter) = self.letters.get(&op_id) {
            return Ok(Some(letter.status.clone()));
        }
        match self.seen.letters.get(&op_id) {
            Some(seen) => Ok(seen.as_ref().map(|letter| letter.status.clone())),
            None => {
                self.wanted.letters.insert(op_id);
                Err(Stop::Load)
            }
        }
    }

    /// The dead letter of a predecessor. One that did not fail has none.
    pub(super) fn letter_of_predecessor(&mut self, op_id: OpId) -> Step<Option<LetterStatus>> {
        match self.state(op_id)?.map(|state| state.status) {
            Some(Status::Failed) => self.letter(op_id),
            _ => Ok(None),
        }
    }

    /// The operation FAILED: its dead letter is open, unless it was redriven before it ended.
    pub(super) fn make_letter(&mut self, write: &RowWrite) {
        let row = &write.row;
        let letter = LetterWork {
            domain: row.domain.clone(),
            before: LetterStatus::Open,
            status: LetterStatus::Open,
        };
        self.count_letter(&row.domain, 1);
        self.letters.insert(row.op_id, letter);
        if let Some(by) = row.redriven_by {
            self.set_letter(row.op_id, LetterStatus::Redriven { by });
        }
    }

    /// Sets the status of a letter that was read or made.
    pub(super) fn set_letter(&mut self, op_id: OpId, status: LetterStatus) {
        let seen = self.seen.letters.get(&op_id).cloned().flatten();
        let of_seen = |SeenLetter { domain, status }| LetterWork {
            domain,
            before: status.clone(),
            status,
        };
        let Some(mut letter) = self.letters.remove(&op_id).or_else(|| seen.map(of_seen)) else {
            return;
        };
        let is_open = |status: &LetterStatus| i64::from(status.state() == LetterState::Open);
        let by = is_open(&status) - is_open(&letter.status);
        self.count_letter(&letter.domain, by);
        letter.status = status;
        self.letters.insert(op_id, letter);
    }

    fn count_letter(&mut self, domain: &Domain, by: i64) {
        self.counters(domain)[Counts::DEAD_LETTERS_OPEN] += by;
    }

    /// Marks an operation as redriven, with a line in its ledger; a later mark takes the place of
    /// an earlier one.
    pub(super) fn redrive(&mut self, predecessor: OpId, new: &NewOperation) -> Step<()> {
        let by = new.op_id;
        self.redriven.retain(|(op, _)| *op != predecessor);
        self.redriven.push((predecessor, by));
        if !self.rows.contains_key(&predecessor)
            && let Some(write) = self.take(predecessor, false)?
        {
            self.put(write);
        }
        if let Some(write) = self.rows.get_mut(&predecessor) {
            write.row.redriven_by = Some(by);
        }
        let line = Note {
            event: "Redriven",
            by: new.by.as_ref(),
            note: format!("by {by}"),
            ..Note::default()
        };
        self.note_on(predecessor, line);
        Ok(())
    }

    /// Notes what a person did with an operation.
    pub(super) fn note_of_person(&mut self, new: &NewNote) -> Step<bool> {
        let Some(mut write) = self.take(new.op_id, false)? else {
            return Ok(false);
        };
        let line = Note {
            event: new.event.name(),
            by: Some(&new.by),
            note: shorten(new.reason.clone(), MESSAGE_BYTES_MAX),
            ..Note::default()
        };
        self.note(&mut write, line);
        self.put(write);
        Ok(true)
    }

    /// Dismisses a dead letter or opens it again.
    pub(super) fn change_letter(&mut self, change: &LetterChange) -> Step<LetterChanged> {
        let row = self.take(change.op_id, false);
        let letter = self.letter(change.op_id);
        let (row, letter) = (row?, letter?);
        let reason = || shorten(change.reason.clone(), MESSAGE_BYTES_MAX);
        let next = match (change.action, letter) {
            (_, None) => Err(LetterChanged::NotFound),
            (_, Some(LetterStatus::Redriven { .. })) => Err(LetterChanged::Redriven),
            (LetterAction::Dismiss, Some(LetterStatus::Dismissed { .. }))
            | (LetterAction::Reopen, Some(LetterStatus::Open)) => Err(LetterChanged::Already),
            (LetterAction::Dismiss, Some(LetterStatus::Open)) => Ok(LetterStatus::Dismissed {
                at: self.now,
                by: change.by.clone(),
                reason: reason(),
            }),
            (LetterAction::Reopen, Some(LetterStatus::Dismissed { .. })) => Ok(LetterStatus::Open),
        };
        if let Some(mut write) = row {
            if next.is_ok() {
                let line = Note {
                    event: change.action.event(),
                    by: Some(&change.by),
                    note: reason(),
                    ..Note::default()
                };
                self.note(&mut write, line);
            }
            self.put(write);
        }
        Ok(match next {
            Ok(status) => {
                self.set_letter(change.op_id, status);
                LetterChanged::Changed
            }
            Err(answer) => answer,
        })
    }
}

/// The letters whose status changed, in the order of their ids.
pub(super) fn writes(letters: std::collections::HashMap<OpId, LetterWork>) -> Vec<LetterWrite> {
    let changed = letters
        .into_iter()
        .filter(|(_, one)| one.status != one.before);
    let mut writes: Vec<LetterWrite> = changed
        .map(|(op_id, letter)| LetterWrite {
            op_id,
            domain: letter.domain,
            before: letter.before.state(),
            status: letter.status,
        })
        .collect();
    writes.sort_unstable_by_key(|write| write.op_id);
    writes
}
