//! One transaction: its state between statements, and the notices to send after it.
//!
//! A transaction that looks for work skips locked rows and never waits; every other transaction
//! takes its locks in one order (`load`).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use clinch_core::ports::{Notice, Scan};
use clinch_core::{Domain, Error, Fingerprint, KeyHash, LaneKey, OpId, Result, Timestamp};
use clinch_stored::Needs;
use clinch_stored::commit::{Plan, Row};

use crate::Shared;
use crate::column::Column;
use crate::error;
use crate::link::{Answer, Link, Script};
use crate::query::Query;
use crate::row::{rank_of, stream_of};
use crate::streams::KnownStreams;
use crate::text;

/// The transaction of one call.
pub(crate) struct Tx<'c> {
    link: &'c mut (dyn Link + 'c),
    /// Sent before the first statement.
    preamble: Option<Script>,
    needs: Arc<Needs>,
    streams: Arc<KnownStreams>,
    /// Streams that this transaction inserts unless they exist.
    pub new_streams: HashSet<(String, i8)>,
    pub now: Timestamp,
    /// The server's `auto_increment_increment`.
    pub step: u64,
    pub link_error: Option<LinkError>,
    /// Check whether an op_id is taken before it is used: the last try found that one is.
    pub checks_ids: bool,
    /// The connection reports how many rows a statement changed. A caller's connection may be set
    /// to report how many rows it found.
    pub counts_rows: bool,
    /// A plan may be sent together with the commit.
    pub may_commit: bool,
    is_committed: bool,
    paused: Option<BTreeSet<Domain>>,
    /// Keys that this transaction inserted and that no operation uses yet, with the operation that
    /// they were inserted for.
    pub reserved_keys: BTreeMap<KeyHash, (OpId, Fingerprint)>,
    /// Lanes that this transaction has locked and that have no member.
    pub reserved_lanes: BTreeSet<LaneKey>,
    /// Statements that [`Tx::flush`] or the commit will send.
    pub later: Script,
    pub wakes: PendingNotices,
}

/// Why the connection failed: decides whether and how to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkError {
    /// The server rolled the transaction back, for a deadlock for example. Retry.
    Deadlock,
    /// A lock was not granted in time.
    LockTimeout,
    /// An op_id is already in use.
    IdTaken,
    /// The connection was lost; nothing was committed.
    Lost,
    /// The server does not answer; nothing was committed, unless a commit was sent.
    NoAnswer,
}

impl LinkError {
    fn of(failed: &mysql_async::Error) -> Option<Self> {
        let troubles = [
            (error::is_lock_timeout(failed), Self::LockTimeout),
            (error::is_deadlock(failed), Self::Deadlock),
            (error::is_taken(failed), Self::IdTaken),
            (error::is_no_answer(failed), Self::NoAnswer),
            (error::is_lost(failed), Self::Lost),
        ];
        let first = troubles.into_iter().find(|(is_it, _)| *is_it);
        first.map(|(_, link_error)| link_error)
    }

    /// The state of the connection is unknown.
    pub(crate) fn is_of_connection(self) -> bool {
        matches!(self, Self::Lost | Self::NoAnswer)
    }
}

/// The notices to send after the commit.
#[derive(Debug, Default)]
pub(crate) struct PendingNotices {
    /// Domains in which a row may be due.
    pub due: BTreeSet<Domain>,
    settled: Vec<OpId>,
    /// For each scan, the earliest time at which a new row needs it.
    needs: BTreeMap<Scan, Timestamp>,
}

impl PendingNotices {
    pub(crate) fn add(&mut self, plan: &Plan) {
        self.due.extend(plan.due_domains().into_iter().cloned());
        self.settled.extend(&plan.settled);
        for (scan, at) in &plan.needs {
            let first = self.needs.entry(*scan).or_insert(*at);
            *first = (*first).min(*at);
        }
    }
}

