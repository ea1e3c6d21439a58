//! Order per key: one holder at a time, in seq order.

use std::collections::BTreeSet;

use super::event::LaneStand;

/// The open operations of one (domain, biz_key) under `order = "key"`.
///
/// Stores keep a lane as a row of its own. They lock it when they assign a seq, so that seqs become
/// visible in order: an earlier seq never appears after a later one.
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

    /// The operation that may begin.
    pub fn head(&self) -> Option<u64> {
        self.holder.or_else(|| self.open.first().copied())
    }

    /// The position of `seq` in the lane.
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

    /// `seq` is terminal. Returns the operation that became head by this, if any. A canceled
    /// follower does not affect the holder.
    pub fn leave(&mut self, seq: u64) -> Option<u64> {
        let before = self.head();
        self.open.remove(&seq);
        if self.holder == Some(seq) {
            self.holder = None;
        }
        self.head().filter(|head| Some(*head) != before)
    }

    /// The lane has no operations: its row can be deleted.
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
