//! Stages of operations as spans of their traces.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::Timestamp;
use clinch_core::ports::{Ids, StageEnd, Tags, is_traceparent};
use clinch_system::SystemIds;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::attribute;

/// Spans that wait to be sent: a few seconds of a busy server.
const WAITING_MAX: usize = 16_384;
/// Spans of one document.
const DOCUMENT_MAX: usize = 512;

tokio::task_local! {
    /// Trace and span of the stage that runs in this task.
    static CURRENT: (String, String);
}

/// Spans that wait to be sent.
#[derive(Default)]
pub(super) struct Spans {
    waiting: Mutex<VecDeque<Span>>,
    overflown: AtomicUsize,
    many: Notify,
}

impl Spans {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Span>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a span, or counts it as dropped if the queue is full.
    pub(super) fn put(&self, span: Span) {
        let mut waiting = self.lock();
        if waiting.len() >= WAITING_MAX {
            self.overflown.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(span);
        if waiting.len() == DOCUMENT_MAX {
            self.many.notify_one();
        }
    }

    /// Completes when the queue holds enough spans for a document.
    pub(super) async fn many(&self) {
        self.many.notified().await;
    }

    /// The number of spans dropped since the last call.
    pub(super) fn overflown(&self) -> usize {
        self.overflown.swap(0, Ordering::Relaxed)
    }

    /// The next document and the number of its spans; `None`: the queue is empty.
    pub(super) fn take(&self) -> Option<(usize, Value)> {
        let mut waiting = self.lock();
        let count = waiting.len().min(DOCUMENT_MAX);
        let spans: Vec<Span> = waiting.drain(..count).collect();
        drop(waiting);
        let documents: Vec<Value> = spans.iter().map(Span::document).collect();
        (count > 0).then(|| (count, Value::from(documents)))
    }
}

/// One stage of one operation.
pub(super) struct Span {
    stage: &'static str,
    trace_id: String,
    /// The random part of a new id.
    id: String,
    parent: String,
    end: Option<Arc<StageEnd>>,
    attributes: Vec<Value>,
    at: Timestamp,
    took: Duration,
}

/// Starts a span; `None`: the operation has no trace, or its trace is not sampled.
pub(super) fn begun(stage: &'static str, tags: &Tags<'_>) -> Option<Span> {
    let trace = tags.trace.filter(|trace| is_traceparent(trace))?;
    let parts: Vec<&str> = trace.split('-').collect();
    let [_, trace_id, parent, flags] = parts.as_slice() else {
        return None;
    };
    let is_sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
    if !is_sampled {
        return None;
    }
    // A stage within another one of the same trace is its child.
    let outer = CURRENT.try_with(|outer| (outer.0 == *trace_id).then(|| outer.1.clone()));
    let parent = outer.ok().flatten().unwrap_or_else(|| (*parent).to_owned());
    let mut attributes = Vec::new();
    if let Some(op_id) = tags.op_id {
        attributes.push(attribute("op.id", &op_id.to_string()));
    }
    if let Some(keys) = tags.keys {
        attributes.push(attribute("domain", keys.domain.as_str()));
        attributes.push(attribute("event.type", keys.event_type.as_str()));
    } else if let (Some(domain), Some(event_type)) = (tags.domain, tags.event_type) {
        attributes.push(attribute("domain", domain.as_str()));
        attributes.push(attribute("event.type", event_type.as_str()));
    }
    if let Some(destination) = tags.destination {
        attributes.push(attribute("destination", destination));
    }
    if let Some(attempt) = tags.attempt {
        let value = json!({ "intValue": attempt.to_string() });
        attributes.push(json!({ "key": "attempt", "value": value }));
    }
    Some(Span {
        stage,
        trace_id: (*trace_id).to_owned(),
        id: format!("{:016x}", SystemIds.attempt_id().0.as_u64_pair().1.max(1)),
        parent,
        attributes,
        end: tags.end.cloned(),
        at: Timestamp::default(),
        took: Duration::ZERO,
    })
}

impl Span {
    /// Runs the work as the current span: stages within it are its children.
    pub(super) async fn run(&self, work: impl Future<Output = ()>) {
        let current = (self.trace_id.clone(), self.id.clone());
        CURRENT.scope(current, work).await;
    }

    /// Ends the span, with what the stage reported.
    pub(super) fn end(&mut self, at: Timestamp, took: Duration) {
        (self.at, self.took) = (at, took);
        let millis = json!({ "doubleValue": took.as_secs_f64() * 1e3 });
        self.attributes
            .push(json!({ "key": "latency.ms", "value": millis }));
        let Some(end) = self.end.take() else { return };
        if let Some(outcome) = end.outcome() {
            self.attributes.push(attribute("outcome", outcome));
        }
        if let Some(code) = end.code() {
            self.attributes.push(attribute("code", code));
        }
    }

    fn document(&self) -> Value {
        let start = nanos(self.at);
        json!({
            "traceId": self.trace_id,
            "spanId": self.id,
            "parentSpanId": self.parent,
            "name": self.stage,
            "kind": 1,
            "startTimeUnixNano": start.to_string(),
            "endTimeUnixNano": (start + self.took.as_nanos()).to_string(),
            "attributes": self.attributes,
        })
    }
}

/// Nanoseconds since the Unix epoch.
pub(super) fn nanos(at: Timestamp) -> u128 {
    u128::try_from(at.as_millis()).unwrap_or_default() * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(trace: &str) -> Tags<'_> {
        Tags {
            trace: Some(trace),
            ..Tags::default()
        }
    }

    #[test]
    fn run_10_a_full_queue_drops_and_counts() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let spans = Spans::default();
        for _ in 0..WAITING_MAX + 3 {
            spans.put(begun("accept", &tags(trace)).expect("sampled"));
        }
        assert_eq!((spans.overflown(), spans.overflown()), (3, 0));
        let mut sent = 0;
        while let Some((count, document)) = spans.take() {
            assert_eq!(document.as_array().map(Vec::len), Some(count));
            sent += count;
        }
        assert_eq!(sent, WAITING_MAX);
    }

    #[test]
    fn run_10_a_trace_that_is_not_sampled_is_left_alone() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        assert!(begun("accept", &tags(trace)).is_none());
        assert!(begun("accept", &tags("nonsense")).is_none());
        assert!(begun("accept", &Tags::default()).is_none());
    }
}
