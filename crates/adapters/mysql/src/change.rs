//! The one way in which an operation changes, and what follows from it.
//!
//! A change is three steps on a row that was locked in this transaction: `step` asks
//! [`State::apply`] and notes the event in the ledger; what came with it is unpacked; and
//! `follow` does what belongs to the same commit. Settling takes two steps, write-ahead and
//! finalize. Rows are written by the flush.

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, BeginRequest, Changed, NewOperation, Operation, Refused, ResultRecord,
};
use clinch_core::protocol::{
    Action, Begin, Effects, Event, IllegalTransition, LaneStand, State, WriteAhead,
};
use clinch_core::{BatchId, OpId, Result, Sealed, Status, WorkerId};
use clinch_stored::change::{
    Answered, Luggage, brings_result, note_of, record, told_by_predecessor,
};
use clinch_stored::ledger::{self, By, INLINE_MAX};

use crate::accept::{Entry, Offer};
use crate::column::Column;
use crate::error;
use crate::query::Query;
use crate::request::{Request, to_json};
use crate::row::Row;
use crate::text::Tuple;
use crate::tx::{Dirty, Loaded, Tx};

/// A row on its way through a change.
struct Moving {
    row: Row,
    /// As it was before: its counter is left.
    before: State,
    spawn: Option<Vec<NewOperation>>,
}

impl Moving {
    fn of(loaded: &Loaded) -> Self {
        Self {
            row: loaded.row.clone(),
            before: loaded.row.state.clone(),
            spawn: loaded.spawn.clone(),
        }
    }
}

