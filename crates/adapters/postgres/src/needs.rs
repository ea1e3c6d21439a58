//! When recovery is needed next, as far as this process has announced it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use clinch_core::Timestamp;
use clinch_core::ports::Scan;

/// The earliest announced time of each recovery.
#[derive(Debug, Default)]
pub(crate) struct Needs(Mutex<BTreeMap<Scan, Timestamp>>);

impl Needs {
    /// True: recovery has to look earlier than was announced before. Recovery that waits for an
    /// earlier need looks again when that has come.
    pub(crate) fn are_new(&self, needs: &BTreeMap<Scan, Timestamp>, now: Timestamp) -> bool {
        let mut announced = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut are_new = false;
        for (scan, need) in needs {
            let known = announced.get(scan);
            if known.is_none_or(|known| *known <= now || need < known) {
                announced.insert(*scan, *need);
                are_new = true;
            }
        }
        are_new
    }
}
