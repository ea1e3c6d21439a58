//! How many rows to ask for, by destination, and when to ask again.
//!
//! A worker asks for at most as many rows as it has permits, and for at most as many as it has
//! reserved at a destination. While a breaker is open or a destination is paused, its rows stay due
//! and cost no write. If a guard closes after the reservation, the attempt that meets it is given
//! back.
//!
//! A destination without due rows is not asked again until its next row is due or a notice names
//! one of its domains, so that idle destinations cost the busy ones nothing.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clinch_core::ports::Hint;
use clinch_core::{Domain, EventType};

use super::Reservation;
use super::Workers;
use super::destination::Destination;
use crate::recheck::Recheck;

/// The delay of a hint whose destination is full, and the longest that a read of other hints may
/// wait meanwhile. Doubles each time the hint is delivered in vain.
const FULL_PAUSE: Duration = Duration::from_millis(200);

/// Maximum number of doublings. The delay stays below 13 seconds.
const FULL_DOUBLINGS_MAX: u32 = 6;

/// Whether a destination should be asked for rows now.
#[derive(Default)]
pub(crate) struct Rest {
    /// Counts the notices about the destination's domains.
    news: AtomicU64,
    pub(super) recheck: Recheck,
    rested: Mutex<Rested>,
}

#[derive(Default, Clone, Copy)]
struct Rested {
    /// `news` before the ask that returned nothing.
    seen: u64,
    /// On the monotonic clock: without further notices, no row is due before then.
    until: Duration,
}

impl Rest {
    pub(crate) fn wake(&self) {
        self.news.fetch_add(1, Ordering::SeqCst);
    }

    /// Read this before asking, so that a notice after the ask is not missed.
    pub(super) fn news(&self) -> u64 {
        self.news.load(Ordering::SeqCst)
    }

    pub(super) fn rest(&self, seen: u64, until: Duration) {
        *self.rested.lock().unwrap_or_else(PoisonError::into_inner) = Rested { seen, until };
    }

    /// How long the rest still lasts. `None`: the destination should be asked now.
    fn left(&self, now: Duration) -> Option<Duration> {
        let rested = *self.rested.lock().unwrap_or_else(PoisonError::into_inner);
        let left = rested.until.saturating_sub(now);
        (rested.seen == self.news() && !left.is_zero()).then_some(left)
    }
}

/// How many deliveries a look asks for. Each of them costs a permit, a reservation and an attempt id
/// before the look, so a look that will most likely find one row does not ask for hundreds.
pub(super) struct AskSize {
    next: AtomicUsize,
    min: usize,
    max: usize,
}

impl AskSize {
    /// The least that a look asks for, besides one for each destination.
    const MIN: usize = 16;
    /// A look that found all it asked for is followed by one that asks for this many times as much.
    const GROWTH: usize = 4;

    pub(super) fn new(destinations: usize, batch: usize) -> Self {
        let min = (Self::MIN + destinations).min(batch);
        Self {
            next: AtomicUsize::new(min),
            min,
            max: batch,
        }
    }

    pub(super) fn get(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// A look asked for `asked` deliveries and found `found`.
    pub(super) fn learn(&self, asked: usize, found: usize) {
        let next = match found >= asked {
            true => asked.saturating_mul(Self::GROWTH),
            false => found.saturating_mul(2),
        };
        self.next
            .store(next.clamp(self.min, self.max), Ordering::Relaxed);
    }
}

/// The destinations to ask, with their room. The first one takes turns.
pub(super) struct Open<'a> {
    pub destinations: Vec<(&'a Destination, usize)>,
    /// When one of the other destinations should be asked.
    pub again_in: Option<Duration>,
    /// One of the other destinations is full until a running call ends.
    pub full: bool,
}

impl Workers {
    pub(super) fn open_destinations(&self, rested: bool) -> Open<'_> {
        let now = self.ports.clock.monotonic();
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % self.destinations.len().max(1);
        let (later, sooner) = self.destinations.split_at(first);
        let mut open = Open {
            destinations: Vec::with_capacity(self.destinations.len()),
            again_in: None,
            full: false,
        };
        for destination in sooner.iter().chain(later) {
            let room = destination.room(now);
            let rests = destination.rest.left(now).filter(|_| rested);
            if room.is_closed() {
                open.again_in = soonest(open.again_in, room.again_in);
                open.full |= room.again_in.is_none();
            } else if rests.is_some() {
                open.again_in = soonest(open.again_in, rests);
            } else {
                open.destinations.push((destination, room.calls));
            }
        }
        open
    }

