//! One transaction: when it begins, what it has to announce, and when it commits.
//!
//! Statements that lock nothing need no transaction, so it begins with the first that does. A
//! plan that is the last of its call is sent together with the commit; if it is one statement
//! and nothing has begun, that statement commits by itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use clinch_core::ports::Scan;
use clinch_core::{Domain, Error, ErrorKind, EventType, OpId, Result, Timestamp, WorkerId};
use clinch_stored::commit::{Plan, Row};
use tokio_postgres::Row as SqlRow;

use crate::Shared;
use crate::error;
use crate::link::{Command, Link, Params, Ready};
use crate::live_rows::Left;
use crate::names::Names;
use crate::query::Query;

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing is locked or written.
    Idle,
    /// It holds locks.
    Begun,
    /// It is over.
    Committed,
}

/// What a commit has to announce.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    /// Streams in which a row may be due, and from when on the first.
    pub due: HashMap<i32, i64>,
    /// New rows that are due now, by stream.
    pub accepted: Vec<(i32, Row)>,
    /// Other rows are due by this commit as well.
    pub others_due: bool,
    pub settled: Vec<OpId>,
    /// The earliest new need of each recovery.
    pub needs: BTreeMap<Scan, Timestamp>,
}

impl Announcements {
    /// A row of this stream, not a new one, may be due from `at` on.
    pub(crate) fn is_due(&mut self, stream: i32, at: i64) {
        self.others_due = true;
        self.due_from(stream, at);
    }

    fn due_from(&mut self, stream: i32, at: i64) {
        let first = self.due.entry(stream).or_insert(at);
        *first = (*first).min(at);
    }

    /// Rows of this domain may be due, whenever they were.
    pub(crate) fn domain_is_due(&mut self, domain: &Domain, names: &Names) {
        for stream in names.streams(|stream| stream.domain == *domain) {
            self.is_due(stream, i64::MIN);
        }
    }

    /// Adds what a plan makes known.
    pub(crate) fn add(&mut self, plan: &Plan, names: &Names) {
        self.settled.extend(&plan.settled);
        for due in &plan.due {
            let rank = -due.priority.get();
            if let Some(stream) = names.find_stream(&due.domain, &due.event_type, rank) {
                self.due_from(stream, due.at.as_millis());
            }
        }
        for lane in plan.lanes.iter().filter(|lane| lane.lined_up.is_some()) {
            self.domain_is_due(&lane.domain, names);
        }
        for (scan, at) in &plan.needs {
            let first = self.needs.entry(*scan).or_insert(*at);
            *first = (*first).min(*at);
        }
    }
}

/// Names that have no number yet.
#[derive(Debug, Default)]
pub(crate) struct Unnumbered {
    pub streams: Vec<(Domain, EventType, i8)>,
    pub workers: Vec<WorkerId>,
}

impl Unnumbered {
    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.workers.is_empty()
    }
}