impl Tx<'_> {
    /// Applies the events in order to a row in hand, and everything that follows. An event after
    /// the first is applied only where an outcome waits for it.
    pub(crate) async fn change(
        &mut self,
        op_id: OpId,
        events: &[&Event],
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Answered<Changed>> {
        let Some(loaded) = self.rows.get(&op_id) else {
            return Ok(Err(Refused::NotFound));
        };
        let mut moving = Moving::of(loaded);
        let mut effects = Effects::new();
        for (at, event) in events.iter().enumerate() {
            if at > 0 && !matches!(moving.row.state.write_ahead, WriteAhead::Pending { .. }) {
                break;
            }
            let luggage = if at == 0 { luggage } else { Luggage::default() };
            effects = match self.step(&mut moving, event, luggage, routes) {
                Ok(effects) => effects,
                Err(illegal) => {
                    if at > 0 {
                        // What was recorded before the refusal stays recorded.
                        self.follow(&mut moving, &effects, routes).await?;
                    }
                    return Ok(Err(illegal.into()));
                }
            };
            if effects.contains(&Action::AlertLateOk) {
                let told = Box::pin(self.tell_successor(&moving.row, luggage, routes));
                let batch_completed = told.await?;
                return Ok(Ok(changed(moving.row.state, effects, batch_completed)));
            }
        }
        let batch_completed = self.follow(&mut moving, &effects, routes).await?;
        Ok(Ok(changed(moving.row.state, effects, batch_completed)))
    }

    /// Tells the operation that redrives a FAILED one that its call was applied.
    async fn tell_successor(
        &mut self,
        row: &Row,
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Option<BatchId>> {
        let Some(successor) = row.redriven_by else {
            return Ok(None);
        };
        self.load(&[successor], false).await?;
        let (event, note) = told_by_predecessor(row.op_id);
        let luggage = Luggage {
            reason: &note,
            ..luggage
        };
        // One that is COMPLETED keeps the answer in its ledger.
        let told = self.change(successor, &[&event], luggage, routes).await?;
        Ok(told.ok().and_then(|told| told.batch_completed))
    }

    /// Starts an attempt on a row in hand, or finds that none may be started.
    pub(crate) async fn begin(
        &mut self,
        begin: &BeginRequest,
        routes: &Routes,
    ) -> Result<Answered<Operation>> {
        let loaded = self.rows.get(&begin.op_id);
        let Some((loaded, request)) =
            loaded.and_then(|loaded| Some((loaded, loaded.request.clone()?)))
        else {
            return Ok(Err(Refused::NotFound));
        };
        let mut moving = Moving::of(loaded);
        let row = &moving.row;
        if routes.find(&row.domain, &row.event_type).is_none() {
            return Ok(Err(Refused::NoRoute));
        }
        let stand = match &row.lane {
            Some(lane) => self.stand(lane, row.seq),
            None => LaneStand::Unordered,
        };
        let paused = self.is_paused(&row.domain);
        let event = begin_event(begin, row, &request, paused, stand);
        let luggage = Luggage::by(&begin.worker);
        let effects = match self.step(&mut moving, &event, luggage, routes) {
            Ok(effects) => effects,
            Err(illegal) => return Ok(Err(illegal.into())),
        };
        self.follow(&mut moving, &effects, routes).await?;
        if !effects.contains(&Action::Call) {
            return Ok(Err(Refused::Withheld(Box::new(moving.row.state))));
        }
        let checkpoint = self.checkpoint(&moving.row).await?;
        Ok(Ok(moving.row.operation(request, checkpoint)))
    }

    async fn checkpoint(&mut self, row: &Row) -> Result<Option<Sealed>> {
        if !row.has_checkpoint {
            return Ok(None);
        }
        let seqs = row.seq.to_string();
        let found = self
            .query(&Query::Checkpoint.with(&[("seqs", &seqs)]))
            .await?;
        let bytes = found.first().map(|row| row.bytes(1)).transpose()?;
        Ok(bytes.map(|bytes| Sealed::new(bytes.to_vec())))
    }

    /// Applies one event to the row and notes it in the ledger. A refusal that carries
    /// somebody's answer or wish is kept as well.
    fn step(
        &mut self,
        moving: &mut Moving,
        event: &Event,
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Effects, IllegalTransition> {
        let row = &mut moving.row;
        let rules = routes.rules(&row.domain, &row.event_type);
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
                    let (by, late) = (luggage.by, late.as_ref());
                    self.note(row, event.name(), by, Some(&why), note, late);
                    self.keep_ledger(row);
                }
                return Err(illegal);
            }
        };
        let recorded = row.state.write_ahead;
        row.state = next;
        if effects.contains(&Action::AlertLateOk) {
            self.note(row, event.name(), luggage.by, None, note, late.as_ref());
            self.keep_ledger(row);
            return Ok(effects);
        }
        self.note(row, event.name(), luggage.by, None, note, None);
        self.unpack(moving, event, &recorded, luggage);
        Ok(effects)
    }

    /// Keeps what came with the event. The first recorded yes is kept: a second one says the
    /// same thing about the same call.
    fn unpack(
        &mut self,
        moving: &mut Moving,
        event: &Event,
        recorded: &WriteAhead,
        luggage: Luggage<'_>,
    ) {
        let row = &mut moving.row;
        if brings_result(event, recorded) {
            row.result = Some(luggage.ok.map(record).unwrap_or_default());
            moving.spawn = Some(luggage.ok.map(|ok| ok.spawn.clone()).unwrap_or_default());
            row.has_spawn = false;
        }
        if let (Event::Checkpoint { .. }, Some(bytes)) = (event, luggage.checkpoint) {
            let values = Tuple::new().int(row.seq).bytes(bytes.as_bytes()).end();
            self.later
                .add(&Query::PutCheckpoint.with(&[("row", &values)]));
            row.has_checkpoint = true;
        } else if matches!(event, Event::Checkpoint { .. }) {
            row.has_checkpoint = false;
        }
    }

    /// Keeps the row, and performs the actions in this commit.
    async fn follow(
        &mut self,
        moving: &mut Moving,
        effects: &[Action],
        routes: &Routes,
    ) -> Result<Option<BatchId>> {
        // A change makes the row fresh: nobody has announced what it is now.
        moving.row.announced_at = None;
        if effects.contains(&Action::Call) {
            let started = moving.row.started_at.or(Some(self.now));
            moving.row.started_at = started;
        }
        if effects.contains(&Action::DeadLetter) {
            self.keep_dead_letter(&moving.row);
        }
        if !effects.contains(&Action::Settle) {
            if effects.contains(&Action::Call) || effects.contains(&Action::Hold) {
                self.take_lane(&moving.row);
            }
            self.keep_spawn(moving)?;
            self.put(moving);
            return Ok(None);
        }
        let spawn = self.take_spawn(moving).await?;
        moving.row.finished_at = Some(self.now);
        self.put(moving);
        self.leave_lane(&moving.row);
        if moving.row.state.status == Status::Completed && !spawn.is_empty() {
            self.spawn_all(moving, spawn, routes).await?;
        }
        self.fresh.settled.push(moving.row.op_id);
        self.count_in_batch(&moving.row, routes).await
    }

    /// Keeps the row for the flush, and moves its counter.
    fn put(&mut self, moving: &mut Moving) {
        let row = &moving.row;
        self.count(&row.domain, Some(&moving.before), Some(&row.state));
        moving.before = row.state.clone();
        if let Some(loaded) = self.rows.get_mut(&row.op_id) {
            loaded.row = row.clone();
            loaded.spawn = moving.spawn.clone();
            loaded.dirty = Dirty::Row;
        }
    }

    /// What a recorded answer spawns is kept until the answer is final.
    fn keep_spawn(&mut self, moving: &mut Moving) -> Result<()> {
        let new = moving.spawn.as_ref().filter(|spawn| !spawn.is_empty());
        if let Some(spawn) = new.filter(|_| !moving.row.has_spawn) {
            let values = Tuple::new().int(moving.row.seq).bytes(to_json(spawn)?);
            let values = values.end();
            self.later.add(&Query::PutSpawn.with(&[("row", &values)]));
            moving.row.has_spawn = true;
        }
        Ok(())
    }

    async fn take_spawn(&mut self, moving: &mut Moving) -> Result<Vec<NewOperation>> {
        let here = moving.spawn.take();
        if !moving.row.has_spawn {
            return Ok(here.unwrap_or_default());
        }
        moving.row.has_spawn = false;
        let seqs = moving.row.seq.to_string();
        let kept = match here {
            Some(spawn) => spawn,
            None => {
                let found = self.query(&Query::Spawn.with(&[("seqs", &seqs)])).await?;
                let kept = found.first().map(|row| row.bytes(1)).transpose()?;
                let spawn = serde_json::from_slice(kept.unwrap_or(b"[]"));
                spawn.map_err(|error| error::corrupt("spawned operations").caused_by(error))?
            }
        };
        self.later
            .add(&Query::DeleteSpawns.with(&[("seqs", &seqs)]));
        Ok(kept)
    }

    async fn spawn_all(
        &mut self,
        moving: &mut Moving,
        spawn: Vec<NewOperation>,
        routes: &Routes,
    ) -> Result<()> {
        let children: Vec<NewOperation> = spawn
            .into_iter()
            .map(|child| NewOperation {
                batch_id: moving.row.batch_id,
                begin: None,
                ..child
            })
            .collect();
        let whole: Vec<Offer<'_>> = children
            .iter()
            .filter(|child| !child.fingerprints.is_empty())
            .map(|child| (child, routes))
            .collect();
        self.prepare(&whole, true).await?;
        for child in &children {
            if let Some(why) = self.spawn_problem(child, routes).await? {
                self.note(&mut moving.row, "Spawn", None, Some(&why), "", None);
                self.keep_ledger(&moving.row);
            }
        }
        Ok(())
    }

    async fn spawn_problem(
        &mut self,
        child: &NewOperation,
        routes: &Routes,
    ) -> Result<Option<String>> {
        let no_name = || Some(format!("{} cannot name a new operation", child.op_id));
        if child.fingerprints.is_empty() {
            // It can only be one that is known, and not even that can be told.
            return Ok(no_name());
        }
        let key = self.keys.get(&child.keys.hash());
        let is_new = key.is_none_or(|key| key.is_unused());
        let is_taken = self.taken.contains(&child.op_id) || self.rows.contains_key(&child.op_id);
        if is_new && is_taken {
            return Ok(no_name());
        }
        Ok(match self.accept(child, Entry::Spawned, routes).await? {
            Accepted::Mismatch(known) => Some(format!(
                "{} has the same keys and another payload",
                known.op_id
            )),
            _ => None,
        })
    }

    /// The letter is read from the operation: it says that there is one.
    fn keep_dead_letter(&mut self, row: &Row) {
        let values = Tuple::new().bytes(row.op_id.0.as_bytes()).at(self.now);
        let rows = values.raw("NULL").end();
        self.later
            .add(&Query::InsertDeadLetters.with(&[("rows", &rows)]));
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
    ) {
        if row.ledger.len() > INLINE_MAX {
            let values = Tuple::new().int(row.seq).bytes(&row.ledger).end();
            self.later
                .add(&Query::InsertLedgerPage.with(&[("row", &values)]));
            row.ledger.clear();
        }
        let entry = ledger::Entry {
            event,
            at: self.now,
            accepted_at: row.accepted_at,
            state: &row.state,
            by: by.map(|worker| By::Name(worker.as_str())),
            refused,
            note,
            late,
        };
        ledger::append(&mut row.ledger, &entry);
    }

    /// Keeps the history alone: nothing else of the row changed.
    fn keep_ledger(&mut self, row: &Row) {
        if let Some(loaded) = self.rows.get_mut(&row.op_id) {
            loaded.row.ledger = row.ledger.clone();
            loaded.row.state.late_ok = row.state.late_ok;
            loaded.dirty = loaded.dirty.max(Dirty::Ledger);
        }
    }
}

/// A begin, with what the store knows of the row's surroundings.
pub(crate) fn begin_event(
    begin: &BeginRequest,
    row: &Row,
    request: &Request,
    paused: bool,
    lane: LaneStand,
) -> Event {
    Event::Begin(Begin {
        attempt_id: begin.attempt_id,
        lease: begin.lease,
        paused,
        lane,
        intact: request.is_intact(row),
    })
}

fn changed(state: State, effects: Effects, batch_completed: Option<BatchId>) -> Changed {
    Changed {
        state,
        effects,
        batch_completed,
    }
}
