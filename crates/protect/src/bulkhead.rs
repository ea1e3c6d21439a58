//! Caps how many calls run at a destination at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Invalid;
use clinch_core::ports::{Admission, Bulkhead, Clock, Permit, Reason, Rejection, Room, Verdict};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum concurrent calls to one destination: far more than one process can have open.
pub const CONCURRENT_MAX: u32 = 65_536;

/// The number of slots, and how many callers may wait for one. Defaults: 16 slots (recommended are
/// 8 to 64), and no waiting: the engine claims no more than there is room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkheadConfig {
    /// Concurrent calls.
    pub max_concurrent: u32,
    /// Longest wait for a slot. Zero: no waiting.
    pub wait_max: Duration,
    /// Callers that may wait at the same time.
    pub waiters_max: u32,
    /// How long a rejected caller should wait before it tries again.
    pub after: Duration,
}

impl Default for BulkheadConfig {
    fn default() -> Self {
        Self {
            max_concurrent: 16,
            wait_max: Duration::ZERO,
            waiters_max: 64,
            after: Duration::from_millis(100),
        }
    }
}

impl BulkheadConfig {
    /// Refuses a bulkhead without slots.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.max_concurrent == 0 || self.max_concurrent > CONCURRENT_MAX {
            let problem = format!("must be between 1 and {CONCURRENT_MAX}");
            return Err(Invalid::new("concurrency", problem));
        }
        Ok(())
    }
}

/// Slots of one destination in one process, given out first come, first served.
///
/// - Both the wait and the number of waiters are bounded; beyond either bound the caller is
///   rejected.
/// - A caller that stops waiting does not affect the order of the others.
pub struct Slots {
    config: BulkheadConfig,
    slots: Arc<Semaphore>,
    waiters: AtomicUsize,
    clock: Arc<dyn Clock>,
}

impl Slots {
    /// A bulkhead with all its slots free.
    pub fn new(config: BulkheadConfig, clock: Arc<dyn Clock>) -> Result<Self, Invalid> {
        config.validate()?;
        Ok(Self {
            slots: Arc::new(Semaphore::new(config.max_concurrent as usize)),
            waiters: AtomicUsize::new(0),
            config,
            clock,
        })
    }

    async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        let _waiting = Waiting::begin(&self.waiters, self.config.waiters_max as usize)?;
        tokio::select! {
            biased;
            slot = Arc::clone(&self.slots).acquire_owned() => slot.ok(),
            () = self.clock.sleep(self.config.wait_max) => None,
        }
    }
}

#[async_trait]
impl Bulkhead for Slots {
    async fn acquire(&self) -> Admission {
        // Freed slots go to the waiters first, so this call overtakes no waiter.
        let slot = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => Some(slot),
            Err(_) if self.config.wait_max.is_zero() => None,
            Err(_) => self.wait().await,
        };
        match slot {
            Some(slot) => Ok(Box::new(Slot { _slot: slot })),
            None => Err(Rejection {
                reason: Reason::BulkheadFull,
                after: self.config.after,
            }),
        }
    }

    fn room(&self) -> Room {
        Room {
            calls: self.slots.available_permits(),
            reason: Some(Reason::BulkheadFull),
            again_in: None,
        }
    }
}

/// One slot in use.
struct Slot {
    _slot: OwnedSemaphorePermit,
}

impl Permit for Slot {
    fn report(self: Box<Self>, _verdict: Verdict) {}
}

/// One waiter. Dropping it leaves the queue.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(waiters: &'a AtomicUsize, max: usize) -> Option<Self> {
        let one_more = |now: usize| (now < max).then_some(now + 1);
        waiters
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
            .ok()
            .map(|_| Self(waiters))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
