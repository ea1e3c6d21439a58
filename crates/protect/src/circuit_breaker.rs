//! Stops calling a destination that keeps failing.
//!
//! The semantics are resilience4j's: a sliding window of outcomes with running totals, a failure
//! rate and a slow-call rate, a minimum number of calls, and a trial of a few calls before the
//! breaker closes. The state machine is pure (`core.rs`); this module adds the lock and the clock.
//!
//! - Every change of state raises an epoch. A permit carries the epoch in which it was given, and
//!   its report counts only in that epoch: a call that was sent before the breaker opened neither
//!   fails nor passes the trial that runs when the call ends.
//! - A permit that is dropped without a report counts as a failure that took as long as the permit
//!   was held: it is a call that was cut off at its deadline. Clinch's own rejections report
//!   [`Verdict::Ignored`] and do not count.
//! - One breaker sees the calls of one process. Nodes that should open together tell each other:
//!   [`CircuitBreaker::watch`] says when one opens, [`CircuitBreaker::open`] opens the others.

mod config;
mod core;
mod window;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clinch_core::Invalid;
use clinch_core::ports::{
    Admission, CircuitBreaker, CircuitState, CircuitStatus, CircuitWatcher, Clock, Opened, Permit,
    Room, Verdict,
};

use self::core::Core;
use crate::sync::{Mutex, lock};

pub use config::{CircuitConfig, WINDOW_BUCKETS_MAX, WINDOW_CALLS_MAX, Window};

/// A breaker with its own window. Cheap to clone; clones share the same breaker.
#[derive(Clone)]
pub struct Circuit {
    shared: Arc<Shared>,
}

struct Shared {
    core: Mutex<Core>,
    clock: Arc<dyn Clock>,
    watcher: OnceLock<CircuitWatcher>,
}

impl Shared {
    /// Reads the time under the lock, so that it never steps back for the state machine.
    fn with<T>(&self, step: impl FnOnce(&mut Core, Duration) -> T) -> T {
        let mut core = lock(&self.core);
        let now = self.clock.monotonic();
        let before = core.epoch();
        let done = step(&mut core, now);
        let change = (core.epoch() != before).then(|| core.change(now));
        drop(core);
        if let (Some(change), Some(watcher)) = (change, self.watcher.get()) {
            watcher(change);
        }
        done
    }
}

impl Circuit {
    /// A closed breaker.
    pub fn new(config: CircuitConfig, clock: Arc<dyn Clock>) -> Result<Self, Invalid> {
        config.validate()?;
        let core = Mutex::new(Core::new(config));
        let shared = Arc::new(Shared {
            core,
            clock,
            watcher: OnceLock::new(),
        });
        Ok(Self { shared })
    }
}

impl CircuitBreaker for Circuit {
    fn try_acquire(&self) -> Admission {
        let (epoch, since) = self
            .shared
            .with(|core, now| core.try_acquire(now).map(|epoch| (epoch, now)))?;
        Ok(Box::new(Pass {
            shared: Arc::clone(&self.shared),
            epoch,
            since,
            has_reported: false,
        }))
    }

    fn state(&self) -> CircuitState {
        self.shared.with(|core, now| core.state(now))
    }

    fn room(&self) -> Room {
        self.shared.with(|core, now| core.room(now))
    }

    fn status(&self) -> CircuitStatus {
        self.shared.with(|core, now| core.status(now))
    }

    fn reset(&self) -> bool {
        self.shared.with(|core, _| core.reset());
        true
    }

    fn open(&self, opened: Opened) -> bool {
        self.shared.with(|core, now| core.open_as_told(opened, now));
        true
    }

    fn watch(&self, watcher: CircuitWatcher) {
        // The first watcher stays.
        let _ = self.shared.watcher.set(watcher);
    }
}

/// The permit of one call.
struct Pass {
    shared: Arc<Shared>,
    epoch: u64,
    since: Duration,
    has_reported: bool,
}

impl Permit for Pass {
    fn report(mut self: Box<Self>, verdict: Verdict) {
        self.has_reported = true;
        let epoch = self.epoch;
        self.shared
            .with(|core, now| core.report(epoch, verdict, now));
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.has_reported {
            return;
        }
        let (epoch, since) = (self.epoch, self.since);
        self.shared.with(|core, now| {
            let took = now.saturating_sub(since);
            core.report(epoch, Verdict::Failed { took }, now);
        });
    }
}
