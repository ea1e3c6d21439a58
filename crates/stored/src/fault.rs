//! Injected failures, for tests.

use std::sync::{Mutex, PoisonError};

/// How a writing call fails, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `Unavailable`, before anything was written.
    BeforeCommit,
    /// `Unavailable`, after some of its rows were written and before the commit.
    MidCommit,
    /// `Ambiguous`, after the commit: the caller does not learn that it happened.
    AfterCommit,
}

/// The fault for the next writing call. Always none in a release build.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Option<Fault>>);

impl Faults {
    /// Makes the next writing call fail with `fault`.
    pub fn arm(&self, fault: Fault) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    /// Whether a fault is set.
    pub fn is_armed(&self) -> bool {
        cfg!(debug_assertions)
            && self
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_some()
    }

    /// Takes the fault for this call. The next call has none.
    pub fn take(&self) -> Option<Fault> {
        if cfg!(debug_assertions) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
        } else {
            None
        }
    }
}
