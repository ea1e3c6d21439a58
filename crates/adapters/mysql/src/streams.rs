//! The order in which due rows are served. The queue of a domain consists of streams, one for each
//! event type and priority. A stream is a range of one index in order of due time. Streams whose
//! event type has no route are skipped.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use clinch_core::{Domain, EventType, Result, Timestamp};
use clinch_stored::commit::Row;

use crate::column::Column;
use crate::error;
use crate::link::Script;
use crate::query::Query;
use crate::row::{self, stream_of};
use crate::text;
use crate::tx::Tx;

/// One range of the queue index: the rows of one domain, event type and priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stream {
    pub domain: Domain,
    pub event_type: EventType,
    pub rank: i8,
}

/// Streams that are known to be in the table, by name and rank. Streams are never deleted.
#[derive(Debug, Default)]
pub(crate) struct KnownStreams(Mutex<HashSet<(String, i8)>>);

impl KnownStreams {
    pub(crate) fn has(&self, stream: &(String, i8)) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(stream)
    }

    /// Remembers streams that were committed.
    pub(crate) fn learn(&self, streams: HashSet<(String, i8)>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(streams);
    }
}

/// The columns to read of a due row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// The row and its request: for a begin.
    Whole,
    /// The row, its trace and its due time: for an announcement.
    Claim,
}

impl Columns {
    fn of_claim(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Claim => ", r.trace, q.due_at",
        }
    }
}

impl Stream {
    /// Reads the first two columns.
    pub(crate) fn read(row: &mysql_async::Row) -> Result<Self> {
        let name = row.text(0)?;
        let split = name.split_once('\0');
        let (domain, event_type) = split.ok_or_else(|| error::corrupt("stream"))?;
        Ok(Self {
            domain: Domain::new(domain).map_err(error::unreadable)?,
            event_type: EventType::new(event_type).map_err(error::unreadable)?,
            rank: i8::try_from(row.int(1)?).map_err(|_| error::corrupt("rank"))?,
        })
    }

    fn first(&self) -> String {
        first_rows(1, &stream_of(&self.domain, &self.event_type), self.rank)
    }

    /// The statement that reads the earliest due time.
    pub(crate) fn oldest(&self) -> String {
        let name = text::literal(stream_of(&self.domain, &self.event_type));
        let rank = self.rank.to_string();
        Query::OldestDue.with(&[("stream", &name), ("rank", &rank)])
    }

    /// The same of announced rows, of every priority.
    pub(crate) fn oldest_announced(&self) -> String {
        let name = text::literal(stream_of(&self.domain, &self.event_type));
        Query::OldestAnnounced.with(&[("stream", &name)])
    }
}

/// The statement that reads the first rows of a stream, in the given `line`.
pub(crate) fn first_rows(line: u8, stream: &str, rank: i8) -> String {
    Query::FirstRows.with(&[
        ("line", &line.to_string()),
        ("stream", &text::literal(stream)),
        ("rank", &rank.to_string()),
    ])
}

/// The first time at which one of these rows can be claimed. They hold due time and end of the
/// claim, ordered by due time.
pub(crate) fn first_free(rows: &[mysql_async::Row]) -> Result<Option<Timestamp>> {
    let mut first: Option<Timestamp> = None;
    for row in rows {
        let from = row.moment(0)?;
        let free_at = row.maybe_moment(1)?.map_or(from, |until| until.max(from));
        first = Some(first.map_or(free_at, |first| first.min(free_at)));
        if free_at == from {
            break;
        }
    }
    Ok(first)
}

