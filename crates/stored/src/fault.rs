//! Failures that tests ask for.

use std::sync::{Mutex, PoisonError};

/// How a writing call fails, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `Unavailable`, before anything was written.
    BeforeCommit,
    /// `Unavailable`, after some of its rows were written and before the commit.
    MidCommit,
    /// `Ambiguous`, after the commit: the caller does not learn of it.
    AfterCommit,
}

/// What the next writing call meets. Always nothing in a release build.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Option<Fault>>);

impl Faults {
    /// The next writing call meets `fault`.
    pub fn arm(&self, fault: Fault) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    /// Whether there is one to meet.
    pub fn is_armed(&self) -> bool {
        cfg!(debug_assertions)
            && self
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_some()
    }

    /// What this call meets; the next one meets nothing.
    pub fn take(&self) -> Option<Fault> {
        if cfg!(debug_assertions) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
        } else {
            None
        }
    }
}
