//! The measurements, one after the other.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clinch::{Backend, Clinch, Route};
use clinch_core::WorkerId;
use clinch_core::ports::Clock;
use clinch_engine::Config;
use clinch_http::{Egress, HttpClient, HttpExecutor, HttpRoute, SystemSecrets};
use clinch_measure::{Amount, Load, Provider, limits, percentile};
use clinch_protect::DestinationConfig;
use clinch_system::SystemClock;
use serde_json::{Value, json};

use super::provider;
use crate::client::{Base, Client, Request};
use crate::error::{CliError, note};
use crate::progress;
use crate::store::StoreConfig;

/// A domain of its own, so that the measured operations can be told apart.
const DOMAIN: &str = "clinch-bench";
/// Event type of operations that this process answers.
const CALL: &str = "call";
/// Event type of operations that are answered over HTTP.
const HTTP: &str = "http";

/// What to measure, and for how long.
pub(super) struct Plan<'a> {
    pub(super) store: &'a StoreConfig,
    /// A folder on the store's disk.
    pub(super) scratch: &'a Path,
    /// One twentieth of the total time.
    pub(super) unit: Duration,
}

/// One figure.
pub(super) struct Measure {
    name: String,
    value: f64,
    unit: &'static str,
    limit: Option<String>,
}

impl Measure {
    fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            limit: None,
        }
    }

    fn beside(self, limit: &Self) -> Self {
        let limit = format!("{}: {}", limit.name, limit.shown());
        Self {
            limit: Some(limit),
            ..self
        }
    }

    fn shown(&self) -> String {
        let digits = if self.value.abs() < 100.0 { 2 } else { 0 };
        format!("{:.digits$} {}", self.value, self.unit)
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "shown": self.shown(),
            "limit": self.limit,
        })
    }
}

/// Takes all measurements, the machine's own limits first.
pub(super) async fn all(plan: &Plan<'_>) -> Result<Vec<Measure>, CliError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut measured = Vec::new();
    progress::line("the disk");
    let syncs = limits::syncs(plan.scratch, plan.unit)
        .map_err(|error| CliError::failed(format!("the disk cannot be measured: {error}")))?;
    let syncs = Measure::new("fdatasync of 4 KiB", syncs, "/s");
    progress::line("a bare call");
    let url = format!("http://{}", provider::listen().await?);
    let bare = bare_calls(&url, plan.unit, clock.as_ref()).await?;
    let bare = Measure::new("bare call on loopback, p50", bare, "ms");
    let scene = Scene {
        backend: plan.store.open().await?.backend,
        clock,
        url,
        prefix: format!("{}-", uuid::Uuid::now_v7()),
    };
    measured.extend(
        scene
            .latencies(plan.unit.mul_f64(1.5), &syncs, &bare)
            .await?,
    );
    measured.extend(scene.throughput(plan.unit, &syncs).await?);
    progress::line("");
    measured.push(syncs);
    measured.push(bare);
    Ok(measured)
}

