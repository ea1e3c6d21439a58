//! Random ids and numbers.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use clinch_core::policy::SplitMix;
use clinch_core::ports::Ids;
use clinch_core::{AttemptId, BatchId, OpId};
use uuid::Uuid;

/// Ids from the operating system's randomness. The ids of operations and batches grow with time
/// (UUIDv7), so that a store's index grows at one end. The ids of attempts reveal nothing (UUIDv4).
/// Ids are made for every operation, so randomness is drawn a few kilobytes at a time.
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

/// Distinguishes the ids of one millisecond: starts at a random number, then counts.
struct Counter {
    millis: u64,
    count: u64,
}

static COUNTER: Mutex<Counter> = Mutex::new(Counter {
    millis: 0,
    count: 0,
});

/// Bits of the counter that a UUIDv7 holds. The remaining 32 are random.
const COUNTER_BITS: u32 = 42;

impl Counter {
    /// The time and the count of the next id. If the clock went back, or a millisecond has used up its
    /// counter, the time of the ids runs ahead of the clock.
    fn next(&mut self, now: u64, random: [u8; 8]) -> (u64, u64) {
        self.count += 1;
        if now > self.millis || self.count >> COUNTER_BITS != 0 {
            self.millis = now.max(self.millis + 1);
            // The upper bit is free at first, so that the counter has room.
            self.count = u64::from_be_bytes(random) >> (64 - COUNTER_BITS + 1);
        }
        (self.millis, self.count)
    }
}

/// A UUIDv7 that is larger than every earlier one of this process.
fn ordered() -> Uuid {
    let Some([a, b, c, d, e, f, g, h, tail @ .., _, _, _, _]) = random() else {
        return Uuid::now_v7();
    };
    // tidy: allow(banned-calls) ids carry the time of the machine, whatever clock the store has
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let mut counter = COUNTER.lock().unwrap_or_else(PoisonError::into_inner);
    let (millis, count) = counter.next(now, [a, b, c, d, e, f, g, h]);
    drop(counter);
    // 12 bits of the counter are before the variant of the UUID and 30 bits after it.
    let [_, _, _, _, high @ ..] = ((count >> 30) << 16).to_be_bytes();
    let [_, _, _, _, low @ ..] = (count & 0x3fff_ffff).to_be_bytes();
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&high[..2]);
    bytes[2..6].copy_from_slice(&low);
    bytes[6..].copy_from_slice(&tail);
    uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}

impl Ids for SystemIds {
    fn op_id(&self) -> OpId {
        OpId(ordered())
    }

    fn attempt_id(&self) -> AttemptId {
        let drawn = random().map(|bytes| uuid::Builder::from_random_bytes(bytes).into_uuid());
        AttemptId(drawn.unwrap_or_else(Uuid::new_v4))
    }

    fn batch_id(&self) -> BatchId {
        BatchId(ordered())
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
    fn ids_of_all_threads_are_one_growing_series() {
        let draw = || -> Vec<OpId> { (0..10_000).map(|_| SystemIds.op_id()).collect() };
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(draw)).collect();
        let mut all = BTreeSet::new();
        for thread in threads {
            let ids = thread.join().expect("ids");
            assert!(ids.is_sorted_by(|a, b| a < b));
            assert!(ids.iter().all(|id| id.0.get_version_num() == 7));
            all.extend(ids);
        }
        assert_eq!(all.len(), 40_000, "no id was drawn twice");
        assert!(SystemIds.op_id() > *all.last().expect("ids"));
    }

    #[test]
    fn a_counter_outlives_its_millisecond_and_a_clock_that_goes_back() {
        let mut counter = Counter {
            millis: 0,
            count: 0,
        };
        assert_eq!(counter.next(5, [0; 8]), (5, 0));
        assert_eq!(counter.next(5, [9; 8]), (5, 1));
        assert_eq!(counter.next(3, [9; 8]), (5, 2), "the clock went back");
        counter.count = (1 << COUNTER_BITS) - 1;
        assert_eq!(counter.next(5, [0; 8]), (6, 0), "the counter is used up");
        let (_, first) = counter.next(7, [0xff; 8]);
        assert!(first < 1 << (COUNTER_BITS - 1), "it has room to count");
    }

    #[test]
    fn draws_differ_within_and_between_generators() {
        let (one, other) = (SystemRng::new(), SystemRng::new());
        let draws = (0..1_000).flat_map(|_| [one.next_u64(), other.next_u64()]);
        assert_eq!(draws.collect::<BTreeSet<_>>().len(), 2_000);
    }
}
