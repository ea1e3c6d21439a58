//! Room that is reserved before a begin.
//!
//! Guards count a call from when it takes their permits. Between the decision to begin an attempt
//! and that moment, a reservation counts it. Every begin reserves first, so that no attempt begins
//! for which the guards have no permit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::ports::{Reason, Room};

use super::destination::Destination;

/// The number of calls of one destination that have a reservation and no permits yet.
#[derive(Default, Clone)]
pub(crate) struct Reservations(Arc<Mutex<usize>>);

impl Reservations {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One reservation. Dropped when the guards count the call, or when there will be no call.
pub(crate) struct Reservation(Reservations);

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = self.0.lock();
        *reserved = reserved.saturating_sub(1);
    }
}

impl Destination {
    /// Records whether the destination is closed, and why.
    pub(crate) fn look(&self, now: Duration) {
        let _ = self.room(now);
    }

    /// The room that the guards leave after all reservations.
    pub(super) fn room(&self, now: Duration) -> Room {
        // Read before the guards: a call takes its permits before its reservation ends, so it is
        // counted by one of the two, or briefly by both.
        let reserved = *self.reservations.lock();
        self.left_after(reserved, now)
    }

    /// Reserves room for at most `max` calls.
    pub(crate) fn reserve(&self, max: usize, now: Duration) -> Vec<Reservation> {
        let mut reserved = self.reservations.lock();
        let taken = self.left_after(*reserved, now).calls.min(max);
        *reserved = reserved.saturating_add(taken);
        let reservation = || Reservation(self.reservations.clone());
        std::iter::repeat_with(reservation).take(taken).collect()
    }

    fn left_after(&self, reserved: usize, now: Duration) -> Room {
        let room = self.gate.room();
        if room.is_closed() {
            self.note_closed(room, now);
            return room;
        }
        match room.calls.saturating_sub(reserved) {
            0 => Room {
                calls: 0,
                reason: Some(Reason::BulkheadFull),
                again_in: None,
            },
            calls => Room { calls, ..room },
        }
    }
}
