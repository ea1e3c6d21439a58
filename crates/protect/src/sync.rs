//! The locks of this crate: of the standard library, or of shuttle's scheduler, which tries
//! out interleavings.

use std::sync::PoisonError;

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks. What a panic left behind is used as it is: no code here panics half-way through a
/// change.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
