//! How much to ask for, by destination.
//!
//! A worker asks for no more than it has permits for, and for no more than a destination has
//! room for. While a breaker is open or a destination is paused, its rows stay due at no
//! write. Room is a look, not a reservation: whoever calls takes the guards' permits, and an
//! attempt that meets a closed one after all is given back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::ports::{Hint, Room};

use crate::handlers::Lot;
use crate::node::Node;

/// How long to leave a destination alone whose calls are all taken, where no end of a call
/// can wake the reader: on a bus of hints.
const FULL_PAUSE: Duration = Duration::from_millis(200);

/// The lots with room, the one whose turn it is first.
pub(super) struct Open<'a> {
    pub lots: Vec<(&'a Lot, usize)>,
    /// When there may be room in one of the others.
    pub again_in: Option<Duration>,
    /// One of the others waits for a running call to end.
    pub full: bool,
}

impl Node {
    pub(super) fn open_lots(&self) -> Open<'_> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % self.lots.len().max(1);
        let (later, sooner) = self.lots.split_at(first);
        let mut open = Open {
            lots: Vec::with_capacity(self.lots.len()),
            again_in: None,
            full: false,
        };
        for lot in sooner.iter().chain(later) {
            let room = lot.gate.room();
            if room.is_closed() {
                open.again_in = soonest(open.again_in, room.again_in);
                open.full |= room.again_in.is_none();
            } else {
                open.lots.push((lot, room.calls));
            }
        }
        open
    }

    /// `Some`: no call can be made for this hint before so long.
    pub(super) fn closed_for(&self, hint: &Hint, taken: usize) -> Option<Duration> {
        let handler = self.handlers.find(&hint.domain, &hint.event_type)?;
        let room: Room = handler.gate.room();
        (room.calls <= taken).then(|| room.again_in.unwrap_or(FULL_PAUSE))
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
