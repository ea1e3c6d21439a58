//! Executes routes of the configuration over HTTP.

use std::sync::Arc;

use async_trait::async_trait;
use clinch::{Error, Result};
use clinch_core::ports::{Clock, Probe};
use clinch_core::{ErrorKind, Invalid};
use clinch_http::{
    Egress, HttpClient, HttpExecutor, HttpMethod, HttpRoute, Poster, ProbeRoute, SystemSecrets,
};
use clinch_server::config::{ProbeConfig, RouteConfig};
use clinch_server::{Built, Config, Executors, Facts, Outbound, Outlets};

/// Makes the calls of routes with a `url`; they share one pool of connections.
pub(crate) struct Http {
    client: HttpClient,
    config: Config,
}

impl Http {
    pub(crate) fn new(config: Config, clock: Arc<dyn Clock>) -> Result<Self> {
        let client = HttpClient::builder(clock).build()?;
        Ok(Self { client, config })
    }
}

/// An address that documents are posted to.
struct Outlet(Poster);

#[async_trait]
impl Outbound for Outlet {
    async fn post(&self, body: Vec<u8>) -> Result<()> {
        self.0.post(body).await
    }
}

impl Http {
    /// The outlets for alerts and telemetry. Alerts follow the address rules of routes; a telemetry
    /// collector may be in a private network, where it usually is.
    pub(crate) fn outlets(&self) -> Result<Outlets> {
        let is_loopback_only = self.config.listen()?.ip().is_loopback();
        let outlet = |url: &str, field: &'static str, allow_private: bool| {
            let egress = Egress::default().loopback_allowed(is_loopback_only);
            let poster = Poster::new(&self.client, url, field, egress, allow_private);
            let poster =
                poster.map_err(|invalid| Error::new(ErrorKind::Invalid, format!("{invalid}")))?;
            Ok::<_, Error>(Arc::new(Outlet(poster)) as Arc<dyn Outbound>)
        };
        let mut outlets = Outlets::default();
        let alert_url = self.config.dead_letter.alert_url.as_str();
        if !alert_url.is_empty() {
            outlets.alerts = Some(outlet(alert_url, "dead_letter.alert_url", false)?);
        }
        let otlp = self.config.telemetry.otlp.trim_end_matches('/');
        if !otlp.is_empty() {
            let at = |path: &str| outlet(&format!("{otlp}{path}"), "telemetry.otlp", true);
            outlets.traces = Some(at("/v1/traces")?);
            outlets.metrics = Some(at("/v1/metrics")?);
        }
        Ok(outlets)
    }
}

impl Executors for Http {
    fn build(&self, route: &RouteConfig, facts: &Facts) -> Result<Built> {
        let wrong = |invalid: Invalid| {
            let message = format!("route {:?}: {invalid}", route.label());
            Error::new(ErrorKind::Invalid, message)
        };
        let egress = Egress::default().loopback_allowed(facts.is_loopback_only);
        let http = http_route(route, facts)?;
        let executor = HttpExecutor::new(&self.client, http, egress, &SystemSecrets);
        let executor = executor
            .map_err(wrong)?
            .safety(route.rules(&self.config)?.safety)
            // A connection that times out has certainly sent nothing. The connect timeout must
            // therefore end before the attempt's timeout, which could not tell.
            .connect_timeout(route.call_timeout().mul_f64(2.0 / 3.0));
        let probe = executor.probe();
        Ok(Built {
            probe: probe.map(|probe| Arc::new(probe) as Arc<dyn Probe>),
            executor: Arc::new(executor),
        })
    }
}

fn http_route(route: &RouteConfig, facts: &Facts) -> Result<HttpRoute> {
    let method = match route.method.to_ascii_uppercase().as_str() {
        "GET" => HttpMethod::Get,
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        other => {
            let message = format!(
                "route {:?}: {other:?} is not a method; use GET, POST, PUT, PATCH or DELETE",
                route.label()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    };
    Ok(HttpRoute {
        // A remote worker makes the calls: only the probe is used.
        url: match (&route.probe, route.remote) {
            (Some(probe), true) => probe.url.clone(),
            _ => route.url.clone(),
        },
        method,
        headers: route.headers.clone(),
        idempotency_header: route.idempotency_header.clone(),
        duplicate_status: route.duplicate_status.clone(),
        unavailable_is_clean: route.unavailable_is_clean,
        probe: route.probe.as_ref().map(probe_route),
        txn_id: (!route.txn_id.is_empty()).then(|| route.txn_id.clone()),
        allow_private: route.allow_private,
        response_max: facts.response_bytes_max,
    })
}

fn probe_route(probe: &ProbeConfig) -> ProbeRoute {
    ProbeRoute {
        url: probe.url.clone(),
        matches: probe.r#match.clone(),
        succeeded: probe.succeeded.clone(),
        failed: probe.failed.clone(),
        not_found: probe.not_found.clone(),
        ..ProbeRoute::default()
    }
}
