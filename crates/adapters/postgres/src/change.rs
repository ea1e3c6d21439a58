//! The one way in which an operation changes, and what follows from it.
//!
//! A change is three steps on a row that was read and locked in this transaction: `step` asks
//! [`State::apply`] and notes the event in the ledger; what came with it is unpacked; and
//! `follow` does everything that belongs to the same commit. Settling takes two steps,
//! write-ahead and finalize. The commit writes the row once.

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, BeginRequest, Changed, NewOperation, Operation, Refused, ResultRecord,
};
use clinch_core::protocol::{
    Action, Begin, Effects, Event, IllegalTransition, LaneStand, State, WriteAhead,
};
use clinch_core::{BatchId, EventType, OpId, Result, Sealed, Status, WorkerId};
use clinch_stored::change::{
    Answered, Luggage, brings_result, note_of, record, told_by_predecessor,
};
use clinch_stored::ledger::{self, By, INLINE_MAX};

use crate::accept::Entrance;
use crate::error;
use crate::keys::key_of;
use crate::query::Query;
use crate::row::{Row, to_json};
use crate::tx::{Dirty, Entry, Origin, Tx};

/// A row on its way through a change.
struct Moving {
    entry: Entry,
    /// As it was: its counter is left.
    before: State,
    spawn: Vec<NewOperation>,
}

impl Moving {
    fn new(entry: Entry) -> Self {
        Self {
            before: entry.row.state.clone(),
            entry,
            spawn: Vec::new(),
        }
    }
}

