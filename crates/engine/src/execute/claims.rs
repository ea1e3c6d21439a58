//! How much to ask for, by destination, and when to ask again.
//!
//! A worker asks for no more than it has permits for, and for no more than it has reserved at a
//! destination. While a breaker is open or a destination is paused, its rows stay due at no
//! write. An attempt that meets a guard which closed since then is given back.
//!
//! A lot that had nothing is left alone until its next row is due or there is news of one of
//! its domains, so that idle destinations cost the busy ones nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clinch_core::ports::{Hint, Topic};
use clinch_core::{Domain, EventType};

use super::Reservation;
use crate::handlers::Lot;
use crate::node::Node;
use crate::recheck::Recheck;

/// How long a hint stays away whose destination takes no more calls, and how long a reader of
/// hints may wait for others meanwhile. Doubles with each time that a hint came in vain.
const FULL_PAUSE: Duration = Duration::from_millis(200);

/// Doublings of it: ten seconds at most.
const FULL_DOUBLINGS_MAX: u32 = 6;

/// Whether a lot is worth asking for.
#[derive(Default)]
pub(crate) struct Rest {
    /// Raised by news of its domains.
    news: AtomicU64,
    pub(super) recheck: Recheck,
    rested: Mutex<Rested>,
}

#[derive(Default, Clone, Copy)]
struct Rested {
    /// The news when it had nothing.
    seen: u64,
    /// Until then, on the monotonic clock, it has nothing, if there is no news.
    until: Duration,
}

impl Rest {
    pub(crate) fn wake(&self) {
        self.news.fetch_add(1, Ordering::SeqCst);
    }

    /// Read before an ask: what comes after it is not missed.
    pub(super) fn news(&self) -> u64 {
        self.news.load(Ordering::SeqCst)
    }

    pub(super) fn rest(&self, seen: u64, until: Duration) {
        *self.rested.lock().unwrap_or_else(PoisonError::into_inner) = Rested { seen, until };
    }

    /// `None`: it is worth asking for now.
    fn left(&self, now: Duration) -> Option<Duration> {
        let rested = *self.rested.lock().unwrap_or_else(PoisonError::into_inner);
        let left = rested.until.saturating_sub(now);
        (rested.seen == self.news() && !left.is_zero()).then_some(left)
    }
}

/// The lots worth asking for, the one whose turn it is first, with their room.
pub(super) struct Open<'a> {
    pub lots: Vec<(&'a Lot, usize)>,
    /// When one of the others is.
    pub again_in: Option<Duration>,
    /// One of the others waits for a running call to end.
    pub full: bool,
}

impl Node {
    pub(super) fn open_lots(&self, rested: bool) -> Open<'_> {
        let now = self.ports.clock.monotonic();
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % self.lots.len().max(1);
        let (later, sooner) = self.lots.split_at(first);
        let mut open = Open {
            lots: Vec::with_capacity(self.lots.len()),
            again_in: None,
            full: false,
        };
        for lot in sooner.iter().chain(later) {
            let room = lot.room(now);
            let rests = lot.rest.left(now).filter(|_| rested);
            if room.is_closed() {
                open.again_in = soonest(open.again_in, room.again_in);
                open.full |= room.again_in.is_none();
            } else if rests.is_some() {
                open.again_in = soonest(open.again_in, rests);
            } else {
                open.lots.push((lot, room.calls));
            }
        }
        open
    }

    /// Room for the call that this hint asks for, or how long to leave it; neither, if the hint
    /// is not executed here.
    pub(super) fn room_for(
        &self,
        hint: &Hint,
        redeliveries: u32,
    ) -> Result<Option<Reservation>, Duration> {
        let Some(lot) = self.lot_for(&hint.domain, &hint.event_type) else {
            return Ok(None);
        };
        let now = self.ports.clock.monotonic();
        match lot.reserve(1, now).pop() {
            Some(reservation) => Ok(Some(reservation)),
            None => {
                let full = FULL_PAUSE.saturating_mul(1 << redeliveries.min(FULL_DOUBLINGS_MAX));
                Err(lot.room(now).again_in.unwrap_or(full))
            }
        }
    }

    pub(super) fn lot_of(&self, hint: &Hint) -> Option<&Lot> {
        self.lot_for(&hint.domain, &hint.event_type)
    }

    /// Where the guards of a route stand, if it is executed here.
    pub(crate) fn lot_for(&self, domain: &Domain, event_type: &EventType) -> Option<&Lot> {
        let handler = self.handlers.find(domain, event_type)?;
        handler.executor.as_ref()?;
        let name = handler.gate.destination();
        let found = self
            .lots
            .binary_search_by(|lot| lot.gate.destination().cmp(name));
        found.ok().map(|at| &self.lots[at])
    }

    pub(crate) fn topic_of(&self, hint: &Hint) -> Topic {
        self.handlers.topic(&hint.domain, &hint.event_type)
    }

    /// There is news: of this domain, or of any.
    pub(crate) fn wake_lots(&self, of: Option<&Domain>) {
        let covers = |lot: &&Lot| of.is_none_or(|domain| lot.domains.contains(domain));
        self.lots
            .iter()
            .filter(covers)
            .for_each(|lot| lot.rest.wake());
    }
}

impl Open<'_> {
    /// How long a read of the bus may wait: no longer than the other lots stay closed.
    pub(super) fn wait(&self, bound: Duration) -> Duration {
        let full = self.full.then_some(FULL_PAUSE);
        soonest(self.again_in, full).map_or(bound, |wait| wait.min(bound))
    }
}

/// The sooner of two, where `None` is never.
pub(super) fn soonest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_lot_rests_until_its_time_or_news() {
        let rest = Rest::default();
        assert_eq!(rest.left(Duration::ZERO), None, "at first it is asked for");
        rest.rest(rest.news(), SECOND * 5);
        assert_eq!(rest.left(SECOND), Some(SECOND * 4));
        assert_eq!(rest.left(SECOND * 5), None);
        rest.wake();
        assert_eq!(rest.left(SECOND), None);
    }

    #[test]
    fn news_during_an_ask_is_not_missed() {
        let rest = Rest::default();
        let seen = rest.news();
        rest.wake();
        rest.rest(seen, SECOND * 5);
        assert_eq!(rest.left(SECOND), None);
    }
}
