//! Taking operations in.

use clinch_core::policy::{Order, Routes};
use clinch_core::ports::{Accepted, BeginRequest, Known, NewOperation};
use clinch_core::protocol::{Action, LaneStand, State};
use clinch_core::{Error, ErrorKind, Fingerprint, KeyHash, Keys, LaneKey, OpId, Result};
use clinch_stored::change::Luggage;
use clinch_stored::ledger::status_of;
use rusqlite::params;

use crate::change::begin_event;
use crate::column::Column;
use crate::db::Db;
use crate::error;
use crate::query::Query;
use crate::request::{Request, short_hash};
use crate::row::Row;
use crate::tx::Tx;

/// Who may join a sealed batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Nobody: it came from outside.
    Outside,
    /// It was spawned by a member, or is a completion event.
    Spawned,
}

impl Db<'_> {
    /// What is known by the four keys, also after the row is gone, and its fingerprint.
    pub(crate) fn known(
        &mut self,
        keys: &Keys,
        hash: &KeyHash,
    ) -> Result<Option<(Known, Fingerprint)>> {
        let short = short_hash(keys, hash);
        let seqs = self.all(Query::KeysByHash, [short], |row| row.int(0))?;
        for seq in seqs {
            if let Some(known) = self.known_at(seq, keys, hash)? {
                return Ok(Some(known));
            }
        }
        Ok(None)
    }

    /// The same of one candidate: equality is judged by the keys, not by the short hash.
    fn known_at(
        &mut self,
        seq: i64,
        keys: &Keys,
        hash: &KeyHash,
    ) -> Result<Option<(Known, Fingerprint)>> {
        let open = self.first(Query::KeyedOperation, [seq], |row| {
            let same =
                row.text(5)? == keys.biz_key.as_str() && row.text(6)? == keys.idem_key.as_str();
            let known = (row.op_id(0)?, status_of(row.int(1)?)?);
            let fingerprint = Fingerprint::from_bytes(row.bytes(2)?);
            let fingerprint = fingerprint.map_err(error::unreadable)?;
            Ok((same, known, fingerprint, row.int(3)?, row.int(4)?))
        })?;
        if let Some((same, (op_id, status), fingerprint, domain, event_type)) = open {
            let same = same
                && self.domain(domain)? == keys.domain
                && self.event_type(event_type)? == keys.event_type;
            let known = Known {
                op_id,
                status,
                pruned: false,
            };
            return Ok(same.then_some((known, fingerprint)));
        }
        let kept = self.first(Query::KeptKey, [seq], |row| {
            let known = Known {
                op_id: row.op_id(1)?,
                status: status_of(row.int(3)?)?,
                pruned: true,
            };
            let fingerprint = Fingerprint::from_bytes(row.bytes(2)?);
            let same = row.bytes(0)? == hash.as_bytes().as_slice();
            Ok((same, known, fingerprint.map_err(error::unreadable)?))
        })?;
        Ok(kept.and_then(|(same, known, print)| same.then_some((known, print))))
    }
}

impl Tx<'_, '_> {
    /// Every item of one call. What the caller got wrong is found before anything is
    /// written, so that its mistake is not that of others in the same commit.
    pub(crate) fn accept_all(
        &mut self,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        for (at, new_one) in new.iter().enumerate() {
            if new_one.fingerprints.is_empty() {
                let message = "an operation needs a fingerprint";
                let error = Error::new(ErrorKind::Invalid, message);
                return Err(error.with("op_id", new_one.op_id));
            }
            self.refuse_taken_id(new_one, &new[..at])?;
        }
        let accept = |new: &NewOperation| self.accept(new, Entry::Outside, routes);
        new.iter().map(accept).collect()
    }

    fn refuse_taken_id(&mut self, new: &NewOperation, before: &[NewOperation]) -> Result<()> {
        // A version 7 id that is larger than the one before it is nobody's in this call.
        let rises = before.last().is_none_or(|last| last.op_id < new.op_id);
        let twin = |other: &&NewOperation| other.op_id == new.op_id && other.keys != new.keys;
        let taken_here = !rises && before.iter().any(|other| twin(&other));
        if !taken_here && !self.has(new.op_id)? {
            return Ok(());
        }
        if self.db.known(&new.keys, &new.keys.hash())?.is_some() {
            return Ok(());
        }
        let message = "the op_id names another operation; draw a fresh one";
        Err(Error::new(ErrorKind::Invalid, message).with("op_id", new.op_id))
    }

