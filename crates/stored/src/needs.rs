//! When recovery is needed next, as far as this process has announced it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use clinch_core::Timestamp;
use clinch_core::ports::Scan;

/// The earliest announced time of each recovery.
#[derive(Debug, Default)]
pub struct Needs(Mutex<BTreeMap<Scan, Timestamp>>);

impl Needs {
    /// Whether recovery has to look earlier than was announced before: then the commit announces
    /// it. Recovery that waits for an earlier time looks again when that time has come, and
    /// otherwise after its interval, so most attempts need no announcement.
    pub fn are_new(&self, needs: &BTreeMap<Scan, Timestamp>, now: Timestamp) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_need_is_new_until_its_time_has_come() {
        let needs = Needs::default();
        let at = Timestamp::from_millis;
        let are_new = |need: i64, now: i64| {
            needs.are_new(&BTreeMap::from([(Scan::LeaseEnded, at(need))]), at(now))
        };
        assert!(are_new(30, 0), "the first one");
        assert!(!are_new(31, 1), "a later one");
        assert!(!are_new(30, 1), "the same again");
        assert!(are_new(20, 2), "an earlier one");
        assert!(!are_new(49, 19), "later than the one that is awaited");
        assert!(are_new(50, 20), "the awaited time has come");
    }
}