impl Tx<'_> {
    /// Applies the events in order to a row that was loaded, and does what follows. An event
    /// after the first is applied only where an outcome waits for it.
    pub(crate) async fn change(
        &mut self,
        op_id: OpId,
        events: &[&Event],
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Answered<Changed>> {
        let Some(mut moving) = self.take(op_id).await? else {
            return Ok(Err(Refused::NotFound));
        };
        let answered = self.change_row(&mut moving, events, luggage, routes).await;
        let successor = moving.entry.row.redriven_by;
        self.rows.insert(op_id, moving.entry);
        let mut answered = answered?;
        if let (Ok(changed), Some(successor)) = (&mut answered, successor)
            && changed.effects.contains(&Action::AlertLateOk)
        {
            let told = Box::pin(self.tell_successor(op_id, successor, luggage, routes));
            changed.batch_completed = told.await?;
        }
        Ok(answered)
    }

    /// Tells the operation that redrives a FAILED one that its call was applied.
    async fn tell_successor(
        &mut self,
        op_id: OpId,
        successor: OpId,
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Option<BatchId>> {
        self.gather(&[successor], Query::RowsForUpdate).await?;
        let (event, note) = told_by_predecessor(op_id);
        let luggage = Luggage {
            reason: &note,
            ..luggage
        };
        // One that is COMPLETED keeps the answer in its ledger.
        let told = self.change(successor, &[&event], luggage, routes).await?;
        Ok(told.ok().and_then(|told| told.batch_completed))
    }

    /// The row of an operation, out of the transaction's hands. One that is new is written
    /// first.
    async fn take(&mut self, op_id: OpId) -> Result<Option<Moving>> {
        let is_new = |entry: &Entry| matches!(entry.origin, Origin::New { .. });
        if self.rows.get(&op_id).is_some_and(is_new) {
            self.flush_new().await?;
        }
        Ok(self.rows.remove(&op_id).map(Moving::new))
    }

    async fn change_row(
        &mut self,
        moving: &mut Moving,
        events: &[&Event],
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Answered<Changed>> {
        let mut effects = Effects::new();
        for (at, event) in events.iter().enumerate() {
            let recorded = &moving.entry.row.state.write_ahead;
            if at > 0 && !matches!(recorded, WriteAhead::Pending { .. }) {
                break;
            }
            let luggage = if at == 0 { luggage } else { Luggage::default() };
            effects = match self.step(moving, event, luggage, routes)? {
                Ok(effects) => effects,
                Err(illegal) => {
                    if at > 0 {
                        // What was recorded before the refusal stays recorded.
                        self.follow(moving, &effects, routes).await?;
                    }
                    return Ok(Err(illegal.into()));
                }
            };
            if effects.contains(&Action::AlertLateOk) {
                return Ok(Ok(changed(moving.entry.row.state.clone(), effects, None)));
            }
        }
        let batch_completed = self.follow(moving, &effects, routes).await?;
        let state = moving.entry.row.state.clone();
        Ok(Ok(changed(state, effects, batch_completed)))
    }

    /// Starts an attempt of a row that was loaded with its payload, or finds that none may be
    /// started.
    pub(crate) async fn begin(
        &mut self,
        begin: &BeginRequest,
        routes: &Routes,
    ) -> Result<Answered<Operation>> {
        let Some(mut moving) = self.take(begin.op_id).await? else {
            return Ok(Err(Refused::NotFound));
        };
        let answered = self.begin_row(&mut moving, begin, routes).await;
        self.rows.insert(begin.op_id, moving.entry);
        answered
    }

    async fn begin_row(
        &mut self,
        moving: &mut Moving,
        begin: &BeginRequest,
        routes: &Routes,
    ) -> Result<Answered<Operation>> {
        let row = &moving.entry.row;
        let stream = row.stream.clone();
        if routes.find(&stream.domain, &stream.event_type).is_none() {
            return Ok(Err(Refused::NoRoute));
        }
        let paused = self.is_paused(stream.domain_id).await?;
        let stand = self.stand(row);
        let event = begin_event(begin, row, &stream.event_type, paused, stand);
        let luggage = Luggage::by(&begin.worker);
        let effects = match self.step(moving, &event, luggage, routes)? {
            Ok(effects) => effects,
            Err(illegal) => return Ok(Err(illegal.into())),
        };
        self.follow(moving, &effects, routes).await?;
        let row = moving.entry.row.clone();
        if !effects.contains(&Action::Call) {
            return Ok(Err(Refused::Withheld(Box::new(row.state))));
        }
        let checkpoint = match row.beside.checkpoint {
            true => self.checkpoint(row.op_id).await?,
            false => None,
        };
        Ok(Ok(row.operation(checkpoint)))
    }

    async fn checkpoint(&mut self, op_id: OpId) -> Result<Option<Sealed>> {
        let rows = self.query(Query::Checkpoints, &[&vec![op_id.0]]).await?;
        Ok(rows.first().map(|row| Sealed::new(row.get(1))))
    }

    /// Applies one event to the row in hand and notes it in the ledger. A refusal that
    /// carries somebody's answer or wish is noted as well.
    fn step(
        &mut self,
        moving: &mut Moving,
        event: &Event,
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Result<Effects, IllegalTransition>> {
        let entry = &mut moving.entry;
        let stream = &entry.row.stream;
        let rules = routes.rules(&stream.domain, &stream.event_type);
        let note = &*note_of(event, luggage.reason);
        let late = luggage.ok.map(record);
        let name = event.name();
        let (next, effects) =
            match entry
                .row
                .state
                .apply_as(luggage.attempt_id, event, self.now, rules)
            {
                Ok(applied) => applied,
                Err(illegal) => {
                    if illegal.ledger {
                        let why = illegal.why.to_string();
                        let row = &mut entry.row;
                        self.note(row, name, luggage.by, Some(&why), note, late.as_ref())?;
                        entry.dirty = entry.dirty.max(Dirty::Ledger);
                    }
                    return Ok(Err(illegal));
                }
            };
        let recorded = entry.row.state.write_ahead;
        entry.row.state = next;
        if effects.contains(&Action::AlertLateOk) {
            let row = &mut entry.row;
            self.note(row, name, luggage.by, None, note, late.as_ref())?;
            entry.dirty = entry.dirty.max(Dirty::Ledger);
            return Ok(Ok(effects));
        }
        self.note(&mut entry.row, name, luggage.by, None, note, None)?;
        self.unpack(moving, event, &recorded, luggage);
        Ok(Ok(effects))
    }

    /// Keeps what came with the event. The first recorded yes is kept: a second one says
    /// the same thing about the same call.
    fn unpack(
        &mut self,
        moving: &mut Moving,
        event: &Event,
        recorded: &WriteAhead,
        luggage: Luggage<'_>,
    ) {
        let row = &mut moving.entry.row;
        if brings_result(event, recorded) {
            row.result = Some(luggage.ok.map(record).unwrap_or_default());
            row.beside.result = true;
            moving.spawn = luggage.ok.map(|ok| ok.spawn.clone()).unwrap_or_default();
            row.beside.spawn = false;
        }
        if matches!(event, Event::Checkpoint { .. }) {
            row.beside.checkpoint = luggage.checkpoint.is_some();
            if let Some(bytes) = luggage.checkpoint {
                let kept = &mut self.beside.checkpoints;
                kept.retain(|(op, _)| *op != row.op_id);
                kept.push((row.op_id, bytes.as_bytes().to_vec()));
            }
        }
    }

    /// Performs the actions in this commit.
    async fn follow(
        &mut self,
        moving: &mut Moving,
        effects: &[Action],
        routes: &Routes,
    ) -> Result<Option<BatchId>> {
        let row = &mut moving.entry.row;
        moving.entry.dirty = Dirty::Whole;
        if effects.contains(&Action::Call) {
            row.started_at = row.started_at.or(Some(self.now));
        }
        if effects.contains(&Action::DeadLetter) {
            self.beside.letters.push((row.op_id, self.now, None));
        }
        self.count(row.stream.domain_id, Some(&moving.before), Some(&row.state));
        moving.before = row.state.clone();
        if !effects.contains(&Action::Settle) {
            self.keep_spawn(moving)?;
            return Ok(None);
        }
        let spawn = self.take_spawn(moving).await?;
        let row = &mut moving.entry.row;
        row.finished_at = Some(self.now);
        self.leave_lane(row).await?;
        if row.state.status == Status::Completed {
            for child in spawn {
                self.spawn(row, child, routes).await?;
            }
        }
        self.fresh.settled.push(row.op_id);
        let (batch_id, status) = (row.batch_id, row.state.status);
        self.count_in_batch(batch_id, status, routes).await
    }

    /// The row is terminal; whoever is head by this is in line from now on.
    async fn leave_lane(&mut self, row: &Row) -> Result<()> {
        let Some(lane) = row.lane else {
            return Ok(());
        };
        self.load_lanes(&[lane], 1).await?;
        let members = self.lanes.entry(lane).or_default();
        let before = members.first().copied();
        members.retain(|(_, op)| *op != row.op_id);
        let head = members.first().copied().filter(|_| {
            // Somebody else's head stays where it is.
            before.is_some_and(|(_, op)| op == row.op_id)
        });
        if let Some((_, op)) = head {
            self.beside.lined_up.insert(op);
            let domain = row.stream.domain_id;
            let streams = self.shared.names.streams(|s| s.domain_id == domain);
            for stream in streams {
                self.is_due(stream, i64::MIN);
            }
        }
        self.beside.lined_up.remove(&row.op_id);
        Ok(())
    }

    /// What a recorded answer spawns is kept until the answer is final.
    fn keep_spawn(&mut self, moving: &mut Moving) -> Result<()> {
        if !moving.spawn.is_empty() {
            let row = &mut moving.entry.row;
            let kept = (row.op_id, to_json(&moving.spawn)?);
            self.beside.spawns.retain(|(op, _)| *op != row.op_id);
            self.beside.spawns.push(kept);
            row.beside.spawn = true;
        }
        Ok(())
    }

    async fn take_spawn(&mut self, moving: &mut Moving) -> Result<Vec<NewOperation>> {
        let row = &mut moving.entry.row;
        if !row.beside.spawn {
            return Ok(std::mem::take(&mut moving.spawn));
        }
        row.beside.spawn = false;
        let op_id = row.op_id;
        let here = self.beside.spawns.iter().find(|(op, _)| *op == op_id);
        let kept = match here {
            Some((_, kept)) => Some(kept.clone()),
            None => {
                let rows = self.query(Query::Spawns, &[&vec![op_id.0]]).await?;
                rows.first().map(|row| row.get(1))
            }
        };
        self.beside.spawns.retain(|(op, _)| *op != op_id);
        self.beside.spawned.push(op_id);
        let kept = kept.unwrap_or_else(|| "[]".into());
        let spawn = serde_json::from_str(&kept);
        spawn.map_err(|error| error::corrupt("spawned operations").caused_by(error))
    }

    async fn spawn(
        &mut self,
        parent: &mut Row,
        child: NewOperation,
        routes: &Routes,
    ) -> Result<()> {
        let child = NewOperation {
            batch_id: parent.batch_id,
            ..child
        };
        let is_taken = child.op_id == parent.op_id || self.has(child.op_id).await?;
        let problem = if child.fingerprints.is_empty() || is_taken {
            match self.known(&key_of(&child.keys)).await? {
                Some(_) => self.spawn_problem(&child, routes).await?,
                None => Some(format!("{} cannot name a new operation", child.op_id)),
            }
        } else {
            self.spawn_problem(&child, routes).await?
        };
        if let Some(why) = problem {
            self.note(parent, "Spawn", None, Some(&why), "", None)?;
        }
        Ok(())
    }

    async fn spawn_problem(
        &mut self,
        child: &NewOperation,
        routes: &Routes,
    ) -> Result<Option<String>> {
        Ok(match self.accept(child, Entrance::Spawned, routes).await? {
            Accepted::Mismatch(known) => Some(format!(
                "{} has the same keys and another payload",
                known.op_id
            )),
            _ => None,
        })
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
            let page = std::mem::take(&mut row.ledger);
            self.beside.pages.push((row.op_id, page));
        }
        let by = by.map(|worker| self.worker(worker)).transpose()?;
        let entry = ledger::Entry {
            event,
            at: self.now,
            accepted_at: row.accepted_at,
            state: &row.state,
            by: by.map(|number| By::Number(i64::from(number))),
            refused,
            note,
            late,
        };
        ledger::append(&mut row.ledger, &entry);
        Ok(())
    }
}

/// A begin, with what the store knows of the row's surroundings.
pub(crate) fn begin_event(
    begin: &BeginRequest,
    row: &Row,
    event_type: &EventType,
    paused: bool,
    lane: LaneStand,
) -> Event {
    let stored = row.payload.as_bytes();
    Event::Begin(Begin {
        attempt_id: begin.attempt_id,
        lease: begin.lease,
        paused,
        lane,
        intact: row.content_hash.verifies(&row.op_id, event_type, stored),
    })
}

fn changed(state: State, effects: Effects, batch_completed: Option<BatchId>) -> Changed {
    Changed {
        state,
        effects,
        batch_completed,
    }
}
