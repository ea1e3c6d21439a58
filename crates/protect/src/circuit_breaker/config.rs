//! When a breaker opens and how it closes.

use std::time::Duration;

use clinch_core::Invalid;

/// Maximum calls of a count window: one byte each, for every destination.
pub const WINDOW_CALLS_MAX: u32 = 100_000;
/// Maximum buckets of a time window: finer buckets make no noticeable difference.
pub const WINDOW_BUCKETS_MAX: u32 = 1_000;

/// The calls that a breaker judges by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// The last calls, this many, however old.
    Count(u32),
    /// The calls of the last `span`. They are forgotten bucket by bucket, so the window is between
    /// `span - span / buckets` and `span` long.
    Time {
        /// Length of the window.
        span: Duration,
        /// Number of steps in which the window slides.
        buckets: u32,
    },
}

/// When a [`Circuit`](crate::Circuit) opens and how it closes. The defaults are the
/// recommended values: half of the last 20 calls failed, open for 30 s, 3 trial calls.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitConfig {
    /// Opens at this fraction of failed calls, above 0 and up to 1.
    pub failure_rate: f64,
    /// Opens at this fraction of slow calls, above 0 and up to 1.
    pub slow_rate: f64,
    /// A call that took this long or longer is slow, whether it failed or not. It is judged when
    /// the call ends, so with a shorter timeout such calls are failures instead.
    pub slow: Duration,
    /// The calls that are judged.
    pub window: Window,
    /// The breaker does not open on fewer calls. Capped at the size of a count window.
    pub min_calls: u32,
    /// How long the breaker is open the first time.
    pub open: Duration,
    /// The open time doubles with every failed trial, up to this bound. It starts again when
    /// the breaker closes.
    pub open_max: Duration,
    /// Calls of one trial.
    ///
    /// A trial has no time limit of its own: every permit is given back when its call ends, so the
    /// trial ends with its slowest call.
    pub half_open: u32,
}

impl Default for CircuitConfig {
    fn default() -> Self {
        Self {
            failure_rate: 0.5,
            slow_rate: 1.0,
            slow: Duration::from_secs(3),
            window: Window::Count(20),
            min_calls: 10,
            open: Duration::from_secs(30),
            open_max: Duration::from_secs(5 * 60),
            half_open: 3,
        }
    }
}

impl CircuitConfig {
    /// Refuses a breaker that could never open, never close or never admit.
    pub fn validate(&self) -> Result<(), Invalid> {
        let refuse = |field, problem: &str| Err(Invalid::new(field, problem));
        let is_share = |rate: f64| rate > 0.0 && rate <= 1.0;
        if !is_share(self.failure_rate) {
            return refuse("failure_rate", "must be above 0 and at most 1");
        }
        if !is_share(self.slow_rate) {
            return refuse("slow_rate", "must be above 0 and at most 1");
        }
        if self.slow.is_zero() {
            return refuse("slow", "must be longer than 0, or every call is slow");
        }
        if self.min_calls == 0 {
            return refuse("min_calls", "must be at least 1");
        }
        if self.open.is_zero() {
            return refuse("open", "must be longer than 0");
        }
        if self.open_max < self.open {
            return refuse("open_max", "must not be shorter than open");
        }
        if self.half_open == 0 {
            return refuse("half_open", "must be at least 1, or it never closes again");
        }
        match self.window {
            Window::Count(calls) if calls == 0 || calls > WINDOW_CALLS_MAX => {
                refuse("window", "must hold between 1 and 100000 calls")
            }
            Window::Time { buckets, .. } if buckets == 0 || buckets > WINDOW_BUCKETS_MAX => {
                refuse("window", "must have between 1 and 1000 buckets")
            }
            Window::Time { span, buckets } if (span / buckets).is_zero() => {
                refuse("window", "must have buckets longer than 0")
            }
            _ => Ok(()),
        }
    }
}
