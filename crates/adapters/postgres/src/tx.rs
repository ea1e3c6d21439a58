//! One transaction: what it has read, what it changed, and what it has to tell.
//!
//! Rows are read in bulk and locked in order of their ids. Changes are made in memory; the
//! commit writes each row once, by one statement a kind, all of them and the commit itself
//! sent without waiting in between (`flush`).

use std::collections::{BTreeSet, HashMap, HashSet};

use clinch_core::ports::{Batch, Counts, NewOperation};
use clinch_core::protocol::{LaneStand, State};
use clinch_core::{
    BatchId, Error, ErrorKind, Fingerprint, LaneKey, OpId, Result, Status, Timestamp, WorkerId,
};
use futures_util::future::{join, join3};
use tokio_postgres::Row as SqlRow;
use uuid::Uuid;

use crate::Shared;
use crate::error;
use crate::keys::{Key, KnownKey};
use crate::link::{Link, Params};
use crate::query::Query;
use crate::row::{Place, Row, STREAM, moment, stored};

/// Where a row came from, and so where it is written.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    Queue,
    History,
    New { key: Key, fingerprint: Fingerprint },
}

/// What of a row has to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dirty {
    Clean,
    Ledger,
    Whole,
}

/// A row of this transaction.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub row: Row,
    pub origin: Origin,
    pub dirty: Dirty,
}

/// A batch of this transaction.
#[derive(Debug, Clone)]
pub(crate) struct BatchEntry {
    pub batch: Batch,
    pub on_complete: Option<String>,
    pub dirty: bool,
}

/// Changes of one domain's counters.
pub(crate) type Delta = [i64; 7];

/// What goes to tables beside the rows.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub letters: Vec<(OpId, Timestamp, Option<String>)>,
    pub pages: Vec<(OpId, Vec<u8>)>,
    pub checkpoints: Vec<(OpId, Vec<u8>)>,
    pub spawns: Vec<(OpId, String)>,
    pub spawned: Vec<OpId>,
    pub redriven: Vec<(OpId, OpId)>,
    pub lined_up: BTreeSet<OpId>,
}

/// What a commit has to tell.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    /// Streams in which a row may be due, and from when on the first.
    pub due: HashMap<i32, i64>,
    pub settled: Vec<OpId>,
    /// The earliest new need of each recovery; the first is that of the sweeper.
    pub needs: [Option<Timestamp>; 4],
}

/// The view of one call.
pub(crate) struct Tx<'c> {
    pub shared: &'c Shared,
    pub link: Link<'c>,
    pub now: Timestamp,
    pub rows: HashMap<OpId, Entry>,
    looked_for: HashSet<OpId>,
    pub keys: HashMap<Key, Option<KnownKey>>,
    /// Ids that name an operation, of those that were looked up.
    pub taken: HashSet<OpId>,
    pub batches: HashMap<BatchId, Option<BatchEntry>>,
    pub lanes: HashMap<LaneKey, BTreeSet<(u64, OpId)>>,
    paused: Option<HashSet<i32>>,
    /// New operations, in the order of acceptance.
    pub new: Vec<OpId>,
    pub deltas: HashMap<i32, Delta>,
    pub beside: Beside,
    pub fresh: Fresh,
    /// Names to be made before this can succeed.
    pub wanted: Wanted,
    /// The server asked for another try.
    pub again: bool,
    begun: bool,
}

/// Names that have no number yet.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub streams: Vec<(clinch_core::Domain, clinch_core::EventType, i8)>,
    pub workers: Vec<WorkerId>,
}

impl Wanted {
    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.workers.is_empty()
    }
}

