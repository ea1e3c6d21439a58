//! Metrics, traces and logs of the engine. Nothing here can carry a payload: messages and metric
//! names are constants, and keys reach a tracer only as [`Keys`], so that it can redact them.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::{Domain, EventType, Keys, OpId, Timestamp};

/// Labels of a metric: domain, event_type, outcome, destination, state. Never keys or ids.
pub type MetricLabels<'a> = &'a [(&'static str, &'a str)];

/// Metrics, by the names of the metrics list.
pub trait Meter: Send + Sync {
    /// Adds to a counter.
    fn add(&self, counter: &'static str, labels: MetricLabels<'_>, count: u64);
    /// Adds a duration to a histogram.
    fn record(&self, histogram: &'static str, labels: MetricLabels<'_>, value: Duration);
    /// Sets a gauge.
    fn set(&self, gauge: &'static str, labels: MetricLabels<'_>, value: f64);
}

/// Work that a tracer runs within a span.
pub type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Follows operations through their stages, across processes.
pub trait Tracer: Send + Sync {
    /// The W3C `traceparent` of a new operation: the caller's own trace, or a fresh one.
    /// `None`: its stages are not connected by a trace.
    fn context(&self) -> Option<String>;

    /// Runs one stage of an operation within a span. Log lines of the stage belong to the span.
    fn within<'a>(&self, stage: &'static str, tags: &Tags<'_>, work: Work<'a>) -> Work<'a>;

    /// Writes a log line.
    fn log(&self, level: Level, message: &'static str, tags: &Tags<'_>);
}

/// The standard tags (CORE-14), as far as they are known.
#[derive(Clone, Copy, Default)]
pub struct Tags<'a> {
    /// `op.id`.
    pub op_id: Option<OpId>,
    /// `domain`, `event.type`, `biz.key`, `idem.key`; the last two are redacted by default.
    pub keys: Option<&'a Keys>,
    /// `domain`, for a line about a domain rather than an operation.
    pub domain: Option<&'a Domain>,
    /// `destination`.
    pub destination: Option<&'a str>,
    /// The operation's `traceparent`.
    pub trace: Option<&'a str>,
    /// `attempt`.
    pub attempt: Option<u32>,
    /// `latency.ms`.
    pub latency: Option<Duration>,
    /// `outcome`: ok, retry, fail, not_called.
    pub outcome: Option<&'static str>,
    /// `code`: the reason. A code of Clinch, or one that [`safe_code`](crate::safe_code) let through; never text of a
    /// provider or a handler.
    pub code: Option<&'a str>,
    /// `event.type`, for a line about an operation of which the keys are not known.
    pub event_type: Option<&'a EventType>,
    /// `until`: when the condition may end.
    pub until: Option<Timestamp>,
    /// `failure.rate`: the share of calls that failed, from 0 to 1.
    pub failure_rate: Option<f64>,
    /// What the stage reports when it ends; a tracer reads it after the work.
    pub end: Option<&'a Arc<StageEnd>>,
    /// `count`: number of items.
    pub count: Option<usize>,
    /// `age.ms`: how long something has waited.
    pub age: Option<Duration>,
}

impl Tags<'_> {
    /// Tags of an operation of which only the id is known.
    pub fn of(op_id: OpId) -> Self {
        Self {
            op_id: Some(op_id),
            ..Self::default()
        }
    }
}

/// How a stage ended. The work sets it, and the tracer reads it when the work is done.
#[derive(Debug, Default)]
pub struct StageEnd {
    outcome: OnceLock<&'static str>,
    code: OnceLock<String>,
}

impl StageEnd {
    /// Sets the outcome, and the code if there is one. The first call counts.
    pub fn set(&self, outcome: &'static str, code: Option<&str>) {
        let _ = self.outcome.set(outcome);
        if let Some(code) = code {
            let _ = self.code.set(code.to_owned());
        }
    }

    /// `outcome`.
    pub fn outcome(&self) -> Option<&'static str> {
        self.outcome.get().copied()
    }

    /// `code`.
    pub fn code(&self) -> Option<&str> {
        self.code.get().map(String::as_str)
    }
}

/// The importance of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// For debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Not as planned, but handled.
    Warn,
    /// An operator should look.
    Error,
}

/// Records nothing. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Untold;

impl Meter for Untold {
    fn add(&self, _counter: &'static str, _labels: MetricLabels<'_>, _count: u64) {}
    fn record(&self, _histogram: &'static str, _labels: MetricLabels<'_>, _value: Duration) {}
    fn set(&self, _gauge: &'static str, _labels: MetricLabels<'_>, _value: f64) {}
}

impl Tracer for Untold {
    fn context(&self) -> Option<String> {
        None
    }
    fn within<'a>(&self, _stage: &'static str, _tags: &Tags<'_>, work: Work<'a>) -> Work<'a> {
        work
    }
    fn log(&self, _level: Level, _message: &'static str, _tags: &Tags<'_>) {}
}

/// A W3C `traceparent` of version 00: `00-<32 hex>-<16 hex>-<2 hex>`, neither id all zeros.
pub fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, span, flags] = parts.as_slice() else {
        return false;
    };
    let hex = |part: &str, digits: usize| {
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        part.len() == digits && part.chars().all(is_hex)
    };
    let zero = |part: &str| part.chars().all(|c| c == '0');
    let shape = *version == "00" && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    shape && !zero(trace) && !zero(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_has_its_shape() {
        let right = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(is_traceparent(right));
        for wrong in [
            "",
            "00-0-0-01",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        ] {
            assert!(!is_traceparent(wrong), "{wrong}");
        }
    }
}
