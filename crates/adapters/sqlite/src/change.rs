//! The one way in which an operation changes, and what follows from it.
//!
//! A change is three steps on a row that was read in this transaction: `step` asks
//! [`State::apply`] and notes the event in the ledger; what came with it is unpacked; and
//! `follow` writes the row once, with everything that belongs to the same commit. Settling
//! takes two steps, write-ahead and finalize, before the one write.

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, BeginRequest, Changed, DeadLetter, NewOperation, Operation, Refused, ResultRecord,
};
use clinch_core::protocol::{
    Action, Begin, Effects, Event, IllegalTransition, LaneStand, State, WriteAhead,
};
use clinch_core::{BatchId, EventType, Failure, Keys, OpId, Result, Status, WorkerId};
use clinch_stored::change::{
    Answered, Luggage, brings_result, note_of, record, told_by_predecessor,
};
use clinch_stored::ledger::{self, By, INLINE_MAX};
use rusqlite::params;

use crate::accept::Entry;
use crate::column::{Column, stored};
use crate::error;
use crate::query::Query;
use crate::request::Request;
use crate::row::{Row, to_json};
use crate::tx::Tx;

/// A row on its way through a change.
struct Moving {
    row: Row,
    /// As it was read: its counter is left.
    before: State,
    spawn: Vec<NewOperation>,
}

