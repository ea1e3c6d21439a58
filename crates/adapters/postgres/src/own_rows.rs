//! New rows of this process in lines that are otherwise empty.
//!
//! A look that finds nothing says that its lines are empty. From then on only announcements add
//! rows to them. A row that this process accepts into an empty line is kept here and begun without
//! a look, by compare-and-set on the row as it was accepted. Any other announcement, a row that
//! becomes due by time, or [`TRUSTED`] ends that: the next look asks the server. So a lost
//! announcement costs no more than it does without this.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_stored::commit::Row;

/// How long a line is taken to be empty.
const TRUSTED: Duration = Duration::from_secs(1);
/// Rows of a line at most. A longer line is looked at.
const ROWS_MAX: usize = 256;
/// Bytes of a kept row's payload at most.
const PAYLOAD_MAX: usize = 16 * 1024;

/// An empty line, but for these rows. It is known until then, on the monotonic clock.
struct Line {
    until: Duration,
    /// A row becomes due by time, though not before `until`.
    is_due_later: bool,
    rows: VecDeque<Row>,
}

#[derive(Default)]
struct Lines {
    empty: HashMap<i32, Line>,
    /// Raised by every announcement: a look from before it says nothing.
    announced: u64,
}

impl Lines {
    /// Whether each of these lines is known.
    fn know(&self, streams: &[i32], now: Duration) -> bool {
        let is_known = |id| self.empty.get(id).is_some_and(|line| now < line.until);
        streams.iter().all(is_known)
    }
}

/// By stream.
#[derive(Default)]
pub(crate) struct OwnRows(Mutex<Lines>);

impl OwnRows {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look begins. Its end passes this number on.
    pub(crate) fn look(&self) -> u64 {
        self.lines().announced
    }

    /// The look found nothing that could be taken, and the next row is due in `due_in`; `None`: no
    /// row is due by time.
    pub(crate) fn found_nothing(
        &self,
        look: u64,
        streams: &[i32],
        due_in: Option<Duration>,
        now: Duration,
    ) {
        let mut lines = self.lines();
        if lines.announced != look {
            return;
        }
        let until = now.saturating_add(due_in.unwrap_or(TRUSTED).min(TRUSTED));
        for stream in streams {
            let line = Line {
                until,
                is_due_later: due_in.is_some(),
                rows: VecDeque::new(),
            };
            lines.empty.insert(*stream, line);
        }
    }

    /// Whether a new row of this stream is worth keeping.
    pub(crate) fn wants(&self, stream: i32, now: Duration) -> bool {
        let lines = self.lines();
        let line = lines.empty.get(&stream);
        line.is_some_and(|line| now < line.until && line.rows.len() < ROWS_MAX)
    }

    /// This process accepted a row that is due.
    pub(crate) fn accepted(&self, stream: i32, row: Row) {
        let payload = row.request.as_ref().map(|one| one.payload.as_bytes().len());
        let is_small = payload.is_some_and(|bytes| bytes <= PAYLOAD_MAX);
        let mut lines = self.lines();
        lines.announced += 1;
        match lines.empty.get_mut(&stream) {
            Some(line) if is_small && line.rows.len() < ROWS_MAX => line.rows.push_back(row),
            _ => drop(lines.empty.remove(&stream)),
        }
    }

    /// A row of this stream, which is not kept here, is or becomes due.
    pub(crate) fn announced(&self, stream: i32) {
        let mut lines = self.lines();
        lines.announced += 1;
        lines.empty.remove(&stream);
    }

    /// Announcements may have been missed.
    pub(crate) fn forget(&self) {
        let mut lines = self.lines();
        lines.announced += 1;
        lines.empty.clear();
    }

    /// Up to `max` rows of these streams, in the order of the streams; `None`: the server has to
    /// be asked.
    pub(crate) fn take(&self, streams: &[i32], max: usize, now: Duration) -> Option<Vec<Row>> {
        let mut lines = self.lines();
        if !lines.know(streams, now) {
            return None;
        }
        let mut taken = Vec::new();
        for stream in streams {
            if let Some(line) = lines.empty.get_mut(stream) {
                let count = line.rows.len().min(max - taken.len());
                taken.extend(line.rows.drain(..count));
            }
        }
        Some(taken)
    }

    /// How long the lines of these streams are known at least.
    pub(crate) fn known_for(&self, streams: &[i32], now: Duration) -> Duration {
        let lines = self.lines();
        let until = streams.iter().filter_map(|id| lines.empty.get(id));
        let until = until.map(|line| line.until).min().unwrap_or(now);
        until.saturating_sub(now)
    }

    /// No row of these streams is due, now or by time. False: the server has to be asked.
    pub(crate) fn are_idle(&self, streams: &[i32], now: Duration) -> bool {
        let lines = self.lines();
        let is_idle = |line: &Line| line.rows.is_empty() && !line.is_due_later;
        lines.know(streams, now)
            && streams
                .iter()
                .all(|id| lines.empty.get(id).is_some_and(is_idle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_line_is_known_after_a_look_that_found_nothing() {
        let own = OwnRows::default();
        assert_eq!(own.take(&[1], 9, ms(0)).map(|rows| rows.len()), None);
        let look = own.look();
        own.found_nothing(look, &[1], None, ms(10));
        assert_eq!(own.take(&[1], 9, ms(20)).map(|rows| rows.len()), Some(0));
        assert!(own.are_idle(&[1], ms(20)));
        assert!(own.take(&[1, 2], 9, ms(20)).is_none(), "2 is unknown");
        assert!(own.take(&[1], 9, ms(1_010)).is_none(), "it was a while ago");
    }

    #[test]
    fn what_is_announced_during_a_look_or_after_it_ends_the_knowledge() {
        let own = OwnRows::default();
        let look = own.look();
        own.announced(1);
        own.found_nothing(look, &[1], None, ms(10));
        assert!(own.take(&[1], 9, ms(10)).is_none(), "during the look");
        own.found_nothing(own.look(), &[1, 2], None, ms(10));
        own.announced(1);
        assert!(own.take(&[1], 9, ms(10)).is_none(), "after it");
        assert!(own.take(&[2], 9, ms(10)).is_some(), "another line");
        own.forget();
        assert!(own.take(&[2], 9, ms(10)).is_none());
    }

    #[test]
    fn a_row_that_becomes_due_by_time_ends_it_then() {
        let own = OwnRows::default();
        own.found_nothing(own.look(), &[1], Some(ms(300)), ms(10));
        assert!(!own.are_idle(&[1], ms(110)));
        assert!(own.take(&[1], 9, ms(309)).is_some());
        assert!(own.take(&[1], 9, ms(310)).is_none());
        own.found_nothing(own.look(), &[1], Some(ms(0)), ms(400));
        assert!(own.take(&[1], 9, ms(400)).is_none(), "a row is locked");
    }
}
