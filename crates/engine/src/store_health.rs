//! Whether the store answers: one log line when it stops, one when it is back, and a gauge.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clinch_core::ports::{Clock, Level, Meter, Tags, Tracer};
use clinch_core::{Error, ErrorKind};

use crate::ports::Ports;

/// Calls in a row without an answer before the store counts as unreachable: one may be a deadlock
/// or a connection that the server closed.
const FAILURES_MIN: u32 = 3;

/// 1 while the store answers.
const UP: &str = "orchestrator.store.up";

/// Watches the results of every call to the store.
pub(crate) struct StoreHealth {
    clock: Arc<dyn Clock>,
    meter: Arc<dyn Meter>,
    tracer: Arc<dyn Tracer>,
    /// Calls in a row without an answer: zero almost always, so that a call that was answered costs
    /// one read.
    failures: AtomicU32,
    /// When the first of them failed.
    since: Mutex<Option<Duration>>,
}

impl StoreHealth {
    pub(crate) fn new(ports: &Ports) -> Self {
        ports.meter.set(UP, &[], 1.0);
        Self {
            clock: ports.clock.clone(),
            meter: ports.meter.clone(),
            tracer: ports.tracer.clone(),
            failures: AtomicU32::new(0),
            since: Mutex::new(None),
        }
    }

    /// Notes the end of a call. An error that is an answer, such as a conflict, shows that the
    /// store is there.
    pub(crate) fn note(&self, error: Option<&Error>) {
        let unanswered =
            |error: &Error| matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Ambiguous);
        match error.is_some_and(unanswered) {
            true => self.failed(),
            false if self.failures.load(Ordering::Relaxed) == 0 => {}
            false => self.answered(),
        }
    }

    fn failed(&self) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        let first = *since.get_or_insert(now);
        let failures = self.failures.load(Ordering::Relaxed).saturating_add(1);
        self.failures.store(failures, Ordering::Relaxed);
        drop(since);
        if failures == FAILURES_MIN {
            self.meter.set(UP, &[], 0.0);
            self.tell(
                Level::Error,
                "the store is unreachable",
                now.saturating_sub(first),
            );
        }
    }

    fn answered(&self) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let first = since.take();
        let failures = self.failures.swap(0, Ordering::Relaxed);
        drop(since);
        if let Some(first) = first.filter(|_| failures >= FAILURES_MIN) {
            self.meter.set(UP, &[], 1.0);
            let lasted = self.clock.monotonic().saturating_sub(first);
            self.tell(Level::Info, "the store is back", lasted);
        }
    }

    fn tell(&self, level: Level, message: &'static str, age: Duration) {
        let tags = Tags {
            age: Some(age),
            ..Tags::default()
        };
        self.tracer.log(level, message, &tags);
    }
}
