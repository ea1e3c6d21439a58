//! The order in which due rows are served. The queue of a domain consists of streams, one for each
//! event type and priority. A stream is a range of one index in order of due time. Streams whose
//! event type has no route are skipped.

use clinch_core::{EventType, Result, Timestamp};
use rusqlite::params;

use crate::column::{Column, millis};
use crate::db::Db;
use crate::query::Query;

/// One range of the queue index: the rows of one domain, event type and priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    domain: i64,
    pub event_type: i64,
    rank: i64,
}

/// A due row. The derived order is the order of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DueRow {
    rank: i64,
    pub due: Timestamp,
    pub seq: u64,
}

impl Db<'_> {
    /// The streams of a domain that hold rows, of the event types that `wanted` allows.
    pub(crate) fn streams(
        &mut self,
        domain: i64,
        mut wanted: impl FnMut(&EventType) -> bool,
    ) -> Result<Vec<Stream>> {
        let mut streams = Vec::new();
        let mut last = i64::MIN;
        // Two index seeks for each (event type, priority) pair. In a single query SQLite would walk
        // through all rows of a stream to find its end.
        while let Some(event_type) =
            self.first(Query::NextEventType, params![domain, last], |row| {
                row.int(0)
            })?
        {
            last = event_type;
            if !wanted(&self.event_type(event_type)?) {
                continue;
            }
            let mut rank = i64::MIN;
            while let Some(next) =
                self.first(Query::NextRank, params![domain, event_type, rank], |row| {
                    row.int(0)
                })?
            {
                rank = next;
                streams.push(Stream {
                    domain,
                    event_type,
                    rank,
                });
            }
        }
        Ok(streams)
    }

    /// The event types of a domain's announced rows.
    pub(crate) fn announced_types(&mut self, domain: i64) -> Result<Vec<i64>> {
        let (mut types, mut last) = (Vec::new(), i64::MIN);
        while let Some(next) =
            self.first(Query::NextAnnouncedType, [domain, last], |row| row.int(0))?
        {
            last = next;
            types.push(next);
        }
        Ok(types)
    }

    /// At most `max` rows of these streams that are due and not claimed, in the order of service.
    /// Rows past their deadline are left out: recovery ends them.
    pub(crate) fn due_in(
        &mut self,
        streams: &[Stream],
        now: Timestamp,
        max: usize,
    ) -> Result<Vec<DueRow>> {
        let mut found = Vec::new();
        for stream in streams {
            let Stream {
                domain,
                event_type,
                rank,
            } = *stream;
            let limit = i64::try_from(max).unwrap_or(i64::MAX);
            let params = params![domain, event_type, rank, millis(now), limit];
            self.each(Query::DueRows, params, |row| {
                found.push(DueRow {
                    rank,
                    due: row.moment(0)?,
                    seq: row.count(1)?,
                });
                Ok(true)
            })?;
        }
        if streams.len() > 1 {
            found.sort_unstable();
        }
        found.truncate(max);
        Ok(found)
    }

    /// When the first row of these streams can be claimed.
    pub(crate) fn first_due(&mut self, streams: &[Stream]) -> Result<Option<Timestamp>> {
        let mut first: Option<Timestamp> = None;
        for stream in streams {
            let params = params![stream.domain, stream.event_type, stream.rank];
            let free = self.first_free(Query::NextClaimable, params)?;
            first = [first, free].into_iter().flatten().min();
        }
        Ok(first)
    }

    /// The first time at which a row of the query's result can be claimed. The query returns due
    /// time and end of the claim, ordered by due time.
    pub(crate) fn first_free(
        &mut self,
        query: Query,
        params: impl rusqlite::Params,
    ) -> Result<Option<Timestamp>> {
        let mut first: Option<Timestamp> = None;
        self.each(query, params, |row| {
            let from = row.moment(0)?;
            let free_at = row.maybe_moment(1)?.map_or(from, |until| until.max(from));
            first = Some(first.map_or(free_at, |first| first.min(free_at)));
            Ok(free_at != from)
        })?;
        Ok(first)
    }

    /// The earliest due time of a stream.
    pub(crate) fn oldest(&mut self, stream: &Stream) -> Result<Option<Timestamp>> {
        let params = params![stream.domain, stream.event_type, stream.rank];
        self.first(Query::NextDue, params, |row| row.moment(0))
    }
}
