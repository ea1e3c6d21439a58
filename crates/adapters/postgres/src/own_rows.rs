//! New rows of this process in streams that are otherwise empty.
//!
//! A claim that finds no row shows that its streams are empty. From then on only announcements tell
//! of new rows. A row that this process accepts into an empty stream is kept here and begun without
//! a claim, by compare-and-set on the row as it was accepted. Any other announcement, a row that
//! becomes due by time, or [`TRUSTED`] ends that: the next claim asks the server. A lost
//! announcement costs no more than it does without this: the fallback poll finds the row.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_stored::commit::Row;

/// How long a stream is taken to be empty.
const TRUSTED: Duration = Duration::from_secs(1);
/// Rows kept of one stream at most. With more of them the server is asked.
const ROWS_MAX: usize = 256;
/// Bytes of a kept row's payload at most.
const PAYLOAD_MAX: usize = 16 * 1024;

/// A stream that has no due row but these.
struct EmptyStream {
    /// On the monotonic clock; then the server is asked again.
    until: Duration,
    /// A row becomes due by time, though not before `until`.
    is_due_later: bool,
    rows: VecDeque<Row>,
}

#[derive(Default)]
struct Streams {
    empty: HashMap<i32, EmptyStream>,
    /// Raised by every announcement: a claim that began before it shows nothing.
    announced: u64,
}

impl Streams {
    /// Whether each of these streams is known to be empty but for the rows kept here.
    fn know(&self, streams: &[i32], now: Duration) -> bool {
        let is_known = |id| self.empty.get(id).is_some_and(|one| now < one.until);
        streams.iter().all(is_known)
    }
}

/// The streams that are known to be empty, and the rows that were accepted into them since.
#[derive(Default)]
pub(crate) struct OwnRows(Mutex<Streams>);

impl OwnRows {
    fn known(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim begins. [`OwnRows::found_nothing`] takes this number.
    pub(crate) fn claim_begins(&self) -> u64 {
        self.known().announced
    }

    /// The claim found no row that could be taken, and the next row is due in `due_in`; `None`: no
    /// row becomes due by time.
    pub(crate) fn found_nothing(
        &self,
        begun_at: u64,
        streams: &[i32],
        due_in: Option<Duration>,
        now: Duration,
    ) {
        let mut known = self.known();
        if known.announced != begun_at {
            return;
        }
        let until = now.saturating_add(due_in.unwrap_or(TRUSTED).min(TRUSTED));
        for stream in streams {
            let empty = EmptyStream {
                until,
                is_due_later: due_in.is_some(),
                rows: VecDeque::new(),
            };
            known.empty.insert(*stream, empty);
        }
    }

    /// Whether a new row of this stream is worth keeping.
    pub(crate) fn wants(&self, stream: i32, now: Duration) -> bool {
        let known = self.known();
        let empty = known.empty.get(&stream);
        empty.is_some_and(|one| now < one.until && one.rows.len() < ROWS_MAX)
    }

    /// This process accepted a row that is due.
    pub(crate) fn accepted(&self, stream: i32, row: Row) {
        let payload = row.request.as_ref().map(|one| one.payload.as_bytes().len());
        let is_small = payload.is_some_and(|bytes| bytes <= PAYLOAD_MAX);
        let mut known = self.known();
        known.announced += 1;
        match known.empty.get_mut(&stream) {
            Some(empty) if is_small && empty.rows.len() < ROWS_MAX => empty.rows.push_back(row),
            _ => drop(known.empty.remove(&stream)),
        }
    }

    /// A row of this stream, which is not kept here, is or becomes due.
    pub(crate) fn announced(&self, stream: i32) {
        let mut known = self.known();
        known.announced += 1;
        known.empty.remove(&stream);
    }

    /// Announcements may have been missed.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        known.announced += 1;
        known.empty.clear();
    }

    /// Up to `max` rows of these streams, in the order of the streams; `None`: the server has to
    /// be asked.
    pub(crate) fn take(&self, streams: &[i32], max: usize, now: Duration) -> Option<Vec<Row>> {
        let mut known = self.known();
        if !known.know(streams, now) {
            return None;
        }
        let mut taken = Vec::new();
        for stream in streams {
            if let Some(empty) = known.empty.get_mut(stream) {
                let count = empty.rows.len().min(max - taken.len());
                taken.extend(empty.rows.drain(..count));
            }
        }
        Some(taken)
    }

    /// How long these streams are known at least.
    pub(crate) fn known_for(&self, streams: &[i32], now: Duration) -> Duration {
        let known = self.known();
        let until = streams.iter().filter_map(|id| known.empty.get(id));
        let until = until.map(|one| one.until).min().unwrap_or(now);
        until.saturating_sub(now)
    }

    /// No row of these streams is due, now or by time. False: the server has to be asked.
    pub(crate) fn are_idle(&self, streams: &[i32], now: Duration) -> bool {
        let known = self.known();
        let is_idle = |one: &EmptyStream| one.rows.is_empty() && !one.is_due_later;
        known.know(streams, now)
            && streams
                .iter()
                .all(|id| known.empty.get(id).is_some_and(is_idle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_stream_is_known_after_a_claim_that_found_nothing() {
        let own = OwnRows::default();
        assert_eq!(own.take(&[1], 9, ms(0)).map(|rows| rows.len()), None);
        let begun_at = own.claim_begins();
        own.found_nothing(begun_at, &[1], None, ms(10));
        assert_eq!(own.take(&[1], 9, ms(20)).map(|rows| rows.len()), Some(0));
        assert!(own.are_idle(&[1], ms(20)));
        assert!(own.take(&[1, 2], 9, ms(20)).is_none(), "2 is unknown");
        assert!(own.take(&[1], 9, ms(1_010)).is_none(), "it was a while ago");
    }

    #[test]
    fn what_is_announced_during_a_claim_or_after_it_ends_the_knowledge() {
        let own = OwnRows::default();
        let begun_at = own.claim_begins();
        own.announced(1);
        own.found_nothing(begun_at, &[1], None, ms(10));
        assert!(own.take(&[1], 9, ms(10)).is_none(), "during the claim");
        own.found_nothing(own.claim_begins(), &[1, 2], None, ms(10));
        own.announced(1);
        assert!(own.take(&[1], 9, ms(10)).is_none(), "after it");
        assert!(own.take(&[2], 9, ms(10)).is_some(), "another stream");
        own.forget();
        assert!(own.take(&[2], 9, ms(10)).is_none());
    }

    #[test]
    fn a_row_that_becomes_due_by_time_ends_it_then() {
        let own = OwnRows::default();
        own.found_nothing(own.claim_begins(), &[1], Some(ms(300)), ms(10));
        assert!(!own.are_idle(&[1], ms(110)));
        assert!(own.take(&[1], 9, ms(309)).is_some());
        assert!(own.take(&[1], 9, ms(310)).is_none());
        own.found_nothing(own.claim_begins(), &[1], Some(ms(0)), ms(400));
        assert!(own.take(&[1], 9, ms(400)).is_none(), "a row is locked");
    }
}
