//! Taking operations in.

use std::sync::Arc;

use clinch_core::policy::Routes;
use clinch_core::ports::{Accepted, BeginRequest, LetterStatus, NewOperation};
use clinch_core::protocol::{Action, Begin, Event, LaneStand, State};
use clinch_core::{Error, ErrorKind, Fingerprint, KeyHash, LaneKey};

use super::plan::{Awaits, Extent, NewKey, RowWrite, SpawnWrite};
use super::row::{Request, Row};
use super::seen::{KnownKey, WantedKey};
use super::work::{Note, Step, Stop, Work};
use crate::change::note_of;

/// Who brings an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A caller: a sealed batch is closed to it.
    Outside,
    /// An answer that spawns it, or a batch that completes.
    Inside,
}

impl Work<'_> {
    /// A caller's operation: a mistake in it fails the call.
    pub(super) fn accept_from_outside(&mut self, new: &NewOperation) -> Step<Accepted> {
        let invalid = |message: &str| {
            let error = Error::new(ErrorKind::Invalid, message);
            Err(Stop::Failed(error.with("op_id", new.op_id)))
        };
        let Some(fingerprint) = new.fingerprints.first().copied() else {
            return invalid("an operation needs a fingerprint");
        };
        let hash = new.keys.hash();
        self.want_all(new, hash, fingerprint)?;
        if self.key(hash).is_none() && self.is_taken(new.op_id)? {
            return invalid("the op_id names another operation; draw a fresh one");
        }
        self.accept(new, hash, fingerprint, Origin::Outside)
    }

    /// An operation that an answer or a batch brings. `Err`: why it cannot be taken in.
    pub(super) fn accept_from_inside(
        &mut self,
        new: &NewOperation,
    ) -> Step<Result<Accepted, String>> {
        let nameless = || Ok(Err(format!("{} cannot name a new operation", new.op_id)));
        let hash = new.keys.hash();
        let Some(fingerprint) = new.fingerprints.first().copied() else {
            return nameless();
        };
        self.want_all(new, hash, fingerprint)?;
        if self.key(hash).is_none() && self.is_taken(new.op_id)? {
            return nameless();
        }
        let accepted = self.accept(new, hash, fingerprint, Origin::Inside)?;
        Ok(Ok(accepted))
    }

    /// Asks for everything that an accept may need, at once.
    fn want_all(
        &mut self,
        new: &NewOperation,
        hash: KeyHash,
        fingerprint: Fingerprint,
    ) -> Step<()> {
        if !self.keys.contains_key(&hash) && !self.seen.keys.contains_key(&hash) {
            let key = WantedKey {
                keys: new.keys.clone(),
                op_id: new.op_id,
                fingerprint,
            };
            self.wanted.keys.entry(hash).or_insert(key);
        } else if self.key(hash).is_some() {
            // Nothing else of a known operation is looked at.
            return Ok(());
        }
        // Each of these notes what is missing; all of them are asked before the first is used.
        let id = self.is_taken(new.op_id).map(drop);
        let lane = lane_of(new, self.routes);
        let lane = lane.filter(|lane| !self.seen.lanes.contains_key(lane));
        self.wanted.lanes.extend(lane);
        let predecessor = new
            .redrive_of
            .map_or(Ok(()), |op| self.letter_of_predecessor(op).map(drop));
        let batch = new.batch_id.map_or(Ok(()), |id| self.batch(id).map(drop));
        let paused = match new.begin {
            Some(_) => self.is_paused(&new.keys.domain).map(drop),
            None => Ok(()),
        };
        id.and(predecessor).and(batch).and(paused)?;
        match self.wanted.keys.contains_key(&hash) || lane.is_some() {
            true => Err(Stop::Load),
            false => Ok(()),
        }
    }

    fn key(&self, hash: KeyHash) -> Option<&KnownKey> {
        let seen = || self.seen.keys.get(&hash).and_then(Option::as_ref);
        self.keys.get(&hash).or_else(seen)
    }

    fn accept(
        &mut self,
        new: &NewOperation,
        hash: KeyHash,
        fingerprint: Fingerprint,
        origin: Origin,
    ) -> Step<Accepted> {
        if let Some(key) = self.key(hash) {
            let mut known = key.known.clone();
            let is_same = key
                .fingerprint
                .is_some_and(|one| new.fingerprints.contains(&one));
            if let Some(status) = self.status_if_seen(known.op_id) {
                known.status = status;
            }
            return Ok(match is_same {
                true => Accepted::Known(known),
                false => Accepted::Mismatch(known),
            });
        }
        if let Some(predecessor) = new.redrive_of
            && self.state(predecessor)?.is_some_and(|state| state.late_ok)
        {
            return Ok(Accepted::PredecessorApplied);
        }
        if let Some(predecessor) = new.redrive_of
            && let Some(LetterStatus::Dismissed { .. }) = self.letter_of_predecessor(predecessor)?
        {
            return Ok(Accepted::PredecessorDismissed);
        }
        if !self.join_batch(new, origin)? {
            return Ok(Accepted::BatchClosed);
        }
        self.insert(new, NewKey { hash, fingerprint })
    }

    fn insert(&mut self, new: &NewOperation, key: NewKey) -> Step<Accepted> {
        let seq = self.next_seq();
        let lane = lane_of(new, self.routes);
        if let Some(lane) = lane {
            self.join_lane(lane, &new.keys.domain, seq, new.op_id)?;
        }
        if let Some(predecessor) = new.redrive_of
            && self.state(predecessor)?.is_some()
        {
            self.redrive(predecessor, new)?;
            if self.letter_of_predecessor(predecessor)?.is_some() {
                let by = new.op_id;
                self.set_letter(predecessor, LetterStatus::Redriven { by });
            }
        }
        let mut write = Box::new(RowWrite {
            row: self.row(new, seq, lane),
            before: None,
            extent: Extent::Whole,
            awaits: Awaits::Nothing,
            key: Some(key),
            lines: Vec::new(),
            checkpoint: None,
            spawn: SpawnWrite::Leave,
            dead_letter: false,
            late_ok: false,
        });
        let accepted = Note {
            event: "Accept",
            by: new.by.as_ref(),
            ..Note::default()
        };
        self.note(&mut write, accepted);
        if let Some(begin) = &new.begin {
            self.begin_if_called(&mut write, begin)?;
        }
        self.count(&new.keys.domain, None, &write.row.state);
        let state = Box::new(write.row.state.clone());
        self.keys.insert(key.hash, KnownKey::of_new(new));
        self.put_new(write);
        Ok(Accepted::New {
            seq,
            state,
            accepted_at: self.now,
        })
    }

    fn row(&self, new: &NewOperation, seq: u64, lane: Option<LaneKey>) -> Row {
        let rules = self.routes.rules(&new.keys.domain, &new.keys.event_type);
        let deadline = new.deadline(self.now, rules);
        let request = Request::of(new);
        Row {
            op_id: new.op_id,
            seq,
            domain: new.keys.domain.clone(),
            event_type: new.keys.event_type.clone(),
            priority: new.options.priority,
            accepted_at: self.now,
            batch_id: new.batch_id,
            lane,
            is_head: None,
            state: State::accepted(new.run_at(self.now), deadline, new.inherited),
            has_checkpoint: false,
            has_spawn: false,
            dispatch_no: 0,
            started_at: None,
            finished_at: None,
            result: None,
            redriven_by: None,
            ledger: Vec::new(),
            is_intact: new.begin.is_some() && request.is_intact(&new.op_id, &new.keys.event_type),
            request: Some(Arc::new(request)),
            checkpoint: None,
        }
    }

    /// Begins a new row if that leads to a call, else leaves it alone.
    fn begin_if_called(&mut self, write: &mut RowWrite, begin: &BeginRequest) -> Step<()> {
        let row = &write.row;
        let Some(rules) = self.routes.find(&row.domain, &row.event_type) else {
            return Ok(());
        };
        let paused = self.is_paused(&row.domain)?;
        let event = begin_event(begin, row, paused, self.stand(write)?);
        let applied = write.row.state.apply(&event, self.now, rules);
        let Ok((next, effects)) = applied else {
            return Ok(());
        };
        if effects.contains(&Action::Call) {
            write.row.state = next;
            write.row.started_at = Some(self.now);
            let begun = Note {
                event: event.name(),
                by: Some(&begin.worker),
                note: note_of(&event, "").into_owned(),
                ..Note::default()
            };
            self.note(write, begun);
        }
        Ok(())
    }
}

/// A begin, with what the store knows of the row's surroundings.
pub(super) fn begin_event(begin: &BeginRequest, row: &Row, paused: bool, lane: LaneStand) -> Event {
    Event::Begin(Begin {
        attempt_id: begin.attempt_id,
        lease: begin.lease,
        paused,
        lane,
        intact: row.is_intact,
    })
}

/// The lane that a new operation joins.
fn lane_of(new: &NewOperation, routes: &Routes) -> Option<LaneKey> {
    new.lane(routes.rules(&new.keys.domain, &new.keys.event_type))
}
