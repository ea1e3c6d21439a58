//! Metrics, spans and logs: translates the engine's reports for the `metrics` and `tracing` crates.
//!
//! Metrics go to the `metrics` crate and cost nothing without a recorder. Spans and log lines go to
//! the `tracing` crate under the target `clinch` and cost next to nothing without a subscriber.
//! Lines consist of constants and the standard tags (CORE-14); payloads, results and texts of a
//! provider never reach them.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Clock, Level, Meter, MetricLabels, Tags, Tracer, Work};
use clinch_core::{Keys, Timestamp};
use clinch_system::{SystemClock, SystemRng};
use metrics::Label;
use sha2::{Digest, Sha256};
use tracing::instrument::Instrument;

/// How biz_key and idem_key are shown in logs and spans.
///
/// ```
/// use clinch::types::{ShownKeys, Telemetry};
///
/// assert_eq!(ShownKeys::default(), ShownKeys::Hashed);
/// let plain = Telemetry::default().keys(ShownKeys::Plain);
/// # let _ = plain;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShownKeys {
    /// As eight hex digits of their hash, so that lines about the same key can be found. A reader
    /// who guesses a key can confirm the guess, so keys from a small set should be hidden. The
    /// default.
    #[default]
    Hashed,
    /// As they are. Only if they contain no personal data.
    Plain,
    /// Not shown.
    Hidden,
}

/// What is counted, traced and logged, and how.
///
/// ```
/// use clinch::types::{ShownKeys, Telemetry};
///
/// let telemetry = Telemetry::default()
///     .keys(ShownKeys::Hidden)
///     // Operations are part of the caller's trace. A program with OpenTelemetry asks its current
///     // context, and sets the parent of the span.
///     .propagate(
///         || Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
///         |span, parent| eprintln!("{:?} continues {parent}", span.id()),
///     );
/// # let _ = telemetry;
/// ```
#[derive(Default)]
pub struct Telemetry {
    keys: ShownKeys,
    rng: SystemRng,
    /// Measures spans; the engine's clock may be a test's.
    clock: Arc<SystemClock>,
    current: Option<Box<Current>>,
    link: Option<Box<Link>>,
    also: Vec<(Arc<dyn Meter>, Arc<dyn Tracer>)>,
}

/// Returns the caller's own `traceparent`.
type Current = dyn Fn() -> Option<String> + Send + Sync;
/// Makes a span the child of a `traceparent`.
type Link = dyn Fn(&tracing::Span, &str) + Send + Sync;

impl Telemetry {
    /// Sets how keys are shown.
    #[must_use]
    pub fn keys(mut self, keys: ShownKeys) -> Self {
        self.keys = keys;
        self
    }

    /// Connects to a tracing system: `current` returns the caller's own W3C `traceparent`, `link`
    /// makes a span the child of one. Without it each operation has a fresh trace, whose id is the
    /// field `trace.id` of its spans in every process.
    #[must_use]
    pub fn propagate(
        mut self,
        current: impl Fn() -> Option<String> + Send + Sync + 'static,
        link: impl Fn(&tracing::Span, &str) + Send + Sync + 'static,
    ) -> Self {
        self.current = Some(Box::new(current));
        self.link = Some(Box::new(link));
        self
    }

    /// Also reports everything to these, for example an exporter.
    #[must_use]
    pub fn also(mut self, meter: Arc<dyn Meter>, tracer: Arc<dyn Tracer>) -> Self {
        self.also.push((meter, tracer));
        self
    }

    fn shown(&self, key: &str) -> Option<String> {
        match self.keys {
            ShownKeys::Plain => Some(key.to_owned()),
            ShownKeys::Hidden => None,
            ShownKeys::Hashed => {
                let hash = Sha256::digest(key.as_bytes());
                let digits = hash.iter().take(4).map(|byte| format!("{byte:02x}"));
                Some(digits.collect())
            }
        }
    }

    fn fields(&self, tags: &Tags<'_>) -> Fields {
        let name = |pick: fn(&Keys) -> &str| tags.keys.map(|keys| pick(keys).to_owned());
        let key = |pick: fn(&Keys) -> &str| tags.keys.and_then(|keys| self.shown(pick(keys)));
        Fields {
            op_id: tags.op_id.map(|op_id| op_id.to_string()),
            domain: tags
                .domain
                .map(|domain| domain.as_str().to_owned())
                .or_else(|| name(|keys| keys.domain.as_str())),
            event_type: tags
                .event_type
                .map(|event_type| event_type.as_str().to_owned())
                .or_else(|| name(|keys| keys.event_type.as_str())),
            biz_key: key(|keys| keys.biz_key.as_str()),
            idem_key: key(|keys| keys.idem_key.as_str()),
            trace_id: tags.trace.and_then(trace_id).map(str::to_owned),
            latency_ms: tags.latency.map(|latency| latency.as_secs_f64() * 1e3),
            age_ms: tags.age.map(|age| age.as_secs_f64() * 1e3),
            until: tags.until.map(time_of_day),
        }
    }
}

/// Tags in the form in which they are shown.
struct Fields {
    op_id: Option<String>,
    domain: Option<String>,
    event_type: Option<String>,
    biz_key: Option<String>,
    idem_key: Option<String>,
    trace_id: Option<String>,
    latency_ms: Option<f64>,
    age_ms: Option<f64>,
    until: Option<String>,
}

