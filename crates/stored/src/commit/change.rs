//! The one way in which an operation changes, and what follows from it in the same commit.

use clinch_core::ports::{
    Accepted, Amendment, Answer, BeginRequest, Changed, Extension, NewOperation, Refused,
    Reschedule, Written,
};
use clinch_core::protocol::{Action, Effects, Event, IllegalTransition, State, WriteAhead};
use clinch_core::{BatchId, OpId, Status};

use super::accept::begin_event;
use super::plan::{Extent, RowWrite, SpawnWrite};
use super::row::Row;
use super::work::{Note, Step, Stop, Work};
use crate::change::{Brought, brings_result, note_of, record, said, told_by_predecessor};

impl Work<'_> {
    pub(super) fn begin(&mut self, begin: &BeginRequest) -> Step<Written> {
        let Some(mut write) = self.take(begin.op_id, true)? else {
            return Ok(Written::Refused(Refused::NotFound));
        };
        let row = &write.row;
        if self.routes.find(&row.domain, &row.event_type).is_none() {
            self.put(write);
            return Ok(Written::Refused(Refused::NoRoute));
        }
        let paused = self.is_paused(&row.domain)?;
        let event = begin_event(begin, row, paused, self.stand(&write)?);
        let before = write.row.state.clone();
        let brought = Brought::by(&begin.worker);
        let effects = match self.step(&mut write, &event, brought) {
            Ok(effects) => effects,
            Err(illegal) => {
                self.put(write);
                return Ok(Written::Refused(illegal.into()));
            }
        };
        let begun = match effects.contains(&Action::Call) {
            true => {
                write.row.started_at = write.row.started_at.or(Some(self.now));
                Written::Begun(Box::new(write.row.operation()?))
            }
            false => Written::Refused(Refused::Withheld(Box::new(write.row.state.clone()))),
        };
        self.follow(write, &before, &effects)?;
        Ok(begun)
    }

    pub(super) fn extend(&mut self, extension: &Extension) -> Step<Written> {
        let event = Event::Extend {
            fence: extension.fence,
            lease: extension.lease,
        };
        let brought = Brought::from(extension.attempt_id);
        self.change(extension.op_id, &[&event], brought)
    }

    /// Write-ahead, and finalize in the same write of the row where `finalize` says so.
    pub(super) fn answer(&mut self, answer: &Answer, finalize: bool) -> Step<Written> {
        let (event, brought) = match said(answer) {
            Ok(said) => said,
            Err(refused) => return Ok(Written::Refused(refused)),
        };
        let events = [&event, &Event::Finalize];
        let events = if finalize { &events[..] } else { &events[..1] };
        self.change(answer.op_id, events, brought)
    }

    pub(super) fn finalize(&mut self, op_id: OpId) -> Step<Written> {
        self.change(op_id, &[&Event::Finalize], Brought::default())
    }

    pub(super) fn reschedule(&mut self, attempt: &Reschedule) -> Step<Written> {
        let brought = Brought {
            attempt_id: attempt.attempt_id,
            ..Brought::by(&attempt.worker)
        };
        self.change(attempt.op_id, &[&attempt.event()], brought)
    }

    pub(super) fn amend(&mut self, amendment: &Amendment) -> Step<Written> {
        match Brought::of(amendment) {
            Ok(brought) => self.change(amendment.op_id, &[&amendment.event], brought),
            Err(refused) => Ok(Written::Refused(refused)),
        }
    }

    fn change(&mut self, op_id: OpId, events: &[&Event], brought: Brought<'_>) -> Step<Written> {
        Ok(match self.change_row(op_id, events, brought)? {
            Ok(changed) => Written::Changed(Box::new(changed)),
            Err(refused) => Written::Refused(refused),
        })
    }

    /// Applies the events in order, and does what follows. An event after the first is applied
    /// only where a recorded outcome waits for it.
    fn change_row(
        &mut self,
        op_id: OpId,
        events: &[&Event],
        brought: Brought<'_>,
    ) -> Step<Result<Changed, Refused>> {
        let Some(mut write) = self.take(op_id, false)? else {
            return Ok(Err(Refused::NotFound));
        };
        let before = write.row.state.clone();
        let mut effects = Effects::new();
        for (at, event) in events.iter().enumerate() {
            if at > 0 && !matches!(write.row.state.write_ahead, WriteAhead::Pending { .. }) {
                break;
            }
            let brought = if at == 0 { brought } else { Brought::default() };
            effects = match self.step(&mut write, event, brought) {
                Ok(effects) => effects,
                Err(illegal) if at == 0 => {
                    self.put(write);
                    return Ok(Err(illegal.into()));
                }
                Err(illegal) => {
                    // What was recorded before the refusal stays recorded.
                    self.follow(write, &before, &effects)?;
                    return Ok(Err(illegal.into()));
                }
            };
            if effects.contains(&Action::AlertLateOk) {
                let mut changed = changed(&write.row, effects);
                changed.batch_completed = self.applied_late(write, brought)?;
                return Ok(Ok(changed));
            }
        }
        if effects.contains(&Action::Settle) {
            write.row.finished_at = Some(self.now);
        }
        let mut changed = changed(&write.row, effects);
        changed.batch_completed = self.follow(write, &before, &changed.effects)?;
        Ok(Ok(changed))
    }

    /// Applies one event to the row and adds its line. A refusal that carries somebody's answer
    /// or wish has a line as well.
    fn step(
        &mut self,
        write: &mut RowWrite,
        event: &Event,
        brought: Brought<'_>,
    ) -> Result<Effects, IllegalTransition> {
        let row = &mut write.row;
        let rules = self.routes.rules(&row.domain, &row.event_type);
        let note = |refused: Option<String>, late: bool| Note {
            event: event.name(),
            by: brought.by,
            refused,
            note: note_of(event, brought.reason).into_owned(),
            late: brought.ok.filter(|_| late).map(record),
        };
        let applied = row
            .state
            .apply_as(brought.attempt_id, event, self.now, rules);
        let (next, effects) = match applied {
            Ok(applied) => applied,
            Err(illegal) => {
                if illegal.ledger {
                    self.note(write, note(Some(illegal.why.to_string()), true));
                }
                return Err(illegal);
            }
        };
        let recorded = row.state.write_ahead;
        row.state = next;
        let is_late = effects.contains(&Action::AlertLateOk);
        if !is_late {
            keep(write, event, &recorded, brought);
        }
        self.note(write, note(None, is_late));
        Ok(effects)
    }

    /// A provider's yes came after the operation had FAILED: the operation that redrives it is
    /// told, because both send the same outbound key.
    fn applied_late(
        &mut self,
        mut write: Box<RowWrite>,
        brought: Brought<'_>,
    ) -> Step<Option<BatchId>> {
        let (op_id, successor) = (write.row.op_id, write.row.redriven_by);
        write.late_ok = true;
        self.put(write);
        let Some(successor) = successor else {
            return Ok(None);
        };
        let (event, reason) = told_by_predecessor(op_id);
        let brought = Brought {
            reason: &reason,
            ..brought
        };
        // A successor that is COMPLETED keeps the answer in its ledger.
        let told = self.change_row(successor, &[&event], brought)?;
        Ok(told.ok().and_then(|told| told.batch_completed))
    }

    /// Does what the actions ask for, and keeps the row. The batch that this completed.
    fn follow(
        &mut self,
        mut write: Box<RowWrite>,
        before: &State,
        effects: &[Action],
    ) -> Step<Option<BatchId>> {
        write.extent = Extent::Whole;
        if effects.contains(&Action::DeadLetter) {
            write.dead_letter = true;
            self.make_letter(&write);
        }
        self.count(&write.row.domain, Some(before), &write.row.state);
        if !effects.contains(&Action::Settle) {
            write.row.has_spawn |= matches!(write.spawn, SpawnWrite::Store(_));
            self.put(write);
            return Ok(None);
        }
        let spawn = self.take_spawn(&mut write)?;
        write.row.finished_at = Some(self.now);
        self.leave_lane(&write.row)?;
        let (op_id, batch_id) = (write.row.op_id, write.row.batch_id);
        let status = write.row.state.status;
        self.put(write);
        if status == Status::Completed {
            for child in spawn {
                self.spawn(op_id, NewOperation { batch_id, ..child })?;
            }
        }
        self.settled.push(op_id);
        self.count_in_batch(batch_id, status)
    }

    /// What the answer spawns: brought by it, or stored with it earlier.
    fn take_spawn(&mut self, write: &mut RowWrite) -> Step<Vec<NewOperation>> {
        let brought = std::mem::replace(&mut write.spawn, SpawnWrite::Leave);
        if !std::mem::take(&mut write.row.has_spawn) {
            return Ok(match brought {
                SpawnWrite::Store(spawn) => spawn,
                SpawnWrite::Leave | SpawnWrite::Delete => Vec::new(),
            });
        }
        let op_id = write.row.op_id;
        if let SpawnWrite::Store(spawn) = brought {
            // Recorded by an earlier write of this plan, and never stored.
            return Ok(spawn);
        }
        write.spawn = SpawnWrite::Delete;
        match self.seen.spawns.get(&op_id) {
            Some(spawn) => Ok(spawn.clone()),
            None => {
                self.wanted.spawns.insert(op_id);
                Err(Stop::Load)
            }
        }
    }

    fn spawn(&mut self, parent: OpId, child: NewOperation) -> Step<()> {
        let refused = match self.accept_from_inside(&child)? {
            Ok(Accepted::Mismatch(known)) => {
                format!("{} has the same keys and another payload", known.op_id)
            }
            Ok(_) => return Ok(()),
            Err(problem) => problem,
        };
        let line = Note {
            event: "Spawn",
            refused: Some(refused),
            ..Note::default()
        };
        self.note_on(parent, line);
        Ok(())
    }
}

/// Keeps what came with the event.
fn keep(write: &mut RowWrite, event: &Event, recorded: &WriteAhead, brought: Brought<'_>) {
    let row = &mut write.row;
    if brings_result(event, recorded) {
        row.result = Some(brought.ok.map(record).unwrap_or_default());
        row.has_spawn = false;
        let spawn = brought.ok.map(|ok| ok.spawn.clone()).unwrap_or_default();
        write.spawn = match spawn.is_empty() {
            true => SpawnWrite::Leave,
            false => SpawnWrite::Store(spawn),
        };
    }
    if matches!(event, Event::Checkpoint { .. }) {
        row.has_checkpoint = brought.checkpoint.is_some();
        row.checkpoint = brought.checkpoint.cloned();
        write.checkpoint = brought.checkpoint.cloned();
    }
}

/// The row after a change, before it is known whether the change completes a batch.
fn changed(row: &Row, effects: Effects) -> Changed {
    Changed {
        state: row.state.clone(),
        effects,
        batch_completed: None,
        result: row.result.clone(),
        finished_at: row.finished_at,
    }
}
