//! The destinations that this process calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clinch_core::Domain;
use clinch_core::policy::Routes;
use clinch_core::ports::{Gate, Reason, Room, Topic};

use super::claims::Rest;
use super::reservation::Reservations;
use crate::handlers::{Handler, Handlers, topic};

/// The routes that this process executes for one destination.
pub(crate) struct Destination {
    pub gate: Arc<dyn Gate>,
    pub domains: Vec<Domain>,
    /// The topics of its hints.
    pub topics: Vec<Topic>,
    pub routes: Arc<Routes>,
    pub rest: Rest,
    pub reservations: Reservations,
    /// More hints for this destination may be waiting on the bus.
    pub busy: AtomicBool,
    /// When the destination was last seen closed by its breaker, its provider or its rate limit, in
    /// milliseconds of the monotonic clock.
    closed_at: AtomicU64,
}

impl Destination {
    /// The routes that this process executes, by destination. A domain whose event types go to
    /// several destinations is in each of them.
    pub(super) fn all(handlers: &Handlers) -> Vec<Self> {
        let runnable = |handler: &&Handler| handler.executor.is_some();
        let mut gates = BTreeMap::new();
        let declared = handlers.by_route.iter().map(|(_, handler)| handler);
        for handler in declared.filter(runnable) {
            let gate = handler.gate.clone();
            gates.entry(gate.destination().to_owned()).or_insert(gate);
        }
        let one = |(destination, gate): (String, Arc<dyn Gate>)| {
            let ours = |h: &Handler| h.executor.is_some() && h.gate.destination() == destination;
            let routes = handlers.those(ours);
            let mut domains: Vec<_> = routes.iter().map(|(domain, ..)| domain.clone()).collect();
            domains.dedup();
            let at = |domain: &Domain| topic(domain, &*gate);
            Self {
                topics: domains.iter().map(at).collect(),
                gate,
                domains,
                routes: Arc::new(routes),
                rest: Rest::default(),
                reservations: Reservations::default(),
                busy: AtomicBool::new(false),
                closed_at: AtomicU64::new(0),
            }
        };
        gates.into_iter().map(one).collect()
    }

    /// Records that the destination takes no call now, and why. While it waits for its provider,
    /// its work does not count as late.
    pub(crate) fn note_closed(&self, room: Room, now: Duration) {
        if room.reason != Some(Reason::BulkheadFull) {
            let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            self.closed_at.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// When the destination was last seen waiting for its provider, on the monotonic clock.
    pub(crate) fn closed_until(&self) -> Duration {
        Duration::from_millis(self.closed_at.load(Ordering::Relaxed))
    }
}
