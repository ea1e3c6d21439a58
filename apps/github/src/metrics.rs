//! The metrics, named `github.…`.

use std::time::Duration;

use crate::model::JobKind;

pub(crate) fn request(kind: JobKind, status: u16) {
    let labels = [
        ("job_type", kind.as_str().to_owned()),
        ("status", status.to_string()),
    ];
    metrics::counter!("github.requests.count", &labels).increment(1);
}

pub(crate) fn documents(kind: JobKind, count: u64) {
    metrics::counter!("github.documents.count", "kind" => kind.document()).increment(count);
}

pub(crate) fn sink_failed() {
    metrics::counter!("github.sink.failed.count").increment(1);
}

pub(crate) fn job(kind: JobKind, took: Duration, outcome: &'static str) {
    let labels = [("job_type", kind.as_str()), ("outcome", outcome)];
    metrics::histogram!("github.job.duration", &labels).record(took.as_secs_f64());
    metrics::counter!("github.jobs.count", &labels).increment(1);
}

pub(crate) fn run(status: &'static str) {
    metrics::counter!("github.runs.count", "status" => status).increment(1);
}

/// Gauges, set when metrics are scraped.
pub(crate) fn gauges(active: u64, pending: u64, blocked: usize, statistics: u64) {
    metrics::gauge!("github.runs.active").set(active as f64);
    metrics::gauge!("github.jobs.pending").set(pending as f64);
    metrics::gauge!("github.tokens.blocked").set(blocked as f64);
    metrics::gauge!("github.statistics.retry.size").set(statistics as f64);
}
