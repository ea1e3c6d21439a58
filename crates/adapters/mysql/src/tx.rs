//! One transaction: what it keeps in mind between its statements, and whom it wakes.
//!
//! A transaction that looks for work skips rows that are locked and waits for nobody; every
//! other one takes its locks in one order (`load`).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use clinch_core::ports::{Notice, Scan};
use clinch_core::{Domain, Error, Fingerprint, KeyHash, LaneKey, OpId, Result, Timestamp};
use clinch_stored::commit::{Plan, Row};

use crate::Shared;
use crate::column::Column;
use crate::error;
use crate::line::Streams;
use crate::link::{Answer, Link, Script};
use crate::query::Query;
use crate::row::{rank_of, stream_of};
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
    /// The server's `auto_increment_increment`.
    pub step: u64,
    pub trouble: Option<Trouble>,
    /// Ask whether an op_id is taken before it is used: the last try found that one is.
    pub checks_ids: bool,
    /// The connection says how many rows a statement changed. A caller's may be set to say how
    /// many it found.
    pub counts_rows: bool,
    /// A plan may be sent together with the commit.
    pub may_commit: bool,
    is_committed: bool,
    paused: Option<BTreeSet<Domain>>,
    /// Keys that were inserted here and are used by no operation yet: for whom.
    pub reserved_keys: BTreeMap<KeyHash, (OpId, Fingerprint)>,
    /// Lanes that are locked here and have no member.
    pub reserved_lanes: BTreeSet<LaneKey>,
    /// Statements that are sent by [`Tx::flush`] or with the commit.
    pub later: Script,
    pub wakes: Wakes,
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
    fn of(failed: &mysql_async::Error) -> Option<Self> {
        let troubles = [
            (error::has_waited(failed), Self::Waited),
            (error::asks_again(failed), Self::Again),
            (error::is_taken(failed), Self::Taken),
            (error::is_silent(failed), Self::Silent),
            (error::is_lost(failed), Self::Lost),
        ];
        let first = troubles.into_iter().find(|(is_it, _)| *is_it);
        first.map(|(_, trouble)| trouble)
    }

    /// Nothing is known of the connection.
    pub(crate) fn is_of_connection(self) -> bool {
        matches!(self, Self::Lost | Self::Silent)
    }
}

/// Whom a commit wakes.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// Domains in which a row may be due.
    pub due: BTreeSet<Domain>,
    settled: Vec<OpId>,
    /// New needs of recovery: the earliest of each scan.
    needs: BTreeMap<Scan, Timestamp>,
}

impl Wakes {
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
            may_commit: false,
            is_committed: false,
            paused: None,
            reserved_keys: BTreeMap::new(),
            reserved_lanes: BTreeSet::new(),
            later: Script::default(),
            wakes: Wakes::default(),
        }
    }

    /// Runs statements, with the opening of the transaction before the first.
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
                self.trouble = Trouble::of(&failed);
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
        if self.preamble.is_some() {
            self.run(Script::default()).await?;
        }
        Ok(self.now)
    }

    /// Sends what is to be sent later; the first id that each statement drew.
    pub(crate) async fn flush(&mut self) -> Result<Vec<Option<u64>>> {
        let script = std::mem::take(&mut self.later);
        match script.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(first_ids(&self.run(script).await?).collect()),
        }
    }

    /// The same with the commit, in one round trip where it fits. Committing twice is committing
    /// once.
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

    /// Asks which domains are paused, unless it is known. A transaction that pauses one waits for
    /// this one to end.
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

    /// Makes sure that the stream of a new row is in the table.
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

    /// Whom to wake, once it is committed.
    pub(crate) fn notices(&mut self) -> Vec<Notice> {
        let wakes = std::mem::take(&mut self.wakes);
        let settled = wakes.settled.into_iter().map(Notice::Settled);
        let due = wakes.due.into_iter().map(Notice::Due);
        let is_news = self.time.is_news(&wakes.needs, self.now);
        let recovery = is_news.then_some(Notice::Recovery);
        settled.chain(due).chain(recovery).collect()
    }
}

fn first_ids(answers: &[Answer]) -> impl Iterator<Item = Option<u64>> {
    answers.iter().map(|answer| answer.first_id)
}
