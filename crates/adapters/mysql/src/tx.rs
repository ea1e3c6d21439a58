//! One transaction: what it has read, what it owes, and what it has to tell.
//!
//! Rows, keys, lanes and batches are read under their locks, changed here, and written by one
//! [`Tx::flush`], so that a call of any size costs a few round trips. Locks are taken in one
//! order, keys, lanes, operations, batches, counters, each kind in order of its ids; whoever
//! looks for work skips what is locked and waits for nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use clinch_core::ports::{Counts, NewOperation, Notice};
use clinch_core::protocol::State;
use clinch_core::{BatchId, Domain, Error, KeyHash, LaneKey, OpId, Result, Timestamp};

use crate::Shared;
use crate::accept::KeyRow;
use crate::batches::BatchRow;
use crate::column::Column;
use crate::error;
use crate::lane::LaneRow;
use crate::line::Streams;
use crate::link::{Answer, Link, Script};
use crate::query::Query;
use crate::request::Request;
use crate::row::{OVERDUE, Place, Row, stream_of};
use crate::text;
use crate::time::Time;

/// The view of one call.
pub(crate) struct Tx<'c> {
    link: &'c mut (dyn Link + 'c),
    /// Sent before the first statement.
    preamble: Option<Script>,
    time: Time,
    streams: Arc<Streams>,
    /// Streams that this transaction makes sure of.
    pub new_streams: HashSet<(String, i8)>,
    pub now: Timestamp,
    /// Steps of this server's counter of seqs.
    pub step: u64,
    pub trouble: Option<Trouble>,
    /// Ask whether an op_id is taken before it is used: the last try found that one is.
    pub checks_ids: bool,
    /// The connection says how many rows a statement changed. A caller's may be set to say how
    /// many it found.
    pub counts_rows: bool,
    pub rows: HashMap<OpId, Loaded>,
    /// Accepted here, in order; written by the next flush.
    pub new: Vec<OpId>,
    pub keys: HashMap<KeyHash, KeyRow>,
    pub lanes: BTreeMap<LaneKey, LaneRow>,
    pub batches: BTreeMap<BatchId, BatchRow>,
    pub taken: HashSet<OpId>,
    paused: Option<BTreeSet<Domain>>,
    pub counts: BTreeMap<Domain, [i64; 7]>,
    /// Statements about rows that are there before the next flush.
    pub earlier: Script,
    /// Statements of the next flush that depend on nothing else in it.
    pub later: Script,
    pub fresh: Fresh,
}

/// An operation in hand.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub row: Row,
    pub request: Option<Request>,
    /// Its state, as the database has it.
    pub before: Option<State>,
    /// What a recorded answer spawns, if it was recorded here.
    pub spawn: Option<Vec<NewOperation>>,
    pub dirty: Dirty,
}

/// What of a row is not written yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dirty {
    Nothing,
    /// Its history alone: claims and announcements stay.
    Ledger,
    Row,
}

/// Why the link failed, as far as another try is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server ended the transaction and asks for another try.
    Again,
    /// A lock did not come in time.
    Waited,
    /// An id is in use.
    Taken,
    /// The connection is gone; nothing was committed.
    Lost,
    /// The server does not answer; nothing was committed, unless that was asked for.
    Silent,
}

impl Trouble {
    /// Nothing is known of the connection.
    pub(crate) fn is_of_connection(self) -> bool {
        matches!(self, Self::Lost | Self::Silent)
    }
}

/// What a commit has to tell.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    pub due: BTreeSet<Domain>,
    pub settled: Vec<OpId>,
    /// New needs of recovery: which, and from when on.
    pub needs: BTreeMap<u8, Timestamp>,
}

