//! Time, chance and news, injected so that a seeded simulation runs the real engine.

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;

use crate::{AttemptId, BatchId, Domain, OpId, Timestamp};

/// This machine's clocks.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Wall clock. May step; nothing that matters trusts it.
    fn now(&self) -> Timestamp;

    /// Never steps back; only differences mean anything.
    fn monotonic(&self) -> Duration;

    /// Returns once this much monotonic time has passed.
    ///
    /// - Zero lets others run and returns at once.
    async fn sleep(&self, duration: Duration);
}

/// Runs tasks in the background.
pub trait Spawner: Send + Sync {
    /// Starts a task. It ends with its process, or when the process is told to stop and its
    /// work is done.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// Fresh ids.
pub trait Ids: Send + Sync {
    /// For a new operation; ordered by time where that helps the store.
    fn op_id(&self) -> OpId;
    /// For a begin. Random and unguessable: lease tokens are drawn as well.
    fn attempt_id(&self) -> AttemptId;
    /// For a batch.
    fn batch_id(&self) -> BatchId;
}

/// Chance. Not for secrets.
pub trait Rng: Send + Sync {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}

/// News from the store or the bus. A notice is a hint: one that is lost costs latency, and
/// its failure never fails a write.
#[async_trait]
pub trait Notices: Send + Sync {
    /// Waits up to `wait` for news since `seen` and returns it, with the next `seen`.
    ///
    /// - Start with `seen` 0: everything from the call on.
    /// - Woken by the commit that makes the news, in this process and, where
    ///   [`Notices::reaches_other_processes`], in others; it does not poll, but for a fallback
    ///   that covers lost notifications.
    /// - After falling far behind it says [`Notice::Lagged`] once instead of all it missed.
    async fn news(&self, seen: u64, wait: Duration) -> crate::Result<(Vec<Notice>, u64)>;

    /// False: a commit makes news in its own process only. Then every process announces what
    /// it committed, instead of leaving that to those that recover.
    fn reaches_other_processes(&self) -> bool {
        true
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Notice {
    /// A row of this domain is due for a begin, now or at a time that was not known before.
    Due(Domain),
    /// This operation is terminal.
    Settled(OpId),
    /// A row needs recovery at a time that was not known before.
    Recovery,
    /// Some news was dropped: look at everything.
    Lagged,
}
