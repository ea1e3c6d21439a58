//! The metrics, named `github.…`.

use std::time::Duration;

use crate::streams::JobKind;

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

/// Jobs that failed between two attempts: their deadline passed, or too many attempts lost their
/// worker.
pub(crate) fn failed_between_attempts(kind: JobKind, count: u64) {
    let labels = [("job_type", kind.as_str()), ("outcome", "failed")];
    metrics::counter!("github.jobs.count", &labels).increment(count);
}

pub(crate) fn run(status: &'static str) {
    metrics::counter!("github.runs.count", "status" => status).increment(1);
}

/// Open operations of the collector, those that wait for a budget included.
pub(crate) fn jobs_pending(count: u64) {
    metrics::gauge!("github.jobs.pending").set(count as f64);
}

/// Active runs, and those of them whose statistics are not computed yet.
pub(crate) fn runs(active: usize, statistics: usize) {
    metrics::gauge!("github.runs.active").set(active as f64);
    metrics::gauge!("github.statistics.retry.size").set(statistics as f64);
}

/// Tokens of the server that cannot be used now, and all of them.
pub(crate) fn tokens(blocked: usize, size: usize) {
    metrics::gauge!("github.tokens.blocked").set(blocked as f64);
    metrics::gauge!("github.tokens.size").set(size as f64);
}

/// Tokens of users that the API refuses.
pub(crate) fn user_tokens(refused: usize) {
    metrics::gauge!("github.user_tokens.refused").set(refused as f64);
}

/// Registers the counters that alert rules use: the rate of a counter that appears with its first
/// event misses that event.
pub(crate) fn begin_at_zero() {
    metrics::counter!("github.sink.failed.count").increment(0);
    metrics::counter!("github.statistics.failed.count").increment(0);
    for kind in JobKind::all() {
        for outcome in ["succeeded", "retried", "failed", "unavailable"] {
            let labels = [("job_type", kind.as_str()), ("outcome", outcome)];
            metrics::counter!("github.jobs.count", &labels).increment(0);
        }
    }
}

pub(crate) fn statistics_failed() {
    metrics::counter!("github.statistics.failed.count").increment(1);
}
