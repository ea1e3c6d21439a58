//! Logs and metrics.
//!
//! Log lines go through the `tracing` crate: [`logs`] writes them to standard error, as text or as
//! JSON. Metrics go through the `metrics` crate to `/metrics`. Traces and metrics also go to an
//! OpenTelemetry collector if `telemetry.otlp` names one. A program with its own tracing system
//! passes a [`clinch::types::Telemetry`] that propagates contexts (`Parts::telemetry`).

use std::sync::{Mutex, PoisonError};

use clinch::{Error, Result};
use clinch_core::ErrorKind;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text, for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Upper bounds of the histograms, in seconds: from an inline call to the longest waits.
pub(crate) const BUCKETS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0,
];

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
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let installed = match format {
        LogFormat::Text => subscriber.with(lines).try_init(),
        LogFormat::Json => subscriber.with(lines.json().flatten_event(true)).try_init(),
    };
    installed.map_err(|_| wrong("another log subscriber is installed already".to_owned()))
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
    *recorder = Some(handle.clone());
    Ok(handle)
}