    /// A reservation for the call that this hint asks for. `Ok(None)`: this process does not
    /// execute the hint's route. `Err`: the destination is full; the delay of the hint.
    pub(super) fn room_for(
        &self,
        hint: &Hint,
        redeliveries: u32,
    ) -> Result<Option<Reservation>, Duration> {
        let Some(destination) = self.destination_for(&hint.domain, &hint.event_type) else {
            return Ok(None);
        };
        let now = self.ports.clock.monotonic();
        match destination.reserve(1, now).pop() {
            Some(reservation) => Ok(Some(reservation)),
            None => {
                let full = FULL_PAUSE.saturating_mul(1 << redeliveries.min(FULL_DOUBLINGS_MAX));
                Err(destination.room(now).again_in.unwrap_or(full))
            }
        }
    }

    pub(super) fn destination_of(&self, hint: &Hint) -> Option<&Destination> {
        self.destination_for(&hint.domain, &hint.event_type)
    }

    /// The destination of a route, if this process executes the route.
    pub(crate) fn destination_for(
        &self,
        domain: &Domain,
        event_type: &EventType,
    ) -> Option<&Destination> {
        let handler = self.handlers.find(domain, event_type)?;
        handler.executor.as_ref()?;
        let name = handler.gate.destination();
        let found = self
            .destinations
            .binary_search_by(|destination| destination.gate.destination().cmp(name));
        found.ok().map(|at| &self.destinations[at])
    }

    /// A notice named this domain; `None`: notices were lost, any domain may have due rows.
    pub(crate) fn wake_destinations(&self, of: Option<&Domain>) {
        let covers = |destination: &&Destination| {
            of.is_none_or(|domain| destination.domains.contains(domain))
        };
        self.destinations
            .iter()
            .filter(covers)
            .for_each(|destination| destination.rest.wake());
    }
}

impl Open<'_> {
    /// How long a read of the bus may wait: until the first closed destination may have room again.
    pub(super) fn wait(&self, bound: Duration) -> Duration {
        let full = self.full.then_some(FULL_PAUSE);
        soonest(self.again_in, full).map_or(bound, |wait| wait.min(bound))
    }
}

/// The shorter of two waits. `None` means forever.
pub(super) fn soonest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_destination_rests_until_its_time_or_news() {
        let rest = Rest::default();
        assert_eq!(rest.left(Duration::ZERO), None, "at first it is asked for");
        rest.rest(rest.news(), SECOND * 5);
        assert_eq!(rest.left(SECOND), Some(SECOND * 4));
        assert_eq!(rest.left(SECOND * 5), None);
        rest.wake();
        assert_eq!(rest.left(SECOND), None);
    }

    #[test]
    fn a_look_asks_for_more_while_it_finds_all_it_asked_for() {
        let size = AskSize::new(4, 1_000);
        assert_eq!(size.get(), 20);
        size.learn(20, 20);
        assert_eq!(size.get(), 80);
        size.learn(80, 80);
        size.learn(320, 320);
        assert_eq!(size.get(), 1_000, "never more than the batch");
        size.learn(1_000, 300);
        assert_eq!(size.get(), 600);
        size.learn(600, 0);
        assert_eq!(size.get(), 20);
        assert_eq!(AskSize::new(4, 7).get(), 7, "a batch may be smaller");
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
