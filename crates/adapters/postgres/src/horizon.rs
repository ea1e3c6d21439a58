//! Where the line of each stream begins, while that is worth knowing.
//!
//! Rows that were taken leave dead entries at the front of the index. The server removes
//! them, unless some transaction holds an old snapshot open; then each claim would wade
//! through all of them. So while looks from the very beginning are slow, a look starts at the
//! first row that the last one from the beginning has seen, less what commits have told
//! since. A look from the beginning is made again after a while, for what nobody told.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A look that takes longer than this has waded.
const SLOW: Duration = Duration::from_millis(20);
/// How long a slow look is not repeated.
const TRUSTED: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Seen {
    /// The first due time of each stream.
    first: HashMap<i32, i64>,
    /// Until when, on the monotonic clock, they are used.
    until: Option<Duration>,
}

/// The front of every line.
#[derive(Debug, Default)]
pub(crate) struct Horizon(Mutex<Seen>);

impl Horizon {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a look at these streams starts; `None`: at the beginning.
    pub(crate) fn start(&self, streams: &[i32], now: Duration) -> Option<i64> {
        let seen = self.seen();
        seen.until.filter(|until| now < *until)?;
        let first = |stream: &i32| seen.first.get(stream).copied();
        let firsts: Option<Vec<i64>> = streams.iter().map(first).collect();
        firsts?.into_iter().min()
    }

    /// A row of this stream is due from `at` on.
    pub(crate) fn lower(&self, stream: i32, at: i64) {
        if let Some(first) = self.seen().first.get_mut(&stream) {
            *first = (*first).min(at);
        }
    }

    /// Forgets everything: news may have been missed.
    pub(crate) fn forget(&self) {
        *self.seen() = Seen::default();
    }

    /// Whether a look from the beginning took so long that its front is worth keeping.
    pub(crate) fn is_slow(took: Duration) -> bool {
        took > SLOW
    }

    /// What a look from the beginning has seen; streams without a row begin at `now`.
    pub(crate) fn keep(&self, firsts: HashMap<i32, i64>, now: Duration) {
        let mut seen = self.seen();
        seen.first = firsts;
        seen.until = Some(now + TRUSTED);
    }
}
