//! The attempts that run in this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clinch_core::OpId;
use clinch_core::ports::{Changed, Operation};

/// A settle applies two events, the answer and its finalizing, and each raises the row's version by
/// one.
const EVENTS_OF_A_SETTLE: u64 = 2;

/// The attempts that run here.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<BTreeMap<OpId, Running>>);

struct Running {
    /// As its begin left it.
    row: Arc<Operation>,
    canceled: Arc<AtomicBool>,
    /// Its answer is on the way to the store.
    settling: bool,
}

impl Attempts {
    /// Notes that an attempt runs here. The returned flag is set when the attempt is canceled.
    pub(crate) fn begin(&self, row: Arc<Operation>) -> Arc<AtomicBool> {
        let canceled = Arc::<AtomicBool>::default();
        let flag = canceled.clone();
        let running = Running {
            canceled,
            settling: false,
            row,
        };
        self.lock().insert(running.row.op_id, running);
        flag
    }

    /// Whether the attempt runs in this process, or its answer is being settled here.
    pub(crate) fn has(&self, op_id: OpId, fence: u64) -> bool {
        let running = self.lock();
        running
            .get(&op_id)
            .is_some_and(|one| one.row.state.fence == fence)
    }

    /// The attempt's answer is on the way to the store from now on.
    pub(crate) fn settle(&self, op_id: OpId, fence: u64) {
        if let Some(running) = self.lock().get_mut(&op_id) {
            running.settling |= running.row.state.fence == fence;
        }
    }

    /// Whether the answer of an attempt of this process is on the way to the store.
    pub(crate) fn is_settling(&self, op_id: OpId) -> bool {
        self.lock().get(&op_id).is_some_and(|one| one.settling)
    }

    /// The row of an attempt that runs here, as its begin left it.
    pub(crate) fn row(&self, op_id: OpId) -> Option<Arc<Operation>> {
        self.lock().get(&op_id).map(|one| one.row.clone())
    }

    /// The row after this change, if nothing else changed the row since the begin: its version says
    /// so. `None`: read the row.
    pub(crate) fn settled_row(&self, op_id: OpId, changed: &Changed) -> Option<Operation> {
        let running = self.lock();
        let begun = &running.get(&op_id)?.row;
        let expected = begun.state.version + EVENTS_OF_A_SETTLE;
        let known = changed.state.is_terminal() && changed.state.version == expected;
        known.then(|| Operation {
            state: changed.state.clone(),
            result: changed.result.clone(),
            finished_at: changed.finished_at,
            ..Operation::clone(begun)
        })
    }

    /// Forgets an attempt, unless a later attempt of the same operation has replaced it.
    pub(crate) fn end(&self, op_id: OpId, canceled: &Arc<AtomicBool>) {
        let mut running = self.lock();
        let is_ours = |one: &Running| Arc::ptr_eq(&one.canceled, canceled);
        if running.get(&op_id).is_some_and(is_ours) {
            running.remove(&op_id);
        }
    }

    /// Tells an attempt that no further call is wanted.
    pub(crate) fn cancel(&self, op_id: OpId) {
        if let Some(running) = self.lock().get(&op_id) {
            running.canceled.store(true, Ordering::SeqCst);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OpId, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
