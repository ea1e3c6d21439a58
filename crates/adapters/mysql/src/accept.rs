//! Taking operations in. Keys are inserted first: who finds one there waits for its commit.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};

use clinch_core::policy::{Order, Routes};
use clinch_core::ports::{Accepted, BeginRequest, Known, NewOperation};
use clinch_core::protocol::{Action, LaneStand, State};
use clinch_core::{BatchId, Error, ErrorKind, Fingerprint, KeyHash, LaneKey, OpId, Result, Status};
use clinch_stored::change::Luggage;
use clinch_stored::ledger::status_of;

use crate::change::begin_event;
use crate::column::Column;
use crate::error;
use crate::flush::PROVISIONAL;
use crate::link::{Answer, Script};
use crate::query::Query;
use crate::request::{Request, plain_print};
use crate::row::Row;
use crate::text::{self, Tuple};
use crate::tx::{Dirty, Loaded, Tx};

/// Who may join a sealed batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Nobody: it came from outside.
    Outside,
    /// It was spawned by a member, or is a completion event.
    Spawned,
}

/// A new operation, and the routes of who brings it.
pub(crate) type Offer<'a> = (&'a NewOperation, &'a Routes);

/// What is known by the four keys.
#[derive(Debug, Clone)]
pub(crate) struct KeyRow {
    op_id: OpId,
    /// `None`: the payload has to be looked at, it is JSON in any spelling.
    fingerprint: Option<Fingerprint>,
    /// `None`: this transaction wrote it and no operation uses it yet.
    status: Option<Status>,
    pruned: bool,
}

impl KeyRow {
    pub(crate) fn is_unused(&self) -> bool {
        self.status.is_none()
    }

    pub(crate) fn known(&self) -> Known {
        Known {
            op_id: self.op_id,
            status: self.status.unwrap_or(Status::Pending),
            pruned: self.pruned,
        }
    }

    /// A row of `known_keys.sql`, and its nonce.
    pub(crate) fn read(row: &mysql_async::Row) -> Result<(KeyHash, Self, u64)> {
        let hash = KeyHash::from_bytes(row.bytes(0)?).map_err(error::unreadable)?;
        let open_or_ended = row.maybe_int(5)?.or(row.maybe_int(6)?);
        let status = open_or_ended.or(row.maybe_int(4)?);
        let status = status.map(status_of).transpose()?;
        let key = Self {
            op_id: row.op_id(1)?,
            fingerprint: read_print(row.bytes(2)?)?,
            // A caller's snapshot may be older than the operation.
            status: Some(status.unwrap_or(Status::Pending)),
            pruned: open_or_ended.is_none() && row.maybe_int(4)?.is_some(),
        };
        Ok((hash, key, row.count(3)?))
    }
}

/// Version 0 is what the procedure writes: it cannot bring JSON into canonical form.
fn read_print(stored: &[u8]) -> Result<Option<Fingerprint>> {
    if stored.first() == Some(&0) {
        return Ok(None);
    }
    let print = Fingerprint::from_bytes(stored);
    print.map(Some).map_err(error::unreadable)
}

/// A number that no other transaction draws.
fn nonce() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn first_print(new: &NewOperation) -> Result<Fingerprint> {
    let missing = || {
        let message = "an operation needs a fingerprint";
        Error::new(ErrorKind::Invalid, message).with("op_id", new.op_id)
    };
    new.fingerprints.first().copied().ok_or_else(missing)
}

fn lane_of(new: &NewOperation, routes: &Routes) -> Option<LaneKey> {
    let rules = routes.rules(&new.keys.domain, &new.keys.event_type);
    let laned = rules.order == Order::Key;
    laned.then(|| LaneKey::of(&new.keys.domain, &new.keys.biz_key))
}