impl<'c> Tx<'c> {
    pub(crate) fn new(shared: &'c Shared, link: Link<'c>) -> Self {
        Self {
            shared,
            link,
            now: Timestamp::default(),
            rows: HashMap::new(),
            looked_for: HashSet::new(),
            keys: HashMap::new(),
            taken: HashSet::new(),
            batches: HashMap::new(),
            lanes: HashMap::new(),
            paused: None,
            new: Vec::new(),
            deltas: HashMap::new(),
            beside: Beside::default(),
            fresh: Fresh::default(),
            wanted: Wanted::default(),
            again: false,
            // The caller's own has begun.
            begun: matches!(link, Link::Caller(_)),
        }
    }

    /// Runs a statement; the first is sent together with the beginning of the transaction.
    pub(crate) async fn query(&mut self, query: Query, params: Params<'_>) -> Result<Vec<SqlRow>> {
        let link = self.link;
        let rows = match (std::mem::replace(&mut self.begun, true), link) {
            (false, Link::Pooled(client)) => {
                let begin = client.batch_execute("BEGIN");
                let (begun, rows) = join(begin, link.raw_query(query, params)).await;
                begun.and(rows)
            }
            _ => link.raw_query(query, params).await,
        };
        rows.map_err(|error| self.failed(error))
    }

    pub(crate) fn failed(&mut self, error: tokio_postgres::Error) -> Error {
        self.again |= error::asks_again(&error);
        error::sql(error)
    }

    /// The server's clock, asked once: after the rows were locked, if any are. With rows that
    /// are to begin, the domains that are paused.
    pub(crate) async fn query_and_now(
        &mut self,
        query: Query,
        params: Params<'_>,
    ) -> Result<Vec<SqlRow>> {
        if self.now != Timestamp::default() {
            return self.query(query, params).await;
        }
        let link = self.link;
        let begins = matches!(query, Query::Dequeue | Query::RowsForBegin);
        let paused = async {
            match begins {
                true => link.raw_query(Query::Paused, &[]).await.map(Some),
                false => Ok(None),
            }
        };
        let now = link.raw_query(Query::Now, &[]);
        let (rows, now, paused) = join3(self.query(query, params), now, paused).await;
        let rows = rows?;
        let now = now.map_err(|error| self.failed(error))?;
        if let Some(paused) = paused.map_err(|error| self.failed(error))? {
            self.paused = Some(paused.iter().map(|row| row.get(0)).collect());
        }
        self.now = Timestamp::from_millis(now.first().map_or(0, |row| row.get(0)));
        Ok(rows)
    }

    /// Makes sure that the transaction knows the time.
    pub(crate) async fn start(&mut self) -> Result<()> {
        if self.now == Timestamp::default() {
            let rows = self.query(Query::Now, &[]).await?;
            self.now = Timestamp::from_millis(rows.first().map_or(0, |row| row.get(0)));
        }
        Ok(())
    }

    /// Keeps rows that a statement has read and locked.
    pub(crate) async fn keep(&mut self, rows: &[SqlRow], origin: &Origin) -> Result<Vec<OpId>> {
        let shared = self.shared;
        let unknown = |row: &SqlRow| !shared.names.knows_stream(row.get(STREAM));
        if rows.iter().any(unknown) {
            match self.link {
                Link::Pooled(_) | Link::Within(..) => shared.names.load(&self.link).await?,
                // What the caller's transaction made may never be.
                Link::Caller(_) => shared.learn().await,
            }
        }
        let mut kept = Vec::with_capacity(rows.len());
        for row in rows {
            let row = Row::read(row, &shared.names)?;
            let op_id = row.op_id;
            self.looked_for.insert(op_id);
            kept.push(op_id);
            let entry = Entry {
                row,
                origin: origin.clone(),
                dirty: Dirty::Clean,
            };
            self.rows.insert(op_id, entry);
        }
        Ok(kept)
    }

