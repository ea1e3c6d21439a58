//! Taking operations in.
//!
//! Most calls need one look at what is known and one statement (`accept_fast`). What has a
//! lane, a batch or a predecessor goes through a transaction like any other change.

use std::collections::{BTreeSet, HashMap, HashSet};

use clinch_core::policy::{Order, Routes};
use clinch_core::ports::{Accepted, BeginRequest, NewOperation};
use clinch_core::protocol::{Action, LaneStand, State};
use clinch_core::{Error, ErrorKind, LaneKey, OpId, Result, Timestamp};
use clinch_stored::codec::Beside;
use uuid::Uuid;

use crate::change::begin_event;
use crate::error;
use crate::keys::{Key, KnownKey, key_of};
use crate::row::{Extras, Row};
use crate::tx::{Dirty, Entry, Origin, Tx};

/// Who may join a sealed batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// Nobody: it came from outside.
    Outside,
    /// It was spawned by a member, or is a completion event.
    Spawned,
}

/// Stands for a seq until the row is written: larger than any, in the order of acceptance.
const UNPLACED: u64 = 1 << 62;

/// What the caller got wrong, found before anything is written.
pub(crate) fn refuse_bad<'n>(
    offered: impl Iterator<Item = (&'n NewOperation, &'n Key)>,
    known: &HashMap<Key, Option<KnownKey>>,
    taken: &HashSet<OpId>,
) -> Result<()> {
    let mut here: HashMap<OpId, &Key> = HashMap::new();
    for (new, key) in offered {
        if new.fingerprints.is_empty() {
            let message = "an operation needs a fingerprint";
            let error = Error::new(ErrorKind::Invalid, message);
            return Err(error.with("op_id", new.op_id));
        }
        let twin = here
            .insert(new.op_id, key)
            .is_some_and(|other| other != key);
        let is_known = known.get(key).is_some_and(Option::is_some);
        if (twin || taken.contains(&new.op_id)) && !is_known {
            let message = "the op_id names another operation; draw a fresh one";
            return Err(Error::new(ErrorKind::Invalid, message).with("op_id", new.op_id));
        }
    }
    Ok(())
}

/// The same request, or another one under the same keys.
pub(crate) fn judge(new: &NewOperation, found: KnownKey) -> Accepted {
    match new.fingerprints.contains(&found.fingerprint) {
        true => Accepted::Known(found.known),
        false => Accepted::Mismatch(found.known),
    }
}

