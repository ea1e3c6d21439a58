//! When a process counts as dead: for stores on a server, whose sessions can break.

use std::collections::BTreeMap;
use std::time::Duration;

use clinch_core::ProcessId;

/// A process whose lock is free for this long has died. A process that lost its session while it
/// lives on takes its lock again within about half of that.
pub const GRACE: Duration = Duration::from_secs(4);

/// Processes whose lock was free at the last look, and since when.
#[derive(Debug, Default)]
pub struct Absences(BTreeMap<ProcessId, Duration>);

impl Absences {
    /// Of the processes whose lock is free at `now`, those for which it was free at every look
    /// since [`GRACE`].
    pub fn dead(&mut self, free: Vec<ProcessId>, now: Duration) -> Vec<ProcessId> {
        let since = |process: ProcessId| (process, *self.0.get(&process).unwrap_or(&now));
        let absent: BTreeMap<_, _> = free.into_iter().map(since).collect();
        self.0 = absent;
        let is_dead = |since: Duration| now.saturating_sub(since) >= GRACE;
        let dead = self.0.iter().filter(|(_, since)| is_dead(**since));
        dead.map(|(process, _)| *process).collect()
    }

    /// The looks so far say nothing any more: this process itself could not look for a while.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_must_stay_free_for_the_whole_grace() {
        let mut absences = Absences::default();
        let [one, two] = [1, 2].map(ProcessId::from_bits);
        let at = Duration::from_secs;
        assert_eq!(absences.dead(vec![one], at(10)), []);
        assert_eq!(absences.dead(vec![one, two], at(13)), []);
        assert_eq!(absences.dead(vec![one, two], at(14)), [one]);
        // It took its lock again: the grace begins anew.
        assert_eq!(absences.dead(vec![one], at(15)), [one]);
        assert_eq!(absences.dead(vec![two], at(16)), []);
        assert_eq!(absences.dead(vec![one, two], at(20)), [two]);
        absences.forget();
        assert_eq!(absences.dead(vec![one, two], at(30)), []);
    }
}