    /// Reads and locks rows, wherever they are.
    pub(crate) async fn load(&mut self, ops: &[OpId], query: Query) -> Result<()> {
        let unseen = ops.iter().filter(|op| !self.looked_for.contains(op));
        let ids: Vec<Uuid> = unseen.map(|op| op.0).collect();
        if ids.is_empty() {
            return self.start().await;
        }
        let rows = self.query_and_now(query, &[&ids]).await?;
        self.keep(&rows, &Origin::Queue).await?;
        let missing = |id: &&Uuid| !self.rows.contains_key(&OpId(**id));
        let missing: Vec<Uuid> = ids.iter().filter(missing).copied().collect();
        if !missing.is_empty() {
            let rows = self.query(Query::HistoryForUpdate, &[&missing]).await?;
            self.keep(&rows, &Origin::History).await?;
            self.looked_for.extend(missing.into_iter().map(OpId));
        }
        Ok(())
    }

    /// True: there is such an operation, in this transaction or before it.
    pub(crate) async fn has(&mut self, op: OpId) -> Result<bool> {
        self.load(&[op], Query::RowsForUpdate).await?;
        Ok(self.rows.contains_key(&op))
    }

    /// Domains that are paused, read once.
    pub(crate) async fn is_paused(&mut self, domain: i32) -> Result<bool> {
        if self.paused.is_none() {
            let rows = self.query(Query::Paused, &[]).await?;
            self.paused = Some(rows.iter().map(|row| row.get(0)).collect());
        }
        let paused = self.paused.as_ref();
        Ok(paused.is_some_and(|paused| paused.contains(&domain)))
    }

    /// The number of a worker, or an error after which it is made.
    pub(crate) fn worker(&mut self, worker: &WorkerId) -> Result<i32> {
        self.shared.names.find_worker(worker).ok_or_else(|| {
            self.wanted.workers.push(worker.clone());
            unnamed()
        })
    }

    /// The stream of these names, or an error after which it is made.
    pub(crate) fn stream(
        &mut self,
        domain: &clinch_core::Domain,
        event_type: &clinch_core::EventType,
        rank: i8,
    ) -> Result<crate::names::Stream> {
        match self.shared.names.find_stream(domain, event_type, rank) {
            Some(id) => self.shared.names.stream(id),
            None => {
                let name = (domain.clone(), event_type.clone(), rank);
                self.wanted.streams.push(name);
                Err(unnamed())
            }
        }
    }

