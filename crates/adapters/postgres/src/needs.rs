//! When recovery is needed next, as far as this process has told.

use std::sync::{Mutex, PoisonError};

use clinch_core::Timestamp;

/// The earliest time told of each recovery.
#[derive(Debug, Default)]
pub(crate) struct Needs(Mutex<[Option<Timestamp>; 4]>);

impl Needs {
    /// True: somebody has to look earlier than was told before. Who waits for an earlier need
    /// looks again when that has come.
    pub(crate) fn are_new(&self, needs: &[Option<Timestamp>; 4], now: Timestamp) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut are_new = false;
        for (told, need) in told.iter_mut().zip(needs) {
            let Some(need) = need else {
                continue;
            };
            if told.is_none_or(|told| told <= now || *need < told) {
                *told = Some(*need);
                are_new = true;
            }
        }
        are_new
    }
}