impl Tracer for Telemetry {
    fn context(&self) -> Option<String> {
        let current = self.current.as_ref().and_then(|current| current());
        Some(current.unwrap_or_else(|| {
            let (high, low) = (self.rng.next_u64(), self.rng.next_u64());
            // An id of all zeros would not be valid.
            let span = self.rng.next_u64() | 1;
            format!("00-{:016x}{:016x}-{span:016x}-01", high | 1, low)
        }))
    }

    fn within<'a>(&self, stage: &'static str, tags: &Tags<'_>, work: Work<'a>) -> Work<'a> {
        let told = self.also.iter();
        let work = told.fold(work, |work, (_, tracer)| tracer.within(stage, tags, work));
        let enabled = tracing::span_enabled!(target: "clinch", tracing::Level::INFO);
        if !enabled && self.link.is_none() {
            return work;
        }
        let fields = self.fields(tags);
        let span = tracing::info_span!(
            target: "clinch",
            "operation",
            stage,
            op.id = fields.op_id,
            domain = fields.domain,
            event.type = fields.event_type,
            biz.key = fields.biz_key,
            idem.key = fields.idem_key,
            attempt = tags.attempt,
            destination = tags.destination,
            latency.ms = tracing::field::Empty,
            outcome = tracing::field::Empty,
            code = tracing::field::Empty,
            trace.id = fields.trace_id,
        );
        if let Some(outcome) = tags.outcome {
            span.record("outcome", outcome);
        }
        if let (Some(link), Some(trace)) = (&self.link, tags.trace) {
            link(&span, trace);
        }
        let (ended, before) = (tags.end.cloned(), tags.latency.unwrap_or_default());
        let began = self.clock.monotonic();
        let (clock, inner) = (self.clock.clone(), span.clone());
        let work = async move {
            work.await;
            let took = before.saturating_add(clock.monotonic().saturating_sub(began));
            inner.record("latency.ms", took.as_secs_f64() * 1e3);
            let Some(ended) = ended else { return };
            if let Some(outcome) = ended.outcome() {
                inner.record("outcome", outcome);
            }
            if let Some(code) = ended.code() {
                inner.record("code", code);
            }
        };
        Box::pin(work.instrument(span))
    }

    fn log(&self, level: Level, message: &'static str, tags: &Tags<'_>) {
        for (_, tracer) in &self.also {
            tracer.log(level, message, tags);
        }
        macro_rules! line {
            ($level:expr) => {
                if tracing::enabled!(target: "clinch", $level) {
                    let fields = self.fields(tags);
                    tracing::event!(
                        target: "clinch",
                        $level,
                        op.id = fields.op_id,
                        domain = fields.domain,
                        event.type = fields.event_type,
                        biz.key = fields.biz_key,
                        idem.key = fields.idem_key,
                        attempt = tags.attempt,
                        latency.ms = fields.latency_ms,
                        outcome = tags.outcome,
                        code = tags.code,
                        count = tags.count,
                        destination = tags.destination,
                        age.ms = fields.age_ms,
                        until = fields.until,
                        failure.rate = tags.failure_rate,
                        trace.id = fields.trace_id,
                        "{message}"
                    );
                }
            };
        }
        match level {
            Level::Debug => line!(tracing::Level::DEBUG),
            Level::Info => line!(tracing::Level::INFO),
            Level::Warn => line!(tracing::Level::WARN),
            Level::Error => line!(tracing::Level::ERROR),
        }
    }
}

impl Meter for Telemetry {
    fn add(&self, counter: &'static str, labels: MetricLabels<'_>, count: u64) {
        for (meter, _) in &self.also {
            meter.add(counter, labels, count);
        }
        metrics::counter!(counter, of(labels)).increment(count);
    }

    fn record(&self, histogram: &'static str, labels: MetricLabels<'_>, value: Duration) {
        for (meter, _) in &self.also {
            meter.record(histogram, labels, value);
        }
        metrics::histogram!(histogram, of(labels)).record(value.as_secs_f64());
    }

    fn set(&self, gauge: &'static str, labels: MetricLabels<'_>, value: f64) {
        for (meter, _) in &self.also {
            meter.set(gauge, labels, value);
        }
        metrics::gauge!(gauge, of(labels)).set(value);
    }
}

fn of(labels: MetricLabels<'_>) -> Vec<Label> {
    let label = |(name, value): &(&'static str, &str)| Label::new(*name, (*value).to_owned());
    labels.iter().map(label).collect()
}

/// `08:00:00Z`: the time of day in UTC. Conditions with an end last hours at most.
fn time_of_day(at: Timestamp) -> String {
    let seconds = at.as_millis().div_euclid(1_000).rem_euclid(86_400);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}Z", seconds % 60)
}

fn trace_id(parent: &str) -> Option<&str> {
    parent.split('-').nth(1)
}

#[cfg(test)]
mod tests {
    use clinch_core::ports::is_traceparent;

    use super::*;

    #[test]
    fn a_fresh_trace_is_a_valid_traceparent() {
        let context = Telemetry::default().context().expect("a trace");
        assert!(is_traceparent(&context), "{context}");
    }

    #[test]
    fn core_16_keys_are_redacted_by_default() {
        let shown = Telemetry::default().shown("alice@example.com");
        assert_eq!(shown.as_deref().map(str::len), Some(8));
        assert!(!shown.expect("a hash").contains("alice"));
        let hidden = Telemetry::default().keys(ShownKeys::Hidden);
        assert_eq!(hidden.shown("alice"), None);
    }
}