impl Tx<'_> {
    /// Every item of one call, and their places.
    pub(crate) async fn accept_all(
        &mut self,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        self.need_names(new.iter())?;
        self.start().await?;
        let lanes: Vec<LaneKey> = new.iter().filter_map(|new| lane_of(new, routes)).collect();
        self.load_lanes(&lanes, new.len()).await?;
        let keys: Vec<Key> = new.iter().map(|new| key_of(&new.keys)).collect();
        let ops: Vec<Uuid> = new.iter().map(|new| new.op_id.0).collect();
        self.load_keys(&keys, &ops).await?;
        refuse_bad(new.iter().zip(&keys), &self.keys, &self.taken)?;
        let batches: BTreeSet<_> = new.iter().filter_map(|new| new.batch_id).collect();
        self.load_batches(&batches).await?;
        let mut accepted = Vec::with_capacity(new.len());
        for new in new {
            accepted.push(self.accept(new, Entrance::Outside, routes).await?);
        }
        self.flush_new().await?;
        for (answer, new) in accepted.iter_mut().zip(new) {
            if let (Accepted::New { seq, .. }, Some(entry)) = (answer, self.rows.get(&new.op_id)) {
                *seq = entry.row.seq;
            }
        }
        Ok(accepted)
    }

    pub(crate) async fn accept(
        &mut self,
        new: &NewOperation,
        entrance: Entrance,
        routes: &Routes,
    ) -> Result<Accepted> {
        let key = key_of(&new.keys);
        if let Some(found) = self.known(&key).await? {
            return Ok(judge(new, found));
        }
        if let Some(predecessor) = new.redrive_of
            && self.has(predecessor).await?
            && self.was_applied_late(predecessor)
        {
            return Ok(Accepted::PredecessorApplied);
        }
        if !self.join_batch(new, entrance).await? {
            return Ok(Accepted::BatchClosed);
        }
        self.insert(new, key, routes).await
    }

    /// A yes was recorded after the operation, which is loaded, had FAILED.
    fn was_applied_late(&self, op: OpId) -> bool {
        self.rows
            .get(&op)
            .is_some_and(|entry| entry.row.state.late_ok)
    }

    async fn insert(&mut self, new: &NewOperation, key: Key, routes: &Routes) -> Result<Accepted> {
        let fingerprint = new.fingerprints.first().copied();
        let fingerprint = fingerprint.ok_or_else(|| error::corrupt("fingerprint"))?;
        let lane = lane_of(new, routes);
        if let Some(lane) = lane {
            self.load_lanes(&[lane], 1).await?;
        }
        let mut row = self.new_row(new, lane, routes)?;
        row.seq = UNPLACED + self.new.len() as u64;
        if let Some(lane) = lane {
            let members = self.lanes.entry(lane).or_default();
            members.insert((row.seq, row.op_id));
        }
        if let Some(predecessor) = new.redrive_of
            && self.has(predecessor).await?
        {
            let redriven = &mut self.beside.redriven;
            redriven.retain(|(op, _)| *op != predecessor);
            redriven.push((predecessor, new.op_id));
            if let Some(entry) = self.rows.get_mut(&predecessor) {
                entry.row.redriven_by = Some(new.op_id);
            }
        }
        self.note(&mut row, "Accept", None, None, "", None)?;
        if let Some(begin) = &new.begin {
            let paused = self.is_paused(row.stream.domain_id).await?;
            let stand = self.stand(&row);
            self.begin_if_called(&mut row, begin, paused, stand, routes)?;
        }
        self.count(row.stream.domain_id, None, Some(&row.state));
        let state = Box::new(row.state.clone());
        let seq = row.seq;
        let known = clinch_core::ports::Known {
            op_id: row.op_id,
            status: row.state.status,
            pruned: false,
        };
        self.keys.insert(key, Some(KnownKey { known, fingerprint }));
        self.taken.insert(row.op_id);
        self.new.push(row.op_id);
        let entry = Entry {
            row,
            origin: Origin::New { key, fingerprint },
            dirty: Dirty::Whole,
        };
        self.rows.insert(new.op_id, entry);
        Ok(Accepted::New { seq, state })
    }

    /// The row of a new operation, as it is accepted now.
    pub(crate) fn new_row(
        &mut self,
        new: &NewOperation,
        lane: Option<LaneKey>,
        routes: &Routes,
    ) -> Result<Row> {
        let keys = &new.keys;
        let rank = -new.options.priority.get();
        let stream = self.stream(&keys.domain, &keys.event_type, rank)?;
        Ok(new_row(new, stream, lane, self.now, routes))
    }

    /// Begins a new row if that leads to a call, else leaves it alone.
    pub(crate) fn begin_if_called(
        &mut self,
        row: &mut Row,
        begin: &BeginRequest,
        paused: bool,
        stand: LaneStand,
        routes: &Routes,
    ) -> Result<()> {
        let stream = row.stream.clone();
        let Some(rules) = routes.find(&stream.domain, &stream.event_type) else {
            return Ok(());
        };
        let event = begin_event(begin, row, &stream.event_type, paused, stand);
        match row.state.apply(&event, self.now, rules) {
            Ok((next, effects)) if effects.contains(&Action::Call) => {
                row.state = next;
                row.started_at = Some(self.now);
                self.note(row, event.name(), Some(&begin.worker), None, "", None)
            }
            _ => Ok(()),
        }
    }
}

/// The lane that a new operation joins.
pub(crate) fn lane_of(new: &NewOperation, routes: &Routes) -> Option<LaneKey> {
    match routes.rules(&new.keys.domain, &new.keys.event_type).order {
        Order::Key => Some(LaneKey::of(&new.keys.domain, &new.keys.biz_key)),
        Order::None => None,
    }
}

fn new_row(
    new: &NewOperation,
    stream: crate::names::Stream,
    lane: Option<LaneKey>,
    now: Timestamp,
    routes: &Routes,
) -> Row {
    let rules = routes.rules(&new.keys.domain, &new.keys.event_type);
    let deadline = new.deadline(now, rules);
    Row {
        op_id: new.op_id,
        seq: 0,
        stream,
        accepted_at: now,
        batch_id: new.batch_id,
        biz_key: new.keys.biz_key.clone(),
        idem_key: new.keys.idem_key.clone(),
        payload: new.payload.clone(),
        content_hash: new.content_hash,
        extras: Extras::of(new),
        labels: new.options.labels.clone(),
        lane,
        state: State::accepted(new.run_at(now), deadline, new.inherited),
        beside: Beside::default(),
        ledger: Vec::with_capacity(32),
        dispatch_no: 0,
        started_at: None,
        finished_at: None,
        result: None,
        redriven_by: None,
        line: 0,
    }
}