/// The transaction of one call.
pub(crate) struct Tx<'c> {
    pub shared: &'c Shared,
    pub link: Link<'c>,
    /// The server's clock, once it was asked.
    pub now: Timestamp,
    /// Domains that are paused, once they were read.
    pub paused: Option<HashSet<Domain>>,
    pub announcements: Announcements,
    /// Names to number before the call can succeed.
    pub unnumbered: Unnumbered,
    /// The server asked for another try.
    pub again: bool,
    pub stage: Stage,
    /// The last plan may be sent together with the commit.
    pub commits_with_plan: bool,
    /// What the commit leaves of its rows.
    pub left: Vec<Left>,
    /// When the last statement was sent, on the local monotonic clock.
    asked_at: Duration,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(shared: &'c Shared, link: Link<'c>) -> Self {
        let is_callers = matches!(link, Link::Caller(_));
        Self {
            shared,
            link,
            now: Timestamp::default(),
            paused: None,
            announcements: Announcements::default(),
            unnumbered: Unnumbered::default(),
            again: false,
            stage: if is_callers {
                Stage::Begun
            } else {
                Stage::Idle
            },
            commits_with_plan: !is_callers,
            left: Vec::new(),
            asked_at: Duration::ZERO,
        }
    }

    fn failed(&mut self, error: tokio_postgres::Error) -> Error {
        self.again |= error::asks_again(&error);
        error::sql(error)
    }

    /// What to send before the next statement.
    fn begin(&mut self) -> Option<&'static str> {
        let is_idle = self.stage == Stage::Idle;
        self.stage = Stage::Begun;
        is_idle.then_some("BEGIN")
    }

    /// Runs a statement in the transaction.
    pub(crate) async fn query(&mut self, query: Query, params: Params<'_>) -> Result<Vec<SqlRow>> {
        let begin = self.begin();
        self.asked_at = self.shared.clock.monotonic();
        let rows = self.link.query_after(begin, query, params).await;
        rows.map_err(|error| self.failed(error))
    }

    /// Runs commands in the transaction, in one round trip.
    pub(crate) async fn send(&mut self, commands: &[Command]) -> Result<Vec<Vec<SqlRow>>> {
        let ready = self.prepare(commands).await?;
        let begin = self.begin();
        self.asked_at = self.shared.clock.monotonic();
        let sent = self.link.send(begin, commands, &ready, None).await;
        sent.map_err(|error| self.failed(error))
    }

    /// Runs commands that lock nothing, in one round trip.
    pub(crate) async fn look(&mut self, commands: &[Command]) -> Result<Vec<Vec<SqlRow>>> {
        let ready = self.prepare(commands).await?;
        self.asked_at = self.shared.clock.monotonic();
        let sent = self.link.send(None, commands, &ready, None).await;
        sent.map_err(|error| self.failed(error))
    }

    async fn prepare(&mut self, commands: &[Command]) -> Result<Vec<Ready<'c>>> {
        let ready = self.link.prepare(commands).await;
        ready.map_err(|error| self.failed(error))
    }

    /// Runs the last commands of the call, and commits in the same round trip where that is
    /// allowed.
    pub(crate) async fn send_last(&mut self, commands: &[Command]) -> Result<Vec<Vec<SqlRow>>> {
        match self.commits_with_plan {
            true => self.send_and_commit(commands).await,
            false => self.send(commands).await,
        }
    }

    async fn send_and_commit(&mut self, commands: &[Command]) -> Result<Vec<Vec<SqlRow>>> {
        let ready = self.prepare(commands).await?;
        // One statement alone commits by itself.
        let is_alone = self.stage == Stage::Idle && commands.len() <= 1;
        let (begin, end) = match is_alone {
            true => (None, None),
            false => (self.begin(), Some("COMMIT")),
        };
        self.asked_at = self.shared.clock.monotonic();
        let sent = self.link.send(begin, commands, &ready, end).await;
        let rows = sent.map_err(|failed| {
            self.again |= error::asks_again(&failed);
            error::commit(failed)
        })?;
        self.stage = Stage::Committed;
        Ok(rows)
    }

    /// Commits what is not committed yet.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        match self.stage {
            Stage::Begun => self.send_and_commit(&[]).await.map(drop),
            Stage::Idle | Stage::Committed => Ok(()),
        }
    }

    /// Makes sure that the transaction knows the time.
    pub(crate) async fn start(&mut self) -> Result<()> {
        if self.now == Timestamp::default() {
            let rows = self.query(Query::Now, &[]).await?;
            self.keep_now(&rows);
        }
        Ok(())
    }

    pub(crate) fn keep_now(&mut self, rows: &[SqlRow]) {
        self.now = Timestamp::from_millis(rows.first().map_or(0, |row| row.get(0)));
        self.learn_now(self.now);
    }

    /// The last statement was answered with this time.
    pub(crate) fn learn_now(&self, now: Timestamp) {
        let answered_at = self.shared.clock.monotonic();
        let clock = &self.shared.server_clock;
        clock.learn(now, self.asked_at, answered_at);
    }

    /// Fails, after which they are numbered, if names that the plan writes have no number yet.
    pub(crate) fn need_numbers(&mut self, plan: &Plan) -> Result<()> {
        let rows = plan.new_rows().map(|write| &write.row);
        self.miss_streams(rows.map(|row| (&row.domain, &row.event_type, -row.priority.get())));
        let lines = plan.rows.iter().flat_map(|write| &write.lines);
        self.need_workers(lines.filter_map(|line| line.by.as_ref()))
    }

    /// Notes the streams that have no number yet; [`Self::need_workers`] fails if there are any.
    pub(crate) fn miss_streams<'w>(
        &mut self,
        streams: impl Iterator<Item = (&'w Domain, &'w EventType, i8)>,
    ) {
        let names = &self.shared.names;
        for (domain, event_type, rank) in streams {
            if names.find_stream(domain, event_type, rank).is_none() {
                let name = (domain.clone(), event_type.clone(), rank);
                self.unnumbered.streams.push(name);
            }
        }
    }

    /// Fails, after which they are numbered, if one of the workers has no number yet.
    pub(crate) fn need_workers<'w>(
        &mut self,
        workers: impl Iterator<Item = &'w WorkerId>,
    ) -> Result<()> {
        let names = &self.shared.names;
        let unnumbered = workers.filter(|worker| names.find_worker(worker).is_none());
        self.unnumbered.workers.extend(unnumbered.cloned());
        match self.unnumbered.is_empty() {
            true => Ok(()),
            // No caller sees this error: the transaction is run again.
            false => Err(Error::new(ErrorKind::Internal, "a name has no number yet")),
        }
    }
}
