//! Errors and warnings that name the missing piece of a program.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clinch_core::{Error, ErrorKind};

/// `build` was called without a backend.
pub(crate) fn no_backend() -> Error {
    let message = "no backend was given: call Builder::backend, with \
                   Backend::open(\"sqlite://clinch.db\", \"store\").await? or, in a test, with \
                   Backend::memory()";
    Error::new(ErrorKind::Invalid, message)
}

/// The address is right, and this build has no adapter for it.
#[cfg_attr(
    all(
        feature = "sqlite",
        feature = "postgres",
        feature = "mysql",
        feature = "redis",
        feature = "nats"
    ),
    expect(dead_code, reason = "this build has every adapter")
)]
pub(crate) fn feature_is_off(feature: &str) -> Error {
    let message = format!(
        "this program was built without the feature {feature:?} of `clinch`; add it in Cargo.toml: \
         clinch = {{ …, features = [{feature:?}] }}"
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// The engine's error about a route that is not declared, with what declares it. Other errors stay
/// as they are.
pub(crate) fn advised(error: Error) -> Error {
    if error.context("code") != Some("unknown_route") {
        return error;
    }
    let named = |name| error.context(name).unwrap_or_default().to_owned();
    let message = format!(
        "{}; give this Clinch the route before build(): Builder::handle(&route, handler) if this \
         process makes its calls, Builder::remote(&route) if another process does",
        error.message()
    );
    Error::new(error.kind(), message)
        .with("code", "unknown_route")
        .with("domain", named("domain"))
        .with("event_type", named("event_type"))
}

/// Whether anything in this process runs what it accepts.
///
/// A process may only accept and leave the work to others, so a missing `run` is no error. But in a
/// process with handlers it is nearly always forgotten, and then nothing is ever tried again: an
/// operation that did not settle at once is reported, once.
#[derive(Debug)]
pub(crate) struct Runners {
    /// Handlers of this process: without any it is there to accept only.
    has_handlers: bool,
    is_started: AtomicBool,
    is_told: AtomicBool,
    /// Operations that were left for the runners.
    left: AtomicU64,
}

impl Runners {
    pub(crate) fn new(has_handlers: bool) -> Self {
        Self {
            has_handlers,
            is_started: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            left: AtomicU64::new(0),
        }
    }

    /// `run` or `pump` was called, or the program starts the runners one by one.
    pub(crate) fn start(&self) {
        self.is_started.store(true, Ordering::Relaxed);
    }

    /// Operations were accepted that the runners will settle. The runners may be started after it.
    pub(crate) fn leave(&self, operations: usize) {
        let operations = u64::try_from(operations).unwrap_or(u64::MAX);
        self.left.fetch_add(operations, Ordering::Relaxed);
    }

    /// Somebody waited in vain, or looks at the gauges: if nothing runs, this is the moment to say
    /// so.
    pub(crate) fn check(&self) {
        let is_missing = self.has_handlers
            && self.left.load(Ordering::Relaxed) > 0
            && !self.is_started.load(Ordering::Relaxed);
        if is_missing && !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "clinch",
                code = "not_running",
                "operations wait, and this process runs none: call Clinch::run in a task of its \
                 own, or Clinch::pump in your own loop; without it nothing is retried, recovered \
                 or taken from the queue here. If another process runs the handlers, declare the \
                 routes here with Builder::remote"
            );
        }
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.check();
    }
}
