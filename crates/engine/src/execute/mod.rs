//! Runs attempts, in this process and by remote workers.

mod attempt;
mod claims;
mod destination;
mod held_leases;
mod hints;
mod leases;
mod remote;
mod reservation;
mod worker;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use clinch_core::policy::Routes;
use tokio::sync::Semaphore;

use crate::settle::Settler;
pub(crate) use attempt::{Begun, InlineRoom};
use claims::AskSize;
pub(crate) use destination::Destination;
use held_leases::Leases;
pub use remote::{LeaseRequest, Leased, LeasedAttempt, Report, Reported};
pub(crate) use reservation::Reservation;

/// Runs attempts, in this process and by remote workers, and settles them.
pub(crate) struct Workers {
    settler: Arc<Settler>,
    /// Routes with an executor in this process. It begins no attempt of other routes.
    runnable: Arc<Routes>,
    /// The same routes, by destination.
    pub destinations: Vec<Destination>,
    /// Which destination is asked first next time.
    turn: AtomicUsize,
    /// The attempts that remote workers hold.
    leases: Leases,
    /// How many deliveries the next look asks for.
    ask_size: AskSize,
    /// Permits for attempts from the queue.
    queue_permits: Arc<Semaphore>,
    /// Permits for attempts that begin with their accept.
    inline_permits: Arc<Semaphore>,
}

impl Deref for Workers {
    type Target = Settler;
    fn deref(&self) -> &Settler {
        &self.settler
    }
}

impl Workers {
    pub(crate) fn new(settler: Arc<Settler>) -> Self {
        let concurrency = settler.config.concurrency;
        let destinations = Destination::all(&settler.handlers);
        Self {
            ask_size: AskSize::new(destinations.len(), settler.config.batch),
            runnable: Arc::new(settler.handlers.runnable()),
            destinations,
            turn: AtomicUsize::new(0),
            leases: Leases::default(),
            queue_permits: Arc::new(Semaphore::new(concurrency)),
            inline_permits: Arc::new(Semaphore::new(concurrency)),
            settler,
        }
    }

    /// Returns when every permit is back, so that no attempt runs.
    pub(crate) async fn attempts_done(&self) {
        let all = u32::try_from(self.config.concurrency).unwrap_or(u32::MAX);
        let _queue = self.queue_permits.acquire_many(all).await;
        let _inline = self.inline_permits.acquire_many(all).await;
    }
}
