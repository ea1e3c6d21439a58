//! The store's clock is the server's. Tests may shift or stop it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::Timestamp;

/// How a transaction gets the time. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Time(Arc<Mutex<TimeState>>);

#[derive(Debug, Default)]
struct TimeState {
    /// The clock is stopped at this time.
    fixed: Option<Timestamp>,
    ahead: Duration,
}

impl Time {
    fn lock(&self) -> MutexGuard<'_, TimeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets `@clinch_now`, the time of a whole transaction.
    pub(crate) fn statement(&self) -> String {
        let told = self.lock();
        let ahead = told.ahead.as_millis();
        match told.fixed {
            Some(at) => format!("SET @clinch_now = {} + {ahead}", at.as_millis()),
            None => format!(
                "SET @clinch_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) \
                 DIV 1000 + {ahead}"
            ),
        }
    }

    pub(crate) fn advance(&self, by: Duration) {
        if cfg!(debug_assertions) {
            self.lock().ahead += by;
        }
    }

    pub(crate) fn stop_at(&self, at: Timestamp) {
        if cfg!(debug_assertions) {
            self.lock().fixed = Some(at);
        }
    }
}
