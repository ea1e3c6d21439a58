//! Room that was taken before a begin.
//!
//! Guards count a call from when it takes their permits. From the decision to begin an attempt
//! until then, a reservation counts it: whoever begins reserves first, so that no attempt is
//! begun for which the guards have no permit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::ports::{Reason, Room};

use crate::handlers::Lot;

/// Calls of one destination that were promised room and have not taken their permits yet.
#[derive(Default, Clone)]
pub(crate) struct Reservations(Arc<Mutex<usize>>);

impl Reservations {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them; dropped when the guards count the call, or when there will be none.
pub(crate) struct Reservation(Reservations);

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = self.0.lock();
        *reserved = reserved.saturating_sub(1);
    }
}

impl Lot {
    /// Notes whether it is closed, and why.
    pub(crate) fn look(&self, now: Duration) {
        let _ = self.room(now);
    }

    /// What its guards leave after the reservations.
    pub(super) fn room(&self, now: Duration) -> Room {
        // Counted first: a call takes its permits before its reservation ends, so that it is
        // counted by one of the two, or for a moment by both.
        let reserved = *self.reservations.lock();
        self.left_after(reserved, now)
    }

    /// Takes room for at most `max` calls.
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
