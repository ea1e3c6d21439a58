//! Logs and metrics.
//!
//! Log lines go through the `tracing` crate: [`logs`] writes them to standard error, as text or as
//! JSON. Metrics go through the `metrics` crate to `/metrics`. Traces and metrics also go to an
//! OpenTelemetry collector if `telemetry.otlp` names one. A program with its own tracing system
//! passes a [`clinch::types::Telemetry`] that propagates contexts (`Parts::telemetry`).

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use clinch::{Error, Result};
use clinch_core::ErrorKind;
use clinch_system::SystemClock;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::log_lines::{LogLines, SharedLines};

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text, for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Upper bounds of the histograms, in seconds: from an inline call to the longest waits. 20 s is
/// where a job of the collector is close to its timeout of 25 s.
pub(crate) const BUCKETS: [f64; 17] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0,
    300.0,
];

/// The log lines of the process, for [`sum_up_repeats`].
static LINES: OnceLock<Arc<LogLines>> = OnceLock::new();

/// Writes how often lines were left out since they were written last; `all`: also those of an
/// interval that has not ended, because the process ends.
pub fn sum_up_repeats(all: bool) {
    if let Some(lines) = LINES.get() {
        lines.sum_up(all);
    }
}

/// Writes log lines to standard error from now on; `filter` has the syntax of `RUST_LOG`, such as
/// `info`.
pub fn logs(format: LogFormat, filter: &str) -> Result<()> {
    let wrong = |message: String| Error::new(ErrorKind::Invalid, message);
    let filter = EnvFilter::try_new(filter).map_err(|_| {
        wrong(format!(
            "{filter:?} is not a log filter; write info or clinch=debug"
        ))
    })?;
    // A line has every field itself: a span would repeat them in front, and be formatted for each
    // stage of an operation whether or not a line is written.
    let lines_only = filter_fn(|metadata| !metadata.is_span());
    let subscriber = tracing_subscriber::registry().with(filter).with(lines_only);
    let lines = Arc::new(LogLines::new(format, Arc::new(SystemClock::new())));
    let installed = subscriber.with(SharedLines(lines.clone())).try_init();
    installed.map_err(|_| wrong("another log subscriber is installed already".to_owned()))?;
    // Only the first subscriber gets here.
    let _ = LINES.set(lines);
    Ok(())
}

/// The metrics recorder of the process: every server of the process shares it.
static RECORDER: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

pub(crate) fn recorder() -> Result<PrometheusHandle> {
    let mut recorder = RECORDER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = recorder.as_ref() {
        return Ok(handle.clone());
    }
    let failed = |_| {
        Error::new(
            ErrorKind::Invalid,
            "another metrics recorder is installed already",
        )
    };
    let builder = PrometheusBuilder::new().with_recommended_naming(true);
    let handle = builder
        .set_buckets(&BUCKETS)
        .map_err(failed)?
        .install_recorder()
        .map_err(failed)?;
    begin_at_zero();
    *recorder = Some(handle.clone());
    Ok(handle)
}

/// Alerts that were not delivered in all their attempts.
pub(crate) const UNDELIVERED: &str = "orchestrator.alert.undelivered.count";
/// 1 while `/metrics` shows gauges of an earlier request, because the store does not answer.
pub(crate) const STALE: &str = "orchestrator.gauges.stale";
/// Operations that are in progress for longer than `reaper.in_progress_warn`.
pub(crate) const OVERDUE: &str = "orchestrator.in_progress.overdue";

/// Metrics of the server that are there before the first event: the rate of a counter that appears
/// with its first event misses that event.
fn begin_at_zero() {
    metrics::counter!(UNDELIVERED).increment(0);
    metrics::gauge!(STALE).set(0.0);
    metrics::gauge!(OVERDUE).set(0.0);
}
