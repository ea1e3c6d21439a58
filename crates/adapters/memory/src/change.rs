//! The one function through which every operation changes, and what follows from it.

use clinch_core::policy::Routes;
use clinch_core::ports::{
    Accepted, BeginRequest, Changed, DeadLetter, LedgerLine, Operation, Refused, Scan, StoredOk,
};
use clinch_core::protocol::{Action, Begin, Event, WriteAhead};
use clinch_core::{BatchId, MESSAGE_BYTES_MAX, OpId, Status, WorkerId, shorten};
use clinch_stored::change::{Luggage, brings_result, note_of, record, told_by_predecessor};

use crate::accept::Entry;
use crate::{QueueRow, Row, Slot, Tx};

impl Tx<'_> {
    /// Reads the row, applies the event, writes the row and everything that follows.
    pub(crate) fn change(
        &mut self,
        op_id: OpId,
        event: &Event,
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Result<Changed, Refused> {
        let row = self.tables.rows.get(&op_id);
        let mut row = row.cloned().ok_or(Refused::NotFound)?;
        let keys = &row.operation.keys;
        let rules = routes.rules(&keys.domain, &keys.event_type);
        let before = row.operation.state.clone();
        let note = &*note_of(event, luggage.reason);
        let (next, effects) = match before.apply_as(luggage.attempt_id, event, self.now, rules) {
            Ok(applied) => applied,
            Err(illegal) => {
                if illegal.ledger {
                    let why = illegal.why.to_string();
                    self.note(&row.operation, event.name(), luggage.by, Some(&why), note);
                    self.keep_late_answer(op_id, luggage.ok);
                }
                return Err(illegal.into());
            }
        };
        row.operation.state = next;
        self.note(&row.operation, event.name(), luggage.by, None, note);
        if effects.contains(&Action::AlertLateOk) {
            self.keep_late_answer(op_id, luggage.ok);
            let batch_completed = self.applied_late(&row, luggage, routes);
            return Ok(changed(&row, effects, batch_completed));
        }
        unpack(&mut row, event, &before.write_ahead, luggage);
        let batch_completed = self.follow(&mut row, &effects, routes);
        Ok(changed(&row, effects, batch_completed))
    }

    /// Starts an attempt, or finds that none may be started.
    pub(crate) fn begin(
        &mut self,
        request: &BeginRequest,
        routes: &Routes,
    ) -> Result<Operation, Refused> {
        let event = self.begin_event(request, routes)?;
        let luggage = Luggage::by(&request.worker);
        let changed = self.change(request.op_id, &event, luggage, routes)?;
        match self.tables.rows.get(&request.op_id) {
            Some(row) if changed.effects.contains(&Action::Call) => Ok(row.operation.clone()),
            _ => Err(Refused::Withheld(Box::new(changed.state))),
        }
    }

    /// Begins if that leads to a call, else leaves the row alone.
    pub(crate) fn begin_if_called(&mut self, request: &BeginRequest, routes: &Routes) {
        let Ok(event) = self.begin_event(request, routes) else {
            return;
        };
        let Some(row) = self.tables.rows.get(&request.op_id) else {
            return;
        };
        let keys = &row.operation.keys;
        let rules = routes.rules(&keys.domain, &keys.event_type);
        let applied = row.operation.state.apply(&event, self.now, rules);
        if applied.is_ok_and(|(_, effects)| effects.contains(&Action::Call)) {
            // It was allowed a moment ago under the same lock.
            let _ = self.begin(request, routes);
        }
    }

    fn begin_event(&self, request: &BeginRequest, routes: &Routes) -> Result<Event, Refused> {
        let row = self.tables.rows.get(&request.op_id);
        let operation = &row.ok_or(Refused::NotFound)?.operation;
        let (keys, hash) = (&operation.keys, &operation.content_hash);
        routes
            .find(&keys.domain, &keys.event_type)
            .ok_or(Refused::NoRoute)?;
        let stored = operation.payload.as_bytes();
        Ok(Event::Begin(Begin {
            attempt_id: request.attempt_id,
            lease: request.lease,
            paused: self.tables.domain(&keys.domain).paused,
            lane: self.tables.lane_stand(operation),
            intact: hash.verifies(&operation.op_id, &keys.event_type, stored),
        }))
    }

    /// Performs the actions in this commit.
    fn follow(&mut self, row: &mut Row, effects: &[Action], routes: &Routes) -> Option<BatchId> {
        row.queue = Some(QueueRow {
            since: self.now,
            ..QueueRow::default()
        });
        let operation = &mut row.operation;
        if effects.contains(&Action::Call) {
            operation.started_at = operation.started_at.or(Some(self.now));
        }
        if effects.contains(&Action::DeadLetter) {
            let letter = dead_letter(operation, self.now);
            self.tables.dead_letters.insert(operation.op_id, letter);
        }
        if !effects.contains(&Action::Settle) {
            self.take_lane(&row.operation, effects);
            self.put(row.clone());
            return None;
        }
        operation.finished_at = Some(self.now);
        row.queue = None;
        let spawn = std::mem::take(&mut row.spawn);
        self.put(row.clone());
        self.leave_lane(&row.operation);
        self.remember_end(&row.operation);
        if row.operation.state.status == Status::Completed {
            for child in &spawn {
                self.spawn(&row.operation, child, routes);
            }
        }
        self.news.settled.push(row.operation.op_id);
        self.count_in_batch(&row.operation, routes)
    }

    /// Writes the row and tells who waits for what it became.
    pub(crate) fn put(&mut self, row: Row) {
        let op_id = row.operation.op_id;
        self.tables.put(row);
        let row = self.tables.rows.get(&op_id);
        let slots = row.and_then(|row| row.queue.as_ref()).map(|q| &q.slots);
        for slot in slots.into_iter().flatten() {
            match slot {
                Slot::Fresh { domain, .. } => {
                    self.news.due.insert(domain.clone());
                }
                Slot::Need { scan, .. } => {
                    self.news.recovery |= is_first(self.tables, *scan, slot);
                }
                Slot::Announced { .. } => {}
            }
        }
    }

    fn take_lane(&mut self, operation: &Operation, effects: &[Action]) {
        let taken = effects.contains(&Action::Call) || effects.contains(&Action::Hold);
        let Some(lane) = operation.lane.filter(|_| taken) else {
            return;
        };
        if let Some(mut row) = self.tables.lanes.get(&lane).cloned() {
            row.lane.take(operation.seq);
            self.tables.lanes.insert(lane, row);
        }
    }

    fn leave_lane(&mut self, operation: &Operation) {
        let Some(lane) = operation.lane else {
            return;
        };
        let Some(mut row) = self.tables.lanes.get(&lane).cloned() else {
            return;
        };
        row.members.remove(&operation.seq);
        let head = row.lane.leave(operation.seq);
        let next = head.and_then(|seq| row.members.get(&seq).copied());
        if row.lane.is_empty() {
            self.tables.lanes.remove(&lane);
        } else {
            self.tables.lanes.insert(lane, row);
        }
        if let Some(row) = next.and_then(|op| self.tables.rows.get(&op)).cloned() {
            self.put(row);
        }
    }

    fn remember_end(&mut self, operation: &Operation) {
        let hash = operation.keys.hash();
        if let Some(mut key) = self.tables.keys.get(&hash).cloned() {
            key.settled = Some((operation.state.status, self.now));
            self.tables.keys.insert(hash, key);
        }
    }

    fn spawn(
        &mut self,
        parent: &Operation,
        child: &clinch_core::ports::NewOperation,
        routes: &Routes,
    ) {
        let child = clinch_core::ports::NewOperation {
            batch_id: parent.batch_id,
            ..child.clone()
        };
        let accepted = self.accept(&child, Entry::Spawned, routes);
        if let Accepted::Mismatch(known) = accepted {
            let why = format!("{} has the same keys and another payload", known.op_id);
            self.note(parent, "Spawn", None, Some(&why), "");
        }
    }

    fn count_in_batch(&mut self, operation: &Operation, routes: &Routes) -> Option<BatchId> {
        let batch_id = operation.batch_id?;
        let mut row = self.tables.batches.get(&batch_id).cloned()?;
        match operation.state.status {
            Status::Completed => row.batch.completed += 1,
            _ => row.batch.failed += 1,
        }
        self.tables.batches.insert(batch_id, row);
        self.complete_batch(batch_id, routes).then_some(batch_id)
    }

    /// A line in the operation's history.
    pub(crate) fn note(
        &mut self,
        operation: &Operation,
        event: &str,
        by: Option<&WorkerId>,
        refused: Option<&str>,
        note: &str,
    ) {
        let line = LedgerLine {
            at: self.now,
            event: event.to_owned(),
            fence: operation.state.fence,
            version: operation.state.version,
            status: operation.state.status,
            phase: operation.state.phase,
            by: by.cloned(),
            refused: refused.map(str::to_owned),
            note: shorten(note.to_owned(), MESSAGE_BYTES_MAX),
            late: None,
        };
        let lines = self.tables.ledger.get(&operation.op_id);
        let mut lines = lines.cloned().unwrap_or_default();
        lines.push(line);
        self.tables.ledger.insert(operation.op_id, lines);
    }

    /// Marks a FAILED operation as applied, and tells the one that redrives it.
    fn applied_late(
        &mut self,
        row: &Row,
        luggage: Luggage<'_>,
        routes: &Routes,
    ) -> Option<BatchId> {
        let op_id = row.operation.op_id;
        self.tables.put(row.clone());
        if let Some(mut letter) = self.tables.dead_letters.get(&op_id).cloned() {
            letter.late_ok = true;
            self.tables.dead_letters.insert(op_id, letter);
        }
        let successor = row.operation.redriven_by?;
        let (event, note) = told_by_predecessor(op_id);
        let luggage = Luggage {
            reason: &note,
            ..luggage
        };
        // One that is COMPLETED keeps the answer in its ledger.
        let told = self.change(successor, &event, luggage, routes).ok()?;
        told.batch_completed
    }

    fn keep_late_answer(&mut self, op_id: OpId, ok: Option<&StoredOk>) {
        let Some(mut lines) = self.tables.ledger.get(&op_id).cloned() else {
            return;
        };
        if let Some(line) = lines.last_mut() {
            line.late = ok.map(record);
        }
        self.tables.ledger.insert(op_id, lines);
    }
}

