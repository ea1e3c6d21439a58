//! Counters, gauges and histograms since the start.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use clinch_core::Timestamp;
use clinch_core::ports::MetricLabels;
use serde_json::{Value, json};

use super::attribute;
use super::spans::nanos;
use crate::telemetry::BUCKETS;

/// OTLP's number for cumulative values.
const CUMULATIVE: u8 = 2;

type Labels = Vec<(&'static str, String)>;

#[derive(Clone)]
enum Number {
    Counter(u64),
    Gauge(f64),
    Histogram {
        counts: [u64; BUCKETS.len() + 1],
        sum: f64,
    },
}

/// Every metric by name and labels; the engine bounds the labels.
pub(super) struct Numbers {
    start: Timestamp,
    numbers: Mutex<BTreeMap<&'static str, BTreeMap<Labels, Number>>>,
}

impl Numbers {
    pub(super) fn new(start: Timestamp) -> Self {
        Self {
            start,
            numbers: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, BTreeMap<Labels, Number>>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(
        &self,
        name: &'static str,
        labels: MetricLabels<'_>,
        fresh: Number,
        change: impl FnOnce(&mut Number),
    ) {
        let labels = labels
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let mut numbers = self.lock();
        let of_name = numbers.entry(name).or_default();
        change(of_name.entry(labels.collect()).or_insert(fresh));
    }

    pub(super) fn add(&self, name: &'static str, labels: MetricLabels<'_>, count: u64) {
        self.change(name, labels, Number::Counter(0), |number| {
            if let Number::Counter(total) = number {
                *total = total.saturating_add(count);
            }
        });
    }

    pub(super) fn set(&self, name: &'static str, labels: MetricLabels<'_>, value: f64) {
        self.change(name, labels, Number::Gauge(0.0), |number| {
            *number = Number::Gauge(value);
        });
    }

    pub(super) fn record(&self, name: &'static str, labels: MetricLabels<'_>, value: f64) {
        let fresh = Number::Histogram {
            counts: [0; BUCKETS.len() + 1],
            sum: 0.0,
        };
        self.change(name, labels, fresh, |number| {
            if let Number::Histogram { counts, sum } = number {
                // An upper bound belongs to its bucket.
                let bucket = BUCKETS.iter().take_while(|bound| value > **bound).count();
                counts[bucket] += 1;
                *sum += value;
            }
        });
    }

    /// All metrics as they are now.
    pub(super) fn document(&self, now: Timestamp) -> Value {
        let numbers = self.lock().clone();
        let metric = |(name, points): (&&str, &BTreeMap<Labels, Number>)| {
            let documents: Vec<Value> = points
                .iter()
                .map(|(labels, number)| self.point(labels, number, now))
                .collect();
            match points.values().next() {
                Some(Number::Counter(_)) => json!({ "name": name, "sum": {
                    "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": documents } }),
                Some(Number::Histogram { .. }) => json!({ "name": name, "unit": "s", "histogram": {
                    "aggregationTemporality": CUMULATIVE, "dataPoints": documents } }),
                _ => json!({ "name": name, "gauge": { "dataPoints": documents } }),
            }
        };
        numbers.iter().map(metric).collect()
    }

    fn point(&self, labels: &Labels, number: &Number, now: Timestamp) -> Value {
        let attributes: Vec<Value> = labels.iter().map(|(n, v)| attribute(n, v)).collect();
        let mut point = json!({
            "attributes": attributes,
            "startTimeUnixNano": nanos(self.start).to_string(),
            "timeUnixNano": nanos(now).to_string(),
        });
        // OTLP's JSON encoding writes 64-bit integers as text.
        match number {
            Number::Counter(total) => point["asInt"] = json!(total.to_string()),
            Number::Gauge(value) => point["asDouble"] = json!(value),
            Number::Histogram { counts, sum } => {
                let total: u64 = counts.iter().sum();
                point["count"] = json!(total.to_string());
                point["sum"] = json!(sum);
                point["bucketCounts"] = counts.iter().map(ToString::to_string).collect();
                point["explicitBounds"] = json!(BUCKETS);
            }
        }
        point
    }
}