    /// Fails, after which they are made, if names of these have no number yet.
    pub(crate) fn need_names<'n>(
        &mut self,
        new: impl Iterator<Item = &'n NewOperation>,
    ) -> Result<()> {
        for new in new {
            let rank = -new.options.priority.get();
            // Collected: all of them are made before the next try.
            let _ = self.stream(&new.keys.domain, &new.keys.event_type, rank);
            if let Some(begin) = &new.begin {
                let _ = self.worker(&begin.worker);
            }
        }
        match self.wanted.is_empty() {
            true => Ok(()),
            false => Err(unnamed()),
        }
    }

    /// Locks lanes and reads who stands first in them, `depth` of each.
    pub(crate) async fn load_lanes(&mut self, lanes: &[LaneKey], depth: usize) -> Result<()> {
        let unseen: BTreeSet<LaneKey> = lanes
            .iter()
            .filter(|lane| !self.lanes.contains_key(lane))
            .copied()
            .collect();
        if unseen.is_empty() {
            return Ok(());
        }
        let locks: Vec<i64> = unseen.iter().map(lane_lock).collect();
        self.query(Query::LaneLocks, &[&locks]).await?;
        let keys: Vec<&[u8]> = unseen.iter().map(|lane| &lane.as_bytes()[..]).collect();
        let depth = stored(depth as u64 + 1);
        let rows = self.query(Query::LaneMembers, &[&keys, &depth]).await?;
        for lane in &unseen {
            self.lanes.insert(*lane, BTreeSet::new());
        }
        for row in rows {
            let lane = LaneKey::from_bytes(row.get(0)).map_err(error::unreadable)?;
            let seq = crate::row::count(row.get(1))?;
            let members = self.lanes.entry(lane).or_default();
            members.insert((seq, OpId(row.get(2))));
        }
        Ok(())
    }

    /// Where a row stands, of a lane that was loaded; else as its place in line said.
    pub(crate) fn stand(&self, row: &Row) -> LaneStand {
        let Some(lane) = &row.lane else {
            return LaneStand::Unordered;
        };
        match self.lanes.get(lane) {
            Some(members) => match members.first() {
                None => LaneStand::Unordered,
                Some((_, head)) if *head == row.op_id => LaneStand::Ours,
                Some(_) => LaneStand::Behind,
            },
            None if row.line == 0 && row.state.awaits_begin() => LaneStand::Behind,
            None => LaneStand::Ours,
        }
    }

    /// Reads and locks batches.
    pub(crate) async fn load_batches(&mut self, batches: &BTreeSet<BatchId>) -> Result<()> {
        let unseen = batches.iter().filter(|id| !self.batches.contains_key(id));
        let ids: Vec<Uuid> = unseen.map(|id| id.0).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let rows = self.query(Query::BatchesForUpdate, &[&ids]).await?;
        for id in ids {
            self.batches.insert(BatchId(id), None);
        }
        for row in rows {
            let batch = read_batch(&row)?;
            let id = batch.batch_id;
            let entry = BatchEntry {
                batch,
                on_complete: row.get(8),
                dirty: false,
            };
            self.batches.insert(id, Some(entry));
        }
        Ok(())
    }

    /// Moves an operation from one counter to another.
    pub(crate) fn count(&mut self, domain: i32, left: Option<&State>, entered: Option<&State>) {
        let delta = self.deltas.entry(domain).or_default();
        for (state, by) in [(left, -1), (entered, 1)] {
            if let Some(state) = state {
                delta[counter(state)] += by;
            }
        }
    }

    /// Remembers whom to wake for what a row became.
    pub(crate) fn tell(&mut self, row: &Row, place: Place) {
        if place.line == 1 {
            let at = row.state.next_attempt_at.unwrap_or_default().as_millis();
            self.is_due(row.stream.id, at);
        }
        if let Some((need, at)) = place.need {
            self.note_need(usize::try_from(need).unwrap_or(0), at);
        }
        if let Some(deadline) = row.state.deadline.filter(|_| row.state.awaits_begin()) {
            self.note_need(0, deadline);
        }
    }

    pub(crate) fn is_due(&mut self, stream: i32, at: i64) {
        let first = self.fresh.due.entry(stream).or_insert(at);
        *first = (*first).min(at);
    }

    fn note_need(&mut self, which: usize, at: Timestamp) {
        let earliest = &mut self.fresh.needs[which];
        *earliest = Some(earliest.map_or(at, |known| known.min(at)));
    }

    /// The status of a row as this transaction sees it.
    pub(crate) fn status_of(&self, op: OpId) -> Option<Status> {
        self.rows.get(&op).map(|entry| entry.row.state.status)
    }
}

/// The place of a state's counter in a [`Delta`].
fn counter(state: &State) -> usize {
    let mut counts = Counts::default();
    *counts.of(state) = 1;
    let Counts {
        pending,
        live,
        recorded,
        waiting,
        held,
        completed,
        ..
    } = counts;
    let all = [pending, live, recorded, waiting, held, completed];
    all.iter().position(|count| *count == 1).unwrap_or(6)
}

pub(crate) fn read_batch(row: &SqlRow) -> Result<Batch> {
    Ok(Batch {
        batch_id: BatchId(row.get(0)),
        sealed: row.get(1),
        total: crate::row::count(row.get(2))?,
        completed: crate::row::count(row.get(3))?,
        failed: crate::row::count(row.get(4))?,
        completed_at: moment(row.get(5)),
        owner: clinch_stored::names::restriction(row.get(6), row.get(7))?,
    })
}

/// The advisory lock of a lane.
pub(crate) fn lane_lock(lane: &LaneKey) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *lane.as_bytes();
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Answered to nobody: the transaction is run again once the name has its number.
fn unnamed() -> Error {
    Error::new(ErrorKind::Internal, "a name has no number yet")
}
