//! Failures that tests ask for.

use std::sync::{Mutex, PoisonError};

/// How a writing call fails, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Before anything was written.
    BeforeCommit,
    /// After its rows were written, before the commit.
    MidCommit,
    /// After the commit: the caller does not learn of it.
    AfterCommit,
}

/// What the next writing call meets. Always nothing in a release build.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Option<Fault>>);

impl Faults {
    pub(crate) fn arm(&self, fault: Fault) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    pub(crate) fn take(&self) -> Option<Fault> {
        if cfg!(debug_assertions) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
        } else {
            None
        }
    }
}