    fn has(&mut self, op_id: OpId) -> Result<bool> {
        if self.newest_op_id()?.is_none_or(|newest| newest < op_id) {
            return Ok(false);
        }
        let id = op_id.0.as_bytes();
        let found = self.db.first(Query::HasOperation, [id], |_| Ok(()))?;
        Ok(found.is_some())
    }

    pub(crate) fn accept(
        &mut self,
        new: &NewOperation,
        entry: Entry,
        routes: &Routes,
    ) -> Result<Accepted> {
        let hash = new.keys.hash();
        if let Some((known, fingerprint)) = self.db.known(&new.keys, &hash)? {
            return Ok(if new.fingerprints.contains(&fingerprint) {
                Accepted::Known(known)
            } else {
                Accepted::Mismatch(known)
            });
        }
        if let Some(predecessor) = new.redrive_of {
            let predecessor = self.db.row(predecessor)?;
            if predecessor.is_some_and(|row| row.state.late_ok) {
                return Ok(Accepted::PredecessorApplied);
            }
        }
        if !self.join_batch(new, entry)? {
            return Ok(Accepted::BatchClosed);
        }
        self.insert(new, short_hash(&new.keys, &hash), routes)
    }

    fn insert(&mut self, new: &NewOperation, short: i64, routes: &Routes) -> Result<Accepted> {
        let rules = routes.rules(&new.keys.domain, &new.keys.event_type);
        let seq = self.next_seq()?;
        let lane = match rules.order {
            Order::Key => Some(LaneKey::of(&new.keys.domain, &new.keys.biz_key)),
            Order::None => None,
        };
        let stand = match &lane {
            Some(lane) => {
                self.join_lane(lane, seq)?;
                self.stand_in(lane, seq)?
            }
            None => LaneStand::Unordered,
        };
        let fingerprint = new.fingerprints.first().copied();
        let fingerprint = fingerprint.ok_or_else(|| error::corrupt("fingerprint"))?;
        let request = Request::of(new, fingerprint, lane);
        let deadline = new.deadline(self.now, rules);
        let mut row = Row {
            seq,
            op_id: new.op_id,
            domain: self.db.name(new.keys.domain.as_str())?,
            event_type: self.db.name(new.keys.event_type.as_str())?,
            accepted_at: self.now,
            batch_id: new.batch_id,
            rank: -new.options.priority.get(),
            laned: lane.is_some(),
            state: State::accepted(new.run_at(self.now), deadline, new.inherited),
            has_checkpoint: false,
            has_spawn: false,
            dispatch_no: 0,
            started_at: None,
            finished_at: None,
            result: None,
            redriven_by: None,
            announced_at: None,
            ledger: Vec::with_capacity(32),
        };
        if let Some(predecessor) = new.redrive_of {
            let params = params![predecessor.0.as_bytes(), new.op_id.0.as_bytes()];
            self.db.run(Query::SetRedriven, params)?;
        }
        self.note(&mut row, "Accept", None, None, "", None)?;
        if let Some(begin) = &new.begin {
            self.begin_if_called(&mut row, &request, begin, stand, routes)?;
        }
        self.db.insert_request(seq, &request)?;
        let place = row.place(stand, self.now);
        self.db.insert_row(&row, place)?;
        self.insert_key(short, seq)?;
        self.count(row.domain, None, Some(&row.state))?;
        if row.state.phase.is_some() {
            self.take_lane(&row)?;
        }
        self.tell(&row, place);
        self.accepted(row.op_id);
        let state = Box::new(row.state);
        Ok(Accepted::New { seq, state })
    }

    /// Begins a new row if that leads to a call, else leaves it alone.
    fn begin_if_called(
        &mut self,
        row: &mut Row,
        request: &Request,
        begin: &BeginRequest,
        stand: LaneStand,
        routes: &Routes,
    ) -> Result<()> {
        let (domain, event_type) = (
            self.db.domain(row.domain)?,
            self.db.event_type(row.event_type)?,
        );
        let Some(rules) = routes.find(&domain, &event_type) else {
            return Ok(());
        };
        let paused = self.domain_row(row.domain)?.paused;
        let event = begin_event(begin, row, request, &event_type, paused, stand);
        match row.state.apply(&event, self.now, rules) {
            Ok((next, effects)) if effects.contains(&Action::Call) => {
                row.state = next;
                row.started_at = Some(self.now);
                let luggage = Luggage::by(&begin.worker);
                self.note(row, event.name(), luggage.by, None, "", None)
            }
            _ => Ok(()),
        }
    }
}
