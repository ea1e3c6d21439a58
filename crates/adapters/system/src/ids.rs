//! Random ids and numbers.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use clinch_core::policy::SplitMix;
use clinch_core::ports::Ids;
use clinch_core::{AttemptId, BatchId, OpId};
use uuid::Uuid;

/// Ids from the operating system's randomness. The ids of operations and batches grow with time
/// (UUIDv7), so that a store's index grows at one end. The ids of attempts reveal nothing (UUIDv4).
/// A worker generates many attempt ids at once, so they are taken from a few kilobytes of
/// randomness at a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

/// Bytes of one system call: enough for 256 ids.
const DRAWN: usize = 4_096;

thread_local! {
    /// Random bytes, and how many of them are used up.
    static RANDOM: RefCell<([u8; DRAWN], usize)> = const { RefCell::new(([0; DRAWN], DRAWN)) };
}

/// The next 16 bytes. `None`: the operating system returned none.
fn random() -> Option<[u8; 16]> {
    RANDOM.with_borrow_mut(|(bytes, used)| {
        if *used + 16 > DRAWN {
            getrandom::fill(bytes).ok()?;
            *used = 0;
        }
        let next = bytes.get(*used..*used + 16)?.try_into().ok()?;
        *used += 16;
        Some(next)
    })
}

impl Ids for SystemIds {
    fn op_id(&self) -> OpId {
        OpId(Uuid::now_v7())
    }

    fn attempt_id(&self) -> AttemptId {
        let drawn = random().map(|bytes| uuid::Builder::from_random_bytes(bytes).into_uuid());
        AttemptId(drawn.unwrap_or_else(Uuid::new_v4))
    }

    fn batch_id(&self) -> BatchId {
        BatchId(Uuid::now_v7())
    }
}

/// Seeded by the operating system, then computed: a number costs no system call. Not for secrets.
#[derive(Debug)]
pub struct SystemRng {
    drawn: AtomicU64,
}

impl SystemRng {
    /// A generator with a random seed.
    pub fn new() -> Self {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        // Each half has some fixed bits ("version 4"). The rotation moves them apart.
        let seed = high ^ low.rotate_left(32);
        Self {
            drawn: AtomicU64::new(seed),
        }
    }

    /// 64 random bits.
    pub fn next_u64(&self) -> u64 {
        /// SplitMix's own increment: the counter below steps through its states.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.drawn.fetch_add(STEP, Ordering::Relaxed);
        SplitMix::new(state).next_u64()
    }
}

impl Default for SystemRng {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_fresh_and_those_of_operations_grow() {
        let ops: Vec<OpId> = (0..1_000).map(|_| SystemIds.op_id()).collect();
        assert!(ops.is_sorted_by(|a, b| a < b));
        let batches: Vec<BatchId> = (0..1_000).map(|_| SystemIds.batch_id()).collect();
        assert!(batches.is_sorted_by(|a, b| a < b));
        let attempts: BTreeSet<AttemptId> = (0..1_000).map(|_| SystemIds.attempt_id()).collect();
        assert_eq!(attempts.len(), 1_000);
        assert!(attempts.iter().all(|id| id.0.get_version_num() == 4));
        let elsewhere = std::thread::spawn(|| (0..1_000).map(|_| SystemIds.attempt_id()).collect());
        let elsewhere: BTreeSet<AttemptId> = elsewhere.join().expect("ids");
        assert!(attempts.is_disjoint(&elsewhere));
    }

    #[test]
    fn draws_differ_within_and_between_generators() {
        let (one, other) = (SystemRng::new(), SystemRng::new());
        let draws = (0..1_000).flat_map(|_| [one.next_u64(), other.next_u64()]);
        assert_eq!(draws.collect::<BTreeSet<_>>().len(), 2_000);
    }
}
