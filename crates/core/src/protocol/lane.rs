//! Per-key order: one holder at a time, in seq order.

use std::collections::BTreeSet;

use super::event::LaneStand;

/// The open operations of one (domain, biz_key) under `order = "key"`.
///
/// Stores keep it as a row of their own, locked when a seq is drawn, so that seqs become
/// visible in order: an earlier seq never turns up behind a later one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Lane {
    holder: Option<u64>,
    open: BTreeSet<u64>,
}

impl Lane {
    /// An operation joins at the tail. True: it is the head and may be due.
    pub fn join(&mut self, seq: u64) -> bool {
        self.open.insert(seq);
        self.head() == Some(seq)
    }

    /// The one that may begin.
    pub fn head(&self) -> Option<u64> {
        self.holder.or_else(|| self.open.first().copied())
    }

    /// Where `seq` stands.
    pub fn stand(&self, seq: u64) -> LaneStand {
        if self.head() == Some(seq) {
            LaneStand::Ours
        } else {
            LaneStand::Behind
        }
    }

    /// The head begins, or is held: it keeps the lane until it is terminal.
    pub fn take(&mut self, seq: u64) {
        if self.stand(seq) == LaneStand::Ours {
            self.holder = Some(seq);
        }
    }

    /// `seq` is terminal. Returns the operation that became head by this, if any: a
    /// canceled follower leaves the holder alone.
    pub fn leave(&mut self, seq: u64) -> Option<u64> {
        let before = self.head();
        self.open.remove(&seq);
        if self.holder == Some(seq) {
            self.holder = None;
        }
        self.head().filter(|head| Some(*head) != before)
    }

    /// Nobody is in it: the row can go.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_in_seq_order() {
        let mut lane = Lane::default();
        assert!(lane.join(3));
        assert!(!lane.join(5));
        assert!(!lane.join(9));
        lane.take(5);
        assert_eq!(lane.stand(3), LaneStand::Ours);
        lane.take(3);
        assert_eq!(lane.stand(5), LaneStand::Behind);
        assert_eq!(lane.leave(5), None, "a follower leaves the holder alone");
        assert_eq!(lane.leave(3), Some(9));
        assert_eq!(lane.leave(9), None);
        assert!(lane.is_empty());
    }
}
