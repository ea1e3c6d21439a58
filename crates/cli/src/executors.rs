//! Routes of the configuration, executed over HTTP.

use std::sync::Arc;

use clinch::core::Invalid;
use clinch::core::ports::{Clock, Probe};
use clinch::{Error, Result};
use clinch_core::ErrorKind;
use clinch_http::{
    Egress, HttpClient, HttpExecutor, HttpMethod, HttpRoute, ProbeRoute, SystemSecrets,
};
use clinch_server::config::{ProbeConfig, RouteConfig};
use clinch_server::{Built, Config, Executors, Facts};

/// Makes the calls of routes with a `url`; all of them share one pool of connections.
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
            // Whoever cannot connect in time has certainly sent nothing: say so before the
            // attempt is cut off, which could not.
            .connect_timeout(route.timeout.0.mul_f64(2.0 / 3.0));
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
                "route {:?}: {other:?} is no method; there are GET, POST, PUT, PATCH and DELETE",
                route.label()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    };
    Ok(HttpRoute {
        url: route.url.clone(),
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