impl Tx<'_, '_> {
    /// Reads the row, applies the events in order, writes the row once and everything that
    /// follows. An event after the first is applied only where an outcome waits for it.
    pub(crate) fn change(
        &mut self,
        op_id: OpId,
        events: &[&Event],
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Answered<Changed>> {
        let Some(row) = self.db.row(op_id)? else {
            return Ok(Err(Refused::NotFound));
        };
        let before = row.state.clone();
        let mut moving = Moving {
            row,
            before,
            spawn: Vec::new(),
        };
        let mut effects = Effects::new();
        for (at, event) in events.iter().enumerate() {
            if at > 0 && !matches!(moving.row.state.write_ahead, WriteAhead::Pending { .. }) {
                break;
            }
            let luggage = if at == 0 { luggage } else { Luggage::default() };
            effects = match self.step(&mut moving, event, luggage, routes)? {
                Ok(effects) => effects,
                Err(illegal) => {
                    if at > 0 {
                        // What was recorded before the refusal stays recorded.
                        self.follow(&mut moving, &effects, None, routes)?;
                    }
                    return Ok(Err(illegal.into()));
                }
            };
            if effects.contains(&Action::AlertLateOk) {
                let batch_completed = self.applied_late(&moving.row, luggage, routes)?;
                return Ok(Ok(changed(moving.row.state, effects, batch_completed)));
            }
        }
        let batch_completed = self.follow(&mut moving, &effects, None, routes)?;
        Ok(Ok(changed(moving.row.state, effects, batch_completed)))
    }

    /// Marks the dead letter of a FAILED operation as applied, and tells the operation that
    /// redrives it.
    fn applied_late(
        &mut self,
        row: &Row,
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Option<BatchId>> {
        self.db
            .run(Query::MarkDeadLetter, [row.op_id.0.as_bytes()])?;
        let Some(successor) = row.redriven_by else {
            return Ok(None);
        };
        let (event, note) = told_by_predecessor(row.op_id);
        let luggage = Luggage {
            reason: &note,
            ..luggage
        };
        // One that is COMPLETED keeps the answer in its ledger.
        let told = self.change(successor, &[&event], luggage, routes)?;
        Ok(told.ok().and_then(|told| told.batch_completed))
    }

    /// Starts an attempt, or finds that none may be started.
    pub(crate) fn begin(
        &mut self,
        begin: &BeginRequest,
        row: Row,
        request: Request,
        routes: &Routes,
    ) -> Result<Answered<Operation>> {
        let (domain, event_type) = (
            self.db.domain(row.domain)?,
            self.db.event_type(row.event_type)?,
        );
        if routes.find(&domain, &event_type).is_none() {
            return Ok(Err(Refused::NoRoute));
        }
        let paused = self.domain_row(row.domain)?.paused;
        let stand = match &request.lane {
            Some(lane) => self.stand_in(lane, row.seq)?,
            None => LaneStand::Unordered,
        };
        let event = begin_event(begin, &row, &request, &event_type, paused, stand);
        let before = row.state.clone();
        let mut moving = Moving {
            row,
            before,
            spawn: Vec::new(),
        };
        let luggage = Luggage::by(&begin.worker);
        let effects = match self.step(&mut moving, &event, luggage, routes)? {
            Ok(effects) => effects,
            Err(illegal) => return Ok(Err(illegal.into())),
        };
        self.follow(&mut moving, &effects, Some(&request), routes)?;
        if !effects.contains(&Action::Call) {
            return Ok(Err(Refused::Withheld(Box::new(moving.row.state))));
        }
        self.db.operation(moving.row, request).map(Ok)
    }

    /// Applies one event to the row in hand and notes it in the ledger. A refusal that
    /// carries somebody's answer or wish is noted in the file as well.
    fn step(
        &mut self,
        moving: &mut Moving,
        event: &Event,
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Result<Effects, IllegalTransition>> {
        let row = &mut moving.row;
        let (domain, event_type) = (
            self.db.domain(row.domain)?,
            self.db.event_type(row.event_type)?,
        );
        let rules = routes.rules(&domain, &event_type);
        let note = &*note_of(event, luggage.reason);
        let late = luggage.ok.map(record);
        let (next, effects) = match row
            .state
            .apply_as(luggage.attempt_id, event, self.now, rules)
        {
            Ok(applied) => applied,
            Err(illegal) => {
                if illegal.ledger {
                    let why = illegal.why.to_string();
                    self.note(
                        row,
                        event.name(),
                        luggage.by,
                        Some(&why),
                        note,
                        late.as_ref(),
                    )?;
                    self.keep_ledger(row)?;
                }
                return Ok(Err(illegal));
            }
        };
        let recorded = row.state.write_ahead;
        row.state = next;
        if effects.contains(&Action::AlertLateOk) {
            self.note(row, event.name(), luggage.by, None, note, late.as_ref())?;
            self.keep_ledger(row)?;
            return Ok(Ok(effects));
        }
        self.note(row, event.name(), luggage.by, None, note, None)?;
        self.unpack(moving, event, &recorded, luggage)?;
        Ok(Ok(effects))
    }

    /// Stores what came with the event. The first recorded yes is kept: a second one says
    /// the same thing about the same call.
    fn unpack(
        &mut self,
        moving: &mut Moving,
        event: &Event,
        recorded: &WriteAhead,
        luggage: Luggage<'_>,
    ) -> Result<()> {
        let row = &mut moving.row;
        if brings_result(event, recorded) {
            row.result = Some(luggage.ok.map(record).unwrap_or_default());
            moving.spawn = luggage.ok.map(|ok| ok.spawn.clone()).unwrap_or_default();
            row.has_spawn = false;
        }
        if let (Event::Checkpoint { .. }, Some(bytes)) = (event, luggage.checkpoint) {
            let params = params![stored(row.seq), bytes.as_bytes()];
            self.db.run(Query::PutCheckpoint, params)?;
            row.has_checkpoint = true;
        } else if matches!(event, Event::Checkpoint { .. }) {
            row.has_checkpoint = false;
        }
        Ok(())
    }

    /// Writes the row, and performs the actions in this commit.
    fn follow(
        &mut self,
        moving: &mut Moving,
        effects: &[Action],
        request: Option<&Request>,
        routes: &Routes,
    ) -> Result<Option<BatchId>> {
        moving.row.requeue();
        if effects.contains(&Action::Call) {
            let started = moving.row.started_at.or(Some(self.now));
            moving.row.started_at = started;
        }
        if effects.contains(&Action::DeadLetter) {
            self.keep_dead_letter(&moving.row, request)?;
        }
        if !effects.contains(&Action::Settle) {
            if effects.contains(&Action::Call) || effects.contains(&Action::Hold) {
                self.take_lane(&moving.row)?;
            }
            self.keep_spawn(moving)?;
            self.put(&moving.row, &moving.before)?;
            return Ok(None);
        }
        let spawn = self.take_spawn(moving)?;
        moving.row.finished_at = Some(self.now);
        self.put(&moving.row, &moving.before)?;
        self.leave_lane(&moving.row)?;
        if moving.row.state.status == Status::Completed {
            for child in spawn {
                self.spawn(&mut moving.row, child, routes)?;
            }
        }
        self.fresh.settled.push(moving.row.op_id);
        self.count_in_batch(&moving.row, routes)
    }

    /// Writes the row with its place in line and its domain's counters.
    fn put(&mut self, row: &Row, before: &State) -> Result<()> {
        let stand = match row.state.awaits_begin() {
            true => self.stand(row)?,
            false => LaneStand::Unordered,
        };
        let place = row.place(stand, self.now);
        self.db.update_row(row, place)?;
        self.count(row.domain, Some(before), Some(&row.state))?;
        self.tell(row, place);
        Ok(())
    }

    /// What a recorded answer spawns is kept until the answer is final.
    fn keep_spawn(&mut self, moving: &mut Moving) -> Result<()> {
        if !moving.spawn.is_empty() {
            let params = params![stored(moving.row.seq), to_json(&moving.spawn)?];
            self.db.run(Query::PutSpawn, params)?;
            moving.row.has_spawn = true;
        }
        Ok(())
    }

    fn take_spawn(&mut self, moving: &mut Moving) -> Result<Vec<NewOperation>> {
        if !moving.row.has_spawn {
            return Ok(std::mem::take(&mut moving.spawn));
        }
        let seq = stored(moving.row.seq);
        let kept = self.db.first(Query::Spawn, [seq], |row| row.text(0))?;
        self.db.run(Query::DeleteSpawn, [seq])?;
        moving.row.has_spawn = false;
        let kept = kept.unwrap_or_else(|| "[]".into());
        let spawn = serde_json::from_str(&kept);
        spawn.map_err(|error| error::corrupt("spawned operations").caused_by(error))
    }

    fn spawn(&mut self, parent: &mut Row, child: NewOperation, routes: &Routes) -> Result<()> {
        let child = NewOperation {
            batch_id: parent.batch_id,
            ..child
        };
        let problem = if child.fingerprints.is_empty() || self.db.row(child.op_id)?.is_some() {
            match self.db.known(&child.keys, &child.keys.hash())? {
                Some(_) => self.spawn_problem(&child, routes)?,
                None => Some(format!("{} cannot name a new operation", child.op_id)),
            }
        } else {
            self.spawn_problem(&child, routes)?
        };
        if let Some(why) = problem {
            self.note(parent, "Spawn", None, Some(&why), "", None)?;
            self.keep_ledger(parent)?;
        }
        Ok(())
    }

    fn spawn_problem(&mut self, child: &NewOperation, routes: &Routes) -> Result<Option<String>> {
        Ok(match self.accept(child, Entry::Spawned, routes)? {
            Accepted::Mismatch(known) => Some(format!(
                "{} has the same keys and another payload",
                known.op_id
            )),
            _ => None,
        })
    }

    fn keep_dead_letter(&mut self, row: &Row, request: Option<&Request>) -> Result<()> {
        let read;
        let request = match request {
            Some(request) => request,
            None => {
                read = self.db.request(row.seq)?;
                read.as_ref().ok_or_else(|| error::corrupt("request"))?
            }
        };
        let unknown = || Failure::own("unknown", "", row.state.effect);
        let letter = DeadLetter {
            op_id: row.op_id,
            keys: Keys {
                domain: self.db.domain(row.domain)?,
                event_type: self.db.event_type(row.event_type)?,
                biz_key: request.biz_key.clone(),
                idem_key: request.idem_key.clone(),
            },
            failure: row.state.failure.clone().unwrap_or_else(unknown),
            attempts: row.state.attempts,
            payload: request.payload.clone(),
            content_hash: request.content_hash,
            failed_at: self.now,
            late_ok: false,
        };
        self.insert_dead_letter(&letter).map(|_| ())
    }

    /// Appends a line to the history of the row in hand.
    pub(crate) fn note(
        &mut self,
        row: &mut Row,
        event: &str,
        by: Option<&WorkerId>,
        refused: Option<&str>,
        note: &str,
        late: Option<&ResultRecord>,
    ) -> Result<()> {
        if row.ledger.len() > INLINE_MAX {
            let params = params![stored(row.seq), row.ledger.as_slice()];
            self.db.run(Query::InsertLedgerPage, params)?;
            row.ledger.clear();
        }
        let by = match by {
            Some(worker) => Some(By::Number(self.db.name(worker.as_str())?)),
            None => None,
        };
        let entry = ledger::Entry {
            event,
            at: self.now,
            accepted_at: row.accepted_at,
            state: &row.state,
            by,
            refused,
            note,
            late,
        };
        ledger::append(&mut row.ledger, &entry);
        Ok(())
    }

    /// Writes the history and the marks alone: nothing else of the row changed.
    fn keep_ledger(&mut self, row: &Row) -> Result<()> {
        let params = params![stored(row.seq), row.ledger.as_slice(), row.flags()];
        self.db.run(Query::UpdateLedger, params).map(|_| ())
    }
}

/// A begin, with what the store knows of the row's surroundings.
pub(crate) fn begin_event(
    begin: &BeginRequest,
    row: &Row,
    request: &Request,
    event_type: &EventType,
    paused: bool,
    lane: LaneStand,
) -> Event {
    let stored = request.payload.as_bytes();
    Event::Begin(Begin {
        attempt_id: begin.attempt_id,
        lease: begin.lease,
        paused,
        lane,
        intact: request
            .content_hash
            .verifies(&row.op_id, event_type, stored),
    })
}

fn changed(state: State, effects: Effects, batch_completed: Option<BatchId>) -> Changed {
    Changed {
        state,
        effects,
        batch_completed,
    }
}
