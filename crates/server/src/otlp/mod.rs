//! Traces and metrics to an OpenTelemetry collector, as OTLP over HTTP in its JSON encoding.
//!
//! Written here rather than taken from a library: OTLP needs two documents, and the engine's ports
//! already provide their content. Nothing waits for the collector: spans go into a bounded queue,
//! and are dropped and counted when the queue is full; metrics are cumulative. A span holds an
//! operation's id, names and times, never a key or a payload.

mod numbers;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use clinch::Clinch;
use clinch_core::ports::{Clock, Level, Meter, MetricLabels, Tags, Tracer, Work};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::outbound::Outlets;
use numbers::Numbers;
use spans::Spans;

/// How often documents are sent.
const EVERY: Duration = Duration::from_secs(5);
/// Spans that the collector did not receive.
const DROPPED: &str = "orchestrator.otlp.dropped.count";

/// Spans and metrics that have not been sent yet. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Otlp {
    clock: Arc<dyn Clock>,
    spans: Arc<Spans>,
    numbers: Arc<Numbers>,
}

impl Otlp {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            spans: Arc::default(),
            numbers: Arc::new(Numbers::new(clock.now())),
            clock,
        }
    }

    /// Sends until the server has stopped, and then once more.
    pub(crate) async fn export(self, clinch: Clinch, outlets: Outlets, stopped: CancellationToken) {
        while !stopped.is_cancelled() {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = self.clock.sleep(EVERY) => {}
                () = self.spans.many() => {}
            }
            self.send(&clinch, &outlets).await;
        }
    }

    async fn send(&self, clinch: &Clinch, outlets: &Outlets) {
        if let Some(traces) = &outlets.traces {
            while let Some((count, document)) = self.spans.take() {
                let body = json!({ "resourceSpans": [within("scopeSpans", "spans", document)] });
                if traces.post(body.to_string().into_bytes()).await.is_err() {
                    self.dropped(count);
                }
            }
        }
        let dropped = self.spans.overflown();
        if dropped > 0 {
            self.dropped(dropped);
        }
        if let Some(metrics) = &outlets.metrics {
            // Gauges that cannot be measured keep their last value.
            let _ = clinch.measure().await;
            let document = self.numbers.document(self.clock.now());
            let body = json!({ "resourceMetrics": [within("scopeMetrics", "metrics", document)] });
            // Metrics are cumulative: the next document includes what this one lost.
            if metrics.post(body.to_string().into_bytes()).await.is_err() {
                tracing::debug!(target: "clinch", "metrics not delivered to the collector");
            }
        }
    }

    fn dropped(&self, count: usize) {
        tracing::warn!(target: "clinch", count, "spans were not taken by the collector");
        self.add(DROPPED, &[], count as u64);
    }
}

/// Adds the resource and the scope around spans or metrics.
fn within(scopes: &'static str, what: &'static str, said: Value) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let attributes = [("service.name", "clinch"), ("service.version", version)];
    json!({
        "resource": { "attributes": attributes.map(|(name, value)| attribute(name, value)) },
        scopes: [{ "scope": { "name": "clinch", "version": version }, what: said }],
    })
}

fn attribute(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

impl Tracer for Otlp {
    fn context(&self) -> Option<String> {
        None
    }

    fn within<'a>(&self, stage: &'static str, tags: &Tags<'_>, work: Work<'a>) -> Work<'a> {
        let Some(mut span) = spans::begun(stage, tags) else {
            return work;
        };
        let this = self.clone();
        // A stage that began before: one commit changed several operations.
        let before = tags.latency.unwrap_or_default();
        Box::pin(async move {
            let (at, from) = (this.clock.now() - before, this.clock.monotonic());
            span.run(work).await;
            let took = this.clock.monotonic().saturating_sub(from);
            span.end(at, before.saturating_add(took));
            this.spans.put(span);
        })
    }

    fn log(&self, _level: Level, _message: &'static str, _tags: &Tags<'_>) {}
}

impl Meter for Otlp {
    fn add(&self, counter: &'static str, labels: MetricLabels<'_>, count: u64) {
        self.numbers.add(counter, labels, count);
    }

    fn record(&self, histogram: &'static str, labels: MetricLabels<'_>, value: Duration) {
        self.numbers.record(histogram, labels, value.as_secs_f64());
    }

    fn set(&self, gauge: &'static str, labels: MetricLabels<'_>, value: f64) {
        self.numbers.set(gauge, labels, value);
    }
}
