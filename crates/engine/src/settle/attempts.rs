//! The attempts that run in this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clinch_core::OpId;

/// Fences and cancel flags of the attempts that run here.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<BTreeMap<OpId, (u64, Arc<AtomicBool>)>>);

impl Attempts {
    /// Notes that an attempt runs here. The returned flag is set when the attempt is canceled.
    pub(crate) fn begin(&self, op_id: OpId, fence: u64) -> Arc<AtomicBool> {
        let canceled = Arc::<AtomicBool>::default();
        self.lock().insert(op_id, (fence, canceled.clone()));
        canceled
    }

    /// Whether the attempt runs in this process, or its answer is being settled here.
    pub(crate) fn has(&self, op_id: OpId, fence: u64) -> bool {
        let running = self.lock();
        running.get(&op_id).is_some_and(|(own, _)| *own == fence)
    }

    /// Forgets an attempt, unless a later attempt of the same operation has replaced it.
    pub(crate) fn end(&self, op_id: OpId, canceled: &Arc<AtomicBool>) {
        let mut running = self.lock();
        let is_ours = |(_, flag): &(u64, Arc<AtomicBool>)| Arc::ptr_eq(flag, canceled);
        if running.get(&op_id).is_some_and(is_ours) {
            running.remove(&op_id);
        }
    }

    /// Tells an attempt that no further call is wanted.
    pub(crate) fn cancel(&self, op_id: OpId) {
        if let Some((_, canceled)) = self.lock().get(&op_id) {
            canceled.store(true, Ordering::SeqCst);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OpId, (u64, Arc<AtomicBool>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