/// Makes calls one after the other on one connection, as the executor does.
async fn bare_calls(url: &str, span: Duration, clock: &dyn Clock) -> Result<f64, CliError> {
    let base = Base::parse(url).map_err(CliError::failed)?;
    let mut client = Client::new(base, None);
    let begun = clock.monotonic();
    let mut millis = Vec::new();
    while clock.monotonic().saturating_sub(begun) < span {
        let from = clock.monotonic();
        let request = Request::post("/", br#"{"amount":1,"currency":"EUR"}"#.to_vec());
        client.send(request).await?;
        let taken = clock.monotonic().saturating_sub(from);
        millis.push(taken.as_secs_f64() * 1_000.0);
    }
    millis.sort_by(f64::total_cmp);
    Ok(percentile(&millis, 50).unwrap_or_default())
}

/// A store and its load.
struct Scene {
    backend: Backend,
    clock: Arc<dyn Clock>,
    url: String,
    prefix: String,
}

impl Scene {
    /// Measures the time from submit to completed, one operation at a time on an empty queue.
    async fn latencies(
        &self,
        span: Duration,
        syncs: &Measure,
        bare: &Measure,
    ) -> Result<Vec<Measure>, CliError> {
        let clinch = self.clinch()?;
        let running = tokio::spawn({
            let clinch = clinch.clone();
            async move { clinch.run().await }
        });
        let mut measured = Vec::new();
        let kinds = [
            ("submit to completed, inline", CALL, false),
            ("submit to completed, queued", CALL, true),
            ("submit to completed, inline over HTTP", HTTP, false),
        ];
        let mut over_http = 0.0;
        for (name, event_type, is_queued) in kinds {
            progress::line(name);
            let load = self.load(event_type, &format!("{event_type}{is_queued}-"))?;
            let orchestrator = clinch.orchestrator();
            // The first operations open files and connections.
            load.latencies(orchestrator, is_queued, Amount::Count(20))
                .await?;
            let millis = load
                .latencies(orchestrator, is_queued, Amount::Span(span))
                .await?;
            for percent in [50, 95, 99] {
                let value = percentile(&millis, percent).unwrap_or_default();
                let measure = Measure::new(format!("{name}, p{percent}"), value, "ms");
                measured.push(match event_type {
                    HTTP => measure.beside(bare),
                    _ => measure.beside(syncs),
                });
            }
            if event_type == HTTP {
                over_http = percentile(&millis, 50).unwrap_or_default();
            }
        }
        let added = Measure::new("added to a bare call, p50", over_http - bare.value, "ms");
        measured.push(added.beside(bare));
        clinch.stop();
        let _ = running.await;
        Ok(measured)
    }

    /// Accepts a backlog, then drains it.
    async fn throughput(&self, unit: Duration, syncs: &Measure) -> Result<Vec<Measure>, CliError> {
        let clinch = self.clinch()?;
        let load = self.load(CALL, "load-")?;
        let mut measured = Vec::new();
        for callers in [16, 64] {
            let name = format!("accept, {callers} callers");
            progress::line(&name);
            let amount = Amount::Span(unit.mul_f64(2.0));
            let rate = load.accept(clinch.orchestrator(), callers, amount).await?;
            measured.push(Measure::new(name, rate, "/s").beside(syncs));
        }
        let name = "accept in bulk of 1,000, 4 callers";
        progress::line(name);
        let amount = Amount::Span(unit.mul_f64(1.5));
        let rate = load.accept_bulk(clinch.orchestrator(), 4, amount).await?;
        measured.push(Measure::new(name, rate, "/s").beside(syncs));
        progress::line("drain");
        let domains = self.backend.domains();
        let at_most = unit.mul_f64(7.0);
        let drained = load.drain(clinch.runtime(), domains.as_ref(), load.made(), at_most);
        let (rate, missing) = drained.await?;
        measured.push(Measure::new("drain", rate, "/s").beside(syncs));
        if missing > 0 {
            note(&format!("{missing} operations were not drained in time"));
        }
        clinch.stop();
        Ok(measured)
    }

    fn load(&self, event_type: &str, part: &str) -> Result<Load, CliError> {
        let prefix = format!("{}{part}", self.prefix);
        Ok(Load::new(self.clock.clone(), DOMAIN, event_type, &prefix)?)
    }

    /// An engine with room for a whole backlog, and no guard that would slow it down.
    fn clinch(&self) -> Result<Clinch, CliError> {
        let worker = WorkerId::new("clinch-bench");
        let worker = worker.map_err(|invalid| CliError::failed(invalid.to_string()))?;
        let mut config = Config::new(worker);
        config.concurrency = 2_000;
        config.batch = 1_000;
        let call: Route<Value, Value> = Route::new(DOMAIN, CALL).natural().destination(CALL);
        let http: Route<Value, Value> = Route::new(DOMAIN, HTTP).natural().destination(HTTP);
        let client = HttpClient::builder(self.clock.clone()).build()?;
        let route = HttpRoute {
            url: format!("{}/", self.url),
            ..HttpRoute::default()
        };
        let egress = Egress::default().loopback_allowed(true);
        let executor = HttpExecutor::new(&client, route, egress, &SystemSecrets);
        let executor = executor.map_err(|invalid| CliError::failed(invalid.to_string()))?;
        Ok(Clinch::builder()
            .backend(self.backend.clone())
            .clock(self.clock.clone())
            .config(config)
            .destination(CALL, DestinationConfig::NONE)
            .destination(HTTP, DestinationConfig::NONE)
            .execute_with(&call, Arc::new(Provider))
            .execute_with(&http, Arc::new(executor))
            .build()?)
    }
}
