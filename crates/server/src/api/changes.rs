//! Operations that the engine of this process changes, for the event stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clinch_core::OpId;
use clinch_core::ports::{Level, Tags, Tracer, Work};
use tokio::sync::Notify;

/// Changed operations to keep for the stream; past this number the stream is told that it lagged.
const WAITING_MAX: usize = 1_024;

/// The ids of operations that have just changed. Without listeners a change costs one look at a
/// flag.
#[derive(Clone, Default)]
pub(crate) struct Changes(Arc<Inner>);

#[derive(Default)]
struct Inner {
    is_heard: AtomicBool,
    waiting: Mutex<Waiting>,
    any: Notify,
}

#[derive(Default)]
struct Waiting {
    ops: Vec<OpId>,
    overflown: bool,
}

impl Changes {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        let waiting = self.0.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listen(&self, is_heard: bool) {
        self.0.is_heard.store(is_heard, Ordering::SeqCst);
    }

    /// Returns when an operation has changed.
    pub(super) async fn any(&self) {
        self.0.any.notified().await;
    }

    /// The operations that changed since the last call; `None`: more than are kept.
    pub(super) fn take(&self) -> Option<Vec<OpId>> {
        let waiting = std::mem::take(&mut *self.lock());
        (!waiting.overflown).then_some(waiting.ops)
    }

    fn put(&self, op_id: OpId) {
        let mut waiting = self.lock();
        match waiting.ops.len() < WAITING_MAX {
            true => waiting.ops.push(op_id),
            false => waiting.overflown = true,
        }
        drop(waiting);
        self.0.any.notify_one();
    }
}

impl Tracer for Changes {
    fn context(&self) -> Option<String> {
        None
    }

    /// The begin of an attempt is reported before it executes; the other stages change the row
    /// themselves.
    fn within<'a>(&self, stage: &'static str, tags: &Tags<'_>, work: Work<'a>) -> Work<'a> {
        let is_heard = self.0.is_heard.load(Ordering::SeqCst);
        let Some(op_id) = tags.op_id.filter(|_| is_heard) else {
            return work;
        };
        let this = self.clone();
        match stage {
            "execute" => {
                this.put(op_id);
                work
            }
            "accept" | "settle" | "probe" => Box::pin(async move {
                work.await;
                this.put(op_id);
            }),
            _ => work,
        }
    }

    fn log(&self, _level: Level, _message: &'static str, _tags: &Tags<'_>) {}
}