impl<'c> Tx<'c> {
    /// A transaction that begins with its first statement.
    pub(crate) fn new(link: &'c mut (dyn Link + 'c), shared: &Shared, opening: &str) -> Self {
        let mut preamble = Script::default();
        preamble.add(opening);
        preamble.add(&shared.time.statement());
        preamble.add("SELECT @clinch_now, @@auto_increment_increment");
        Self {
            link,
            preamble: Some(preamble),
            needs: shared.needs.clone(),
            streams: shared.streams.clone(),
            new_streams: HashSet::new(),
            now: Timestamp::default(),
            step: 1,
            link_error: None,
            checks_ids: false,
            counts_rows: true,
            may_commit: false,
            is_committed: false,
            paused: None,
            reserved_keys: BTreeMap::new(),
            reserved_lanes: BTreeSet::new(),
            later: Script::default(),
            wakes: PendingNotices::default(),
        }
    }

    /// Runs statements; the first call also opens the transaction.
    pub(crate) async fn run(&mut self, script: Script) -> Result<Vec<Answer>> {
        self.send(script, error::sql).await
    }

    async fn send(
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
                self.link_error = LinkError::of(&failed);
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

    /// Runs one statement; returns its rows.
    pub(crate) async fn query(&mut self, sql: &str) -> Result<Vec<mysql_async::Row>> {
        let mut script = Script::default();
        script.add(sql);
        let mut answers = self.run(script).await?;
        Ok(answers.pop().map(|answer| answer.rows).unwrap_or_default())
    }

    /// Reads the time, unless it is known.
    pub(crate) async fn read_time(&mut self) -> Result<Timestamp> {
        if self.preamble.is_some() {
            self.run(Script::default()).await?;
        }
        Ok(self.now)
    }

    /// Sends the pending statements; returns the first id that each statement drew.
    pub(crate) async fn flush(&mut self) -> Result<Vec<Option<u64>>> {
        let script = std::mem::take(&mut self.later);
        match script.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(first_ids(&self.run(script).await?).collect()),
        }
    }

    /// Like `flush`, together with the commit, in one round trip if the statements fit. A second
    /// commit does nothing.
    pub(crate) async fn commit(&mut self) -> Result<Vec<Option<u64>>> {
        if self.is_committed {
            return Ok(Vec::new());
        }
        self.later.add("COMMIT");
        let (before, last) = std::mem::take(&mut self.later).split_last();
        let mut ids = Vec::new();
        if !before.is_empty() {
            ids.extend(first_ids(&self.run(before).await?));
        }
        ids.extend(first_ids(&self.send(last, error::commit).await?));
        self.is_committed = true;
        Ok(ids)
    }

    /// Asks which domains are paused, unless it is known. A transaction that pauses a domain waits
    /// for this one to end.
    pub(crate) fn ask_paused(&self, script: &mut Script) {
        if self.paused.is_none() {
            script.add(Query::Paused.text());
        }
    }

    pub(crate) fn note_paused(&mut self, answer: &Answer) -> Result<()> {
        let mut paused = BTreeSet::new();
        for row in &answer.rows {
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

    /// Inserts the stream of a new row unless it exists.
    pub(crate) fn add_stream(&mut self, row: &Row, script: &mut Script) {
        let stream = stream_of(&row.domain, &row.event_type);
        let stream = (stream, rank_of(row.priority));
        if self.streams.has(&stream) || self.new_streams.contains(&stream) {
            return;
        }
        let (name, rank) = (text::literal(&stream.0), stream.1.to_string());
        script.add(&Query::PutStream.with(&[("stream", &name), ("rank", &rank)]));
        self.new_streams.insert(stream);
    }

    /// The notices to send once the transaction is committed.
    pub(crate) fn notices(&mut self) -> Vec<Notice> {
        let wakes = std::mem::take(&mut self.wakes);
        let settled = wakes.settled.into_iter().map(Notice::Settled);
        let due = wakes.due.into_iter().map(Notice::Due);
        let is_news = self.needs.are_new(&wakes.needs, self.now);
        let recovery = is_news.then_some(Notice::Recovery);
        settled.chain(due).chain(recovery).collect()
    }
}

fn first_ids(answers: &[Answer]) -> impl Iterator<Item = Option<u64>> {
    answers.iter().map(|answer| answer.first_id)
}