impl<'c> Tx<'c> {
    /// A transaction that starts with its first statement.
    pub(crate) fn new(link: &'c mut (dyn Link + 'c), shared: &Shared, opening: &str) -> Self {
        let time = shared.time.clone();
        let mut preamble = Script::default();
        preamble.add(opening);
        preamble.add(&time.statement());
        preamble.add("SELECT @clinch_now, @@auto_increment_increment");
        Self {
            link,
            preamble: Some(preamble),
            time,
            streams: shared.streams.clone(),
            new_streams: HashSet::new(),
            now: Timestamp::default(),
            step: 1,
            trouble: None,
            checks_ids: false,
            counts_rows: true,
            rows: HashMap::new(),
            new: Vec::new(),
            keys: HashMap::new(),
            lanes: BTreeMap::new(),
            batches: BTreeMap::new(),
            taken: HashSet::new(),
            paused: None,
            counts: BTreeMap::new(),
            earlier: Script::default(),
            later: Script::default(),
            fresh: Fresh::default(),
        }
    }

    /// True once a statement was sent.
    pub(crate) fn has_started(&self) -> bool {
        self.preamble.is_none()
    }

    /// Runs statements, with the opening of the transaction before the first.
    pub(crate) async fn run(&mut self, script: Script) -> Result<Vec<Answer>> {
        self.send(script, error::sql).await
    }

    pub(crate) async fn send(
        &mut self,
        script: Script,
        meaning: fn(&mysql_async::Error) -> Error,
    ) -> Result<Vec<Answer>> {
        let opening = self.preamble.take();
        let is_first = opening.is_some();
        let all = match opening {
            Some(opening) => opening.followed_by(script),
            None => script,
        };
        let mut answers = match self.link.run(&all).await {
            Ok(answers) => answers,
            Err(failed) => {
                self.trouble = if error::has_waited(&failed) {
                    Some(Trouble::Waited)
                } else if error::asks_again(&failed) {
                    Some(Trouble::Again)
                } else if error::is_taken(&failed) {
                    Some(Trouble::Taken)
                } else if error::is_silent(&failed) {
                    Some(Trouble::Silent)
                } else {
                    error::is_lost(&failed).then_some(Trouble::Lost)
                };
                return Err(meaning(&failed));
            }
        };
        if is_first {
            let rest = answers.split_off(3);
            let row = answers.last().and_then(|answer| answer.rows.first());
            let row = row.ok_or_else(|| error::corrupt("clock"))?;
            (self.now, self.step) = (row.moment(0)?, row.count(1)?);
            answers = rest;
        }
        Ok(answers)
    }

    /// Runs one statement; its rows.
    pub(crate) async fn query(&mut self, sql: &str) -> Result<Vec<mysql_async::Row>> {
        let mut script = Script::default();
        script.add(sql);
        let mut answers = self.run(script).await?;
        Ok(answers.pop().map(|answer| answer.rows).unwrap_or_default())
    }

    /// Makes sure that the time is known.
    pub(crate) async fn tell_time(&mut self) -> Result<Timestamp> {
        if !self.has_started() {
            self.run(Script::default()).await?;
        }
        Ok(self.now)
    }

    /// Locks and reads operations that are not in hand yet.
    pub(crate) async fn load(&mut self, ops: &[OpId], whole: bool) -> Result<()> {
        let has = |op: &&OpId| match self.rows.get(*op) {
            Some(loaded) => !whole || loaded.request.is_some(),
            None => false,
        };
        let missing: BTreeSet<OpId> = ops.iter().filter(|op| !has(op)).copied().collect();
        if missing.is_empty() {
            return self.tell_time().await.map(|_| ());
        }
        let ids = text::list(missing.iter().map(|op| op.0.as_bytes()));
        let mut script = Script::default();
        script.add(&Query::LockLanesOf.with(&[("ids", &ids)]));
        script.add(&Query::LockQueue.of_rows(whole, &[("ids", &ids)]));
        script.add(&Query::LockHistory.of_rows(whole, &[("ids", &ids)]));
        let pauses = match whole {
            true => self.ask_paused(&mut script),
            false => None,
        };
        let answers = self.run(script).await?;
        if let Some(at) = pauses {
            self.note_paused(answers.get(at))?;
        }
        let mut lanes = BTreeSet::new();
        for row in answers[1..3].iter().flat_map(|answer| &answer.rows) {
            let loaded = Loaded::read(row, whole)?;
            lanes.extend(loaded.row.lane.filter(|_| !loaded.row.is_ended()));
            self.hold(loaded);
        }
        self.read_lanes(&lanes, missing.len()).await
    }

    /// Keeps what was read, unless it was changed here since.
    pub(crate) fn hold(&mut self, loaded: Loaded) {
        let op_id = loaded.row.op_id;
        match self.rows.get_mut(&op_id) {
            Some(known) if known.dirty != Dirty::Nothing => {
                known.request = loaded.request.or(known.request.take())
            }
            _ => {
                self.rows.insert(op_id, loaded);
            }
        }
    }

    /// Asks which domains are paused; whoever pauses one waits for this transaction.
    pub(crate) fn ask_paused(&self, script: &mut Script) -> Option<usize> {
        self.paused
            .is_none()
            .then(|| script.add(Query::Paused.text()))
    }

    pub(crate) fn note_paused(&mut self, answer: Option<&Answer>) -> Result<()> {
        let mut paused = BTreeSet::new();
        for row in answer.iter().flat_map(|answer| &answer.rows) {
            if row.int(1)? != 0 {
                paused.insert(row.domain(0)?);
            }
        }
        self.paused = Some(paused);
        Ok(())
    }

    pub(crate) fn is_paused(&self, domain: &Domain) -> bool {
        let paused = self.paused.as_ref();
        paused.is_some_and(|paused| paused.contains(domain))
    }

    /// Moves an operation from one counter to another.
    pub(crate) fn count(&mut self, domain: &Domain, left: Option<&State>, entered: Option<&State>) {
        let counters = self.counts.entry(domain.clone()).or_default();
        let mut add = |state: &State, by: i64| {
            let mut counts = Counts::default();
            *counts.of(state) = 1;
            for (counter, is_it) in counters.iter_mut().zip(in_order(&counts)) {
                *counter += by * i64::try_from(is_it).unwrap_or(0);
            }
        };
        if let Some(state) = left {
            add(state, -1);
        }
        if let Some(state) = entered {
            add(state, 1);
        }
    }

    /// Makes sure that the stream of a new row is in the table.
    pub(crate) fn put_stream(&mut self, row: &Row, script: &mut Script) {
        let stream = (stream_of(&row.domain, &row.event_type), row.rank);
        if self.streams.has(&stream) || self.new_streams.contains(&stream) {
            return;
        }
        let (name, rank) = (text::literal(&stream.0), stream.1.to_string());
        script.add(&Query::PutStream.with(&[("stream", &name), ("rank", &rank)]));
        self.new_streams.insert(stream);
    }

    /// Remembers whom to wake for what a row became.
    pub(crate) fn tell(&mut self, row: &Row, place: Place) {
        if place.line == 1 {
            self.fresh.due.insert(row.domain.clone());
        }
        let mut note = |which: u8, at: Timestamp| {
            let earliest = self.fresh.needs.entry(which).or_insert(at);
            *earliest = at.min(*earliest);
        };
        if place.line > 2 {
            note(place.line, place.due_at);
        }
        if let Some(deadline) = row.state.deadline.filter(|_| row.state.awaits_begin()) {
            note(OVERDUE, deadline);
        }
    }

    /// Whom to wake if it was committed.
    pub(crate) fn notices_if(&mut self, committed: bool) -> Vec<Notice> {
        match committed {
            true => self.notices(),
            false => Vec::new(),
        }
    }

    /// Whom to wake, once it is committed.
    pub(crate) fn notices(&mut self) -> Vec<Notice> {
        let fresh = std::mem::take(&mut self.fresh);
        let settled = fresh.settled.into_iter().map(Notice::Settled);
        let mut notices: Vec<_> = settled
            .chain(fresh.due.into_iter().map(Notice::Due))
            .collect();
        let is_news = self.time.is_news(&fresh.needs, self.now);
        notices.extend(is_news.then_some(Notice::Recovery));
        notices
    }
}

/// Counters in the order of their columns.
pub(crate) fn in_order(counts: &Counts) -> [u64; 7] {
    [
        counts.pending,
        counts.live,
        counts.recorded,
        counts.waiting,
        counts.held,
        counts.completed,
        counts.failed,
    ]
}

impl Loaded {
    pub(crate) fn read(row: &mysql_async::Row, whole: bool) -> Result<Self> {
        let request = whole.then(|| Request::read(row)).transpose()?;
        Ok(Self::of(Row::read(row)?, request))
    }

    pub(crate) fn of(row: Row, request: Option<Request>) -> Self {
        Self {
            before: Some(row.state.clone()),
            request,
            row,
            spawn: None,
            dirty: Dirty::Nothing,
        }
    }
}