fn is_first(tables: &crate::Tables, scan: Scan, slot: &Slot) -> bool {
    let first = Slot::Need {
        scan,
        since: clinch_core::Timestamp::from_millis(i64::MIN),
        seq: 0,
    };
    let head = tables.slots.range(first..).next();
    head.is_some_and(|(head, _)| head == slot)
}

fn changed(row: &Row, effects: Vec<Action>, batch_completed: Option<BatchId>) -> Changed {
    Changed {
        state: row.operation.state.clone(),
        effects,
        batch_completed,
    }
}

/// Stores what came with the event.
fn unpack(row: &mut Row, event: &Event, recorded: &WriteAhead, luggage: Luggage<'_>) {
    if brings_result(event, recorded) {
        row.operation.result = Some(luggage.ok.map(record).unwrap_or_default());
        row.spawn = luggage.ok.map(|ok| ok.spawn.clone()).unwrap_or_default();
    }
    if matches!(event, Event::Checkpoint { .. }) {
        row.operation.checkpoint = luggage.checkpoint.cloned();
    }
}

fn dead_letter(operation: &Operation, now: clinch_core::Timestamp) -> DeadLetter {
    let unknown = || clinch_core::Failure::own("unknown", "", operation.state.effect);
    DeadLetter {
        op_id: operation.op_id,
        keys: operation.keys.clone(),
        failure: operation.state.failure.clone().unwrap_or_else(unknown),
        attempts: operation.state.attempts,
        payload: operation.payload.clone(),
        content_hash: operation.content_hash,
        failed_at: now,
        late_ok: false,
    }
}