impl Tx<'_> {
    /// Every item of one call.
    pub(crate) async fn accept_all(
        &mut self,
        new: &[NewOperation],
        routes: &Routes,
    ) -> Result<Vec<Accepted>> {
        let offered: Vec<Offer<'_>> = new.iter().map(|new| (new, routes)).collect();
        self.prepare(&offered, self.checks_ids).await?;
        let mut accepted = Vec::with_capacity(new.len());
        for new in new {
            self.refuse_taken_id(new)?;
            accepted.push(self.accept(new, Entry::Outside, routes).await?);
        }
        Ok(accepted)
    }

    fn refuse_taken_id(&self, new: &NewOperation) -> Result<()> {
        let key = self.keys.get(&new.keys.hash());
        let is_new = key.is_none_or(KeyRow::is_unused);
        let is_taken = self.taken.contains(&new.op_id) || self.rows.contains_key(&new.op_id);
        if !is_new || !is_taken {
            return Ok(());
        }
        let message = "the op_id names another operation; draw a fresh one";
        Err(Error::new(ErrorKind::Invalid, message).with("op_id", new.op_id))
    }

    /// Locks and reads all that these need, in one round trip where no key is known: keys, lanes,
    /// batches and pauses.
    pub(crate) async fn prepare(&mut self, offered: &[Offer<'_>], check_ids: bool) -> Result<()> {
        let mut keys: BTreeMap<KeyHash, String> = BTreeMap::new();
        let nonce = nonce();
        for (new, _) in offered {
            let hash = new.keys.hash();
            let print = first_print(new)?;
            if !self.keys.contains_key(&hash) {
                keys.entry(hash).or_insert_with(|| {
                    let tuple = Tuple::new().bytes(hash.as_bytes());
                    let tuple = tuple.bytes(new.op_id.0.as_bytes());
                    tuple.bytes(print.to_bytes()).int(nonce).end()
                });
            }
        }
        let lanes: BTreeSet<LaneKey> = offered
            .iter()
            .filter_map(|(new, routes)| lane_of(new, routes))
            .filter(|lane| !self.lanes.contains_key(lane))
            .collect();
        let batches: BTreeSet<BatchId> =
            offered.iter().filter_map(|(new, _)| new.batch_id).collect();
        let mut script = Script::default();
        let rows: Vec<String> = keys.values().cloned().collect();
        let (head, tail) = Query::InsertKeys.around_rows();
        script.add_rows(head, &rows, tail);
        let inserts = script.count();
        self.lock_lanes(&lanes, &mut script);
        let pauses = match offered.iter().any(|(new, _)| new.begin.is_some()) {
            true => self.ask_paused(&mut script),
            false => None,
        };
        let ids = check_ids.then(|| {
            let ids = text::list(offered.iter().map(|(new, _)| new.op_id.0.as_bytes()));
            script.add(&Query::TakenIds.with(&[("ids", &ids)]))
        });
        let answers = self.run(script).await?;
        let written: u64 = answers[..inserts]
            .iter()
            .map(|answer| answer.affected)
            .sum();
        if let Some(at) = pauses {
            self.note_paused(answers.get(at))?;
        }
        if let Some(at) = ids {
            self.note_taken(answers.get(at))?;
        }
        self.note_keys(&keys, written, nonce, offered).await?;
        self.read_lanes(&lanes, 0).await?;
        let predecessors = offered.iter().filter_map(|(new, _)| new.redrive_of);
        let predecessors: Vec<OpId> = predecessors.collect();
        if !predecessors.is_empty() {
            self.load(&predecessors, false).await?;
        }
        self.load_batches(&batches).await
    }

    fn note_taken(&mut self, answer: Option<&Answer>) -> Result<()> {
        for row in answer.iter().flat_map(|answer| &answer.rows) {
            self.taken.insert(row.op_id(0)?);
        }
        Ok(())
    }

    /// Tells the keys that were written from those that were there.
    async fn note_keys(
        &mut self,
        keys: &BTreeMap<KeyHash, String>,
        written: u64,
        nonce: u64,
        offered: &[Offer<'_>],
    ) -> Result<()> {
        for (new, _) in offered {
            let hash = new.keys.hash();
            if keys.contains_key(&hash) && !self.keys.contains_key(&hash) {
                let key = KeyRow {
                    op_id: new.op_id,
                    fingerprint: Some(first_print(new)?),
                    status: None,
                    pruned: false,
                };
                self.keys.insert(hash, key);
            }
        }
        if self.counts_rows && written == keys.len() as u64 {
            return Ok(());
        }
        let hashes = text::list(keys.keys().map(|hash| hash.as_bytes()));
        let mut script = Script::default();
        // The rows are there and ours; this sees them also where the caller's snapshot does not.
        script.add(&Query::LockKeys.with(&[("hashes", &hashes)]));
        script.add(&Query::KnownKeys.with(&[("hashes", &hashes)]));
        let answers = self.run(script).await?;
        let mut stands = BTreeMap::new();
        for row in answers.iter().skip(1).flat_map(|answer| &answer.rows) {
            let (hash, key, _) = KeyRow::read(row)?;
            stands.insert(hash, key);
        }
        for row in answers.iter().take(1).flat_map(|answer| &answer.rows) {
            if row.count(3)? == nonce {
                continue;
            }
            let hash = KeyHash::from_bytes(row.bytes(0)?).map_err(error::unreadable)?;
            let found = KeyRow {
                op_id: row.op_id(1)?,
                fingerprint: read_print(row.bytes(2)?)?,
                status: Some(Status::Pending),
                pruned: false,
            };
            let stand = stands.remove(&hash);
            self.keys.insert(hash, stand.unwrap_or(found));
        }
        Ok(())
    }

    /// Takes one in. What it needs is read if [`Tx::prepare`] has not done so.
    pub(crate) async fn accept(
        &mut self,
        new: &NewOperation,
        entry: Entry,
        routes: &Routes,
    ) -> Result<Accepted> {
        let hash = new.keys.hash();
        let laned = lane_of(new, routes);
        let lacks_lane = laned.is_some_and(|lane| !self.lanes.contains_key(&lane));
        if !self.keys.contains_key(&hash) || lacks_lane {
            self.prepare(&[(new, routes)], false).await?;
        }
        if let Some(key) = self.keys.get(&hash).filter(|key| !key.is_unused()) {
            let mut known = key.known();
            if let Some(loaded) = self.rows.get(&known.op_id) {
                known.status = loaded.row.state.status;
            }
            let print = match key.fingerprint {
                Some(print) => Some(print),
                None => self.raw_print(known.op_id).await?,
            };
            return Ok(
                match print.is_some_and(|print| new.fingerprints.contains(&print)) {
                    true => Accepted::Known(known),
                    false => Accepted::Mismatch(known),
                },
            );
        }
        let predecessor = new.redrive_of.and_then(|op| self.rows.get(&op));
        if predecessor.is_some_and(|loaded| loaded.row.state.late_ok) {
            return Ok(Accepted::PredecessorApplied);
        }
        if !self.join_batch(new, entry).await? {
            return Ok(Accepted::BatchClosed);
        }
        self.use_key(hash, new)?;
        self.insert(new, laned, routes)
    }

    async fn raw_print(&mut self, op_id: OpId) -> Result<Option<Fingerprint>> {
        let id = text::literal(op_id.0.as_bytes());
        let rows = self.query(&Query::RawPayload.with(&[("id", &id)])).await?;
        let stored = rows.first().map(|row| row.bytes(0)).transpose()?;
        Ok(stored.and_then(plain_print))
    }

    fn use_key(&mut self, hash: KeyHash, new: &NewOperation) -> Result<()> {
        let fingerprint = first_print(new)?;
        let Some(key) = self.keys.get_mut(&hash) else {
            return Err(error::corrupt("key"));
        };
        let is_as_written = key.op_id == new.op_id && key.fingerprint == Some(fingerprint);
        key.op_id = new.op_id;
        key.fingerprint = Some(fingerprint);
        key.status = Some(Status::Pending);
        if !is_as_written {
            // The one that wrote it was turned away.
            let (id, print) = (new.op_id.0.as_bytes(), fingerprint.to_bytes());
            self.later.add(&Query::PutKey.with(&[
                ("hash", &text::literal(hash.as_bytes())),
                ("id", &text::literal(id)),
                ("fingerprint", &text::literal(print)),
            ]));
        }
        Ok(())
    }

    fn insert(
        &mut self,
        new: &NewOperation,
        lane: Option<LaneKey>,
        routes: &Routes,
    ) -> Result<Accepted> {
        let rules = routes.rules(&new.keys.domain, &new.keys.event_type);
        let seq = PROVISIONAL + self.new.len() as u64;
        if let Some(lane) = lane {
            self.join_lane(lane, seq);
        }
        let request = Request::of(new);
        let deadline = new.deadline(self.now, rules);
        let mut row = Row {
            seq,
            op_id: new.op_id,
            domain: new.keys.domain.clone(),
            event_type: new.keys.event_type.clone(),
            accepted_at: self.now,
            batch_id: new.batch_id,
            rank: -new.options.priority.get(),
            lane,
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
            self.mark_redriven(predecessor, new.op_id);
        }
        self.note(&mut row, "Accept", None, None, "", None);
        if let Some(begin) = &new.begin {
            self.begin_if_called(&mut row, &request, begin, routes);
        }
        self.count(&row.domain, None, Some(&row.state));
        if row.state.phase.is_some() {
            self.take_lane(&row);
        }
        let state = Box::new(row.state.clone());
        let loaded = Loaded {
            before: Some(row.state.clone()),
            row,
            request: Some(request),
            spawn: None,
            dirty: Dirty::Row,
        };
        self.rows.insert(new.op_id, loaded);
        self.new.push(new.op_id);
        Ok(Accepted::New { seq, state })
    }

    fn mark_redriven(&mut self, predecessor: OpId, by: OpId) {
        if let Some(loaded) = self.rows.get_mut(&predecessor) {
            loaded.row.redriven_by = Some(by);
        }
        let (id, by) = (predecessor.0.as_bytes(), by.0.as_bytes());
        let (id, by) = (text::literal(id), text::literal(by));
        for query in [Query::SetRedriven, Query::SetRedrivenHistory] {
            self.earlier.add(&query.with(&[("id", &id), ("by", &by)]));
        }
    }

    /// Begins a new row if that leads to a call, else leaves it alone.
    fn begin_if_called(
        &mut self,
        row: &mut Row,
        request: &Request,
        begin: &BeginRequest,
        routes: &Routes,
    ) {
        let Some(rules) = routes.find(&row.domain, &row.event_type) else {
            return;
        };
        let stand = match &row.lane {
            Some(lane) => self.stand(lane, row.seq),
            None => LaneStand::Unordered,
        };
        let paused = self.is_paused(&row.domain);
        let event = begin_event(begin, row, request, paused, stand);
        if let Ok((next, effects)) = row.state.apply(&event, self.now, rules)
            && effects.contains(&Action::Call)
        {
            row.state = next;
            row.started_at = Some(self.now);
            let luggage = Luggage::by(&begin.worker);
            self.note(row, event.name(), luggage.by, None, "", None);
        }
    }
}