impl Tx<'_> {
    /// Streams of domains that are not paused, of the routes that `wanted` allows. They may be
    /// empty.
    pub(crate) async fn open_streams(
        &mut self,
        wanted: impl Fn(&Domain, &EventType) -> bool,
    ) -> Result<Vec<Stream>> {
        let mut script = Script::default();
        script.add(Query::Streams.text());
        self.ask_paused(&mut script);
        let answers = self.run(script).await?;
        if let Some(pauses) = answers.get(1) {
            self.note_paused(pauses)?;
        }
        let mut open = Vec::new();
        for row in &answers[0].rows {
            let stream = Stream::read(row)?;
            if !self.is_paused(&stream.domain) && wanted(&stream.domain, &stream.event_type) {
                open.push(stream);
            }
        }
        Ok(open)
    }

    /// Locks at most `max` rows of these streams that are due and not claimed, in the order of
    /// service. Rows past their deadline are left out: recovery ends them. Rows that another
    /// transaction has locked are skipped.
    pub(crate) async fn lock_due(
        &mut self,
        streams: &[Stream],
        columns: Columns,
        not: &[u64],
        max: usize,
    ) -> Result<Vec<(Row, mysql_async::Row)>> {
        let mut by_rank: BTreeMap<i8, Vec<&Stream>> = BTreeMap::new();
        for stream in streams {
            by_rank.entry(stream.rank).or_default().push(stream);
        }
        let others = match not.is_empty() {
            true => String::new(),
            false => format!(" AND q.seq NOT IN ({})", text::numbers(not.iter().copied())),
        };
        let mut found = Vec::new();
        if by_rank.len() > 1 {
            self.drop_idle(&mut by_rank).await?;
        }
        for (rank, streams) in by_rank {
            let left = max - found.len();
            if left == 0 {
                break;
            }
            let mut script = Script::default();
            for stream in streams {
                let name = stream_of(&stream.domain, &stream.event_type);
                let values = [
                    ("stream", text::literal(name)),
                    ("rank", rank.to_string()),
                    ("others", others.clone()),
                    ("limit", left.to_string()),
                    ("claim", columns.of_claim().to_owned()),
                ];
                let values: Vec<_> = values.iter().map(|(n, v)| (*n, v.as_str())).collect();
                let whole = columns == Columns::Whole;
                script.add(&Query::DueOfStream.of_rows(whole, &values));
            }
            let answers = self.run(script).await?;
            let mut rows = Vec::new();
            for row in answers.into_iter().flat_map(|answer| answer.rows) {
                let read = match columns {
                    Columns::Whole => row::read_whole(&row)?,
                    Columns::Claim => row::read(&row)?,
                };
                rows.push((read, row));
            }
            rows.sort_by_key(|(row, _)| (row.state.next_attempt_at, row.seq));
            // More rows may be locked than are used; the commit frees them for others.
            let surplus = rows.split_off(left.min(rows.len()));
            let domains = surplus.into_iter().map(|(row, _)| row.domain);
            self.wakes.due.extend(domains);
            found.extend(rows);
        }
        Ok(found)
    }

    /// When the first row of these streams can be claimed.
    pub(crate) async fn first_due(&mut self, streams: &[Stream]) -> Result<Option<Timestamp>> {
        let mut script = Script::default();
        for stream in streams {
            script.add(&stream.first());
        }
        let mut first = None;
        for answer in self.run(script).await? {
            let free = first_free(&answer.rows)?;
            first = [first, free].into_iter().flatten().min();
        }
        Ok(first)
    }

    /// Drops streams without due rows: each rank costs a round trip.
    async fn drop_idle(&mut self, by_rank: &mut BTreeMap<i8, Vec<&Stream>>) -> Result<()> {
        let mut script = Script::default();
        for stream in by_rank.values().flatten() {
            script.add(&stream.oldest());
        }
        let mut answers = self.run(script).await?.into_iter();
        for streams in by_rank.values_mut() {
            let mut busy = Vec::new();
            for (stream, answer) in streams.iter().zip(&mut answers) {
                let due = answer.rows.first().map(|row| row.moment(0)).transpose()?;
                busy.extend(due.filter(|due| *due <= self.now).map(|_| *stream));
            }
            *streams = busy;
        }
        by_rank.retain(|_, streams| !streams.is_empty());
        Ok(())
    }
}
