//! New rows of this process in streams that are otherwise empty.
//!
//! A claim that finds no row shows that its streams are empty. From then on only announcements tell
//! of new rows. A row that this process accepts into an empty stream is kept here and begun without
//! a claim, by compare-and-set on the row as it was accepted. So is a row that is due in a moment:
//! `run_at` is often the caller's "now", and no two clocks agree. Any other announcement, a row that
//! becomes due later, or [`TRUSTED`] ends that: the next claim asks the server. A lost announcement
//! costs no more than it does without this: the fallback poll finds the row.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::Timestamp;
use clinch_stored::commit::Row;

/// A row that is due within this time is kept, too.
pub(crate) const SOON: Duration = Duration::from_millis(20);
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

impl EmptyStream {
    /// How long until one of the rows is due; `None`: there is none.
    fn due_in(&self, now: Timestamp) -> Option<Duration> {
        self.rows.iter().map(|row| due_in(row, now)).min()
    }
}

fn due_in(row: &Row, now: Timestamp) -> Duration {
    let due = row.state.next_attempt_at;
    due.map_or(Duration::ZERO, |due| due.since(now))
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

/// When a row can be taken next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// After this time.
    In(Duration),
    /// Only news can tell.
    News,
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

    /// This process accepted a row that is due now or [`SOON`].
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

    /// Up to `max` rows of these streams that are due at `server_now`, in the order of the streams;
    /// `None`: the server has to be asked.
    pub(crate) fn take(
        &self,
        streams: &[i32],
        max: usize,
        now: Duration,
        server_now: Timestamp,
    ) -> Option<Vec<Row>> {
        let mut known = self.known();
        if !known.know(streams, now) {
            return None;
        }
        let mut taken = Vec::new();
        for stream in streams {
            if let Some(empty) = known.empty.get_mut(stream) {
                for row in std::mem::take(&mut empty.rows) {
                    match taken.len() < max && due_in(&row, server_now).is_zero() {
                        true => taken.push(row),
                        false => empty.rows.push_back(row),
                    }
                }
            }
        }
        Some(taken)
    }

    /// When to look for a row of these streams again; `None`: the server has to be asked.
    pub(crate) fn next(
        &self,
        streams: &[i32],
        now: Duration,
        server_now: Timestamp,
    ) -> Option<Next> {
        let known = self.known();
        if !known.know(streams, now) {
            return None;
        }
        let empty = || streams.iter().filter_map(|id| known.empty.get(id));
        let later = empty().filter(|one| one.is_due_later);
        let later = later.map(|one| one.until.saturating_sub(now));
        let own = empty().filter_map(|one| one.due_in(server_now));
        Some(own.chain(later).min().map_or(Next::News, Next::In))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_millis(0);

    fn take(own: &OwnRows, streams: &[i32], now: Duration) -> Option<usize> {
        own.take(streams, 9, now, AT).map(|rows| rows.len())
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_stream_is_known_after_a_claim_that_found_nothing() {
        let own = OwnRows::default();
        assert_eq!(take(&own, &[1], ms(0)), None);
        let begun_at = own.claim_begins();
        own.found_nothing(begun_at, &[1], None, ms(10));
        assert_eq!(take(&own, &[1], ms(20)), Some(0));
        assert_eq!(own.next(&[1], ms(20), AT), Some(Next::News));
        assert!(take(&own, &[1, 2], ms(20)).is_none(), "2 is unknown");
        assert!(take(&own, &[1], ms(1_010)).is_none(), "it was a while ago");
    }

    #[test]
    fn what_is_announced_during_a_claim_or_after_it_ends_the_knowledge() {
        let own = OwnRows::default();
        let begun_at = own.claim_begins();
        own.announced(1);
        own.found_nothing(begun_at, &[1], None, ms(10));
        assert!(take(&own, &[1], ms(10)).is_none(), "during the claim");
        own.found_nothing(own.claim_begins(), &[1, 2], None, ms(10));
        own.announced(1);
        assert!(take(&own, &[1], ms(10)).is_none(), "after it");
        assert!(take(&own, &[2], ms(10)).is_some(), "another stream");
        own.forget();
        assert!(take(&own, &[2], ms(10)).is_none());
    }

    #[test]
    fn a_row_that_becomes_due_by_time_ends_it_then() {
        let own = OwnRows::default();
        own.found_nothing(own.claim_begins(), &[1], Some(ms(300)), ms(10));
        assert_eq!(own.next(&[1], ms(110), AT), Some(Next::In(ms(200))));
        assert!(take(&own, &[1], ms(309)).is_some());
        assert!(take(&own, &[1], ms(310)).is_none());
        own.found_nothing(own.claim_begins(), &[1], Some(ms(0)), ms(400));
        assert!(take(&own, &[1], ms(400)).is_none(), "a row is locked");
    }
}
