//! Routes of the configuration, and their executors.

use std::collections::BTreeMap;
use std::sync::Arc;

use clinch::Result;
use clinch::types::Builder;
use clinch_core::ports::{Executor, OfRoute, Probe};
use clinch_core::{Domain, EventType};
use clinch_engine::Role;

use crate::Config;
use crate::config::RouteConfig;

/// The executor and the probe of a route.
#[derive(Clone)]
pub struct Built {
    /// Makes the calls.
    pub executor: Arc<dyn Executor>,
    /// Asks the provider what became of a call.
    pub probe: Option<Arc<dyn Probe>>,
}

/// What an executor needs to know of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The server listens on loopback only: routes may call loopback too.
    pub is_loopback_only: bool,
    /// The longest answer that is stored whole, in bytes.
    pub response_bytes_max: usize,
}

/// Makes the executor and the probe of a `[[route]]`; a closure implements it. Of a remote route
/// only the probe is used, and the probe's `url` stands in for the `url` of the calls.
pub trait Executors: Send + Sync {
    /// Refuses a route that cannot be called, with one line that says what to do.
    fn build(&self, route: &RouteConfig, facts: &Facts) -> Result<Built>;
}

impl<F> Executors for F
where
    F: Fn(&RouteConfig, &Facts) -> Result<Built> + Send + Sync,
{
    fn build(&self, route: &RouteConfig, facts: &Facts) -> Result<Built> {
        self(route, facts)
    }
}

/// What the API needs to know of a route.
pub(crate) struct Declared {
    /// The destination, if this server makes the calls.
    pub(crate) destination: Option<String>,
}

/// Every route of the configuration.
#[derive(Default)]
pub(crate) struct Table {
    routes: BTreeMap<Domain, BTreeMap<Option<EventType>, Declared>>,
}

impl Table {
    /// The most specific route.
    pub(crate) fn find(&self, domain: &Domain, event_type: &EventType) -> Option<&Declared> {
        let routes = self.routes.get(domain)?;
        routes
            .get(&Some(event_type.clone()))
            .or_else(|| routes.get(&None))
    }

    /// The routes that call this destination.
    pub(crate) fn calling(&self, destination: &str) -> Vec<OfRoute> {
        let mut calling = Vec::new();
        for (domain, routes) in &self.routes {
            for (event_type, declared) in routes {
                if declared.destination.as_deref() != Some(destination) {
                    continue;
                }
                let except = match event_type {
                    Some(_) => Vec::new(),
                    None => routes.keys().flatten().cloned().collect(),
                };
                calling.push(OfRoute {
                    domain: domain.clone(),
                    event_type: event_type.clone(),
                    except,
                });
            }
        }
        calling
    }

    fn of(config: &Config) -> Result<Self> {
        let mut table = Self::default();
        for route in &config.route {
            let domain = Domain::new(&route.domain)?;
            let event_type = match route.event_type.as_str() {
                "*" => None,
                one => Some(EventType::new(one)?),
            };
            let called = !route.url.is_empty();
            let destination = called.then(|| route.destination_name());
            let routes = table.routes.entry(domain).or_default();
            routes.insert(event_type, Declared { destination });
        }
        Ok(table)
    }
}

/// Declares every route of the configuration for a process that makes no calls.
pub fn declare_remote(mut builder: Builder, config: &Config) -> Result<Builder> {
    for route in &config.route {
        builder = builder.remote(&route.route(config)?);
    }
    Ok(builder)
}

/// Declares every route, with its executor if this process makes calls, and with its probe if it
/// recovers.
pub(crate) fn declare(
    mut builder: Builder,
    config: &Config,
    executors: &dyn Executors,
    facts: &Facts,
    roles: &[Role],
) -> Result<(Builder, Table)> {
    let (works, recovers) = (
        roles.contains(&Role::Worker),
        roles.contains(&Role::Recovery),
    );
    for route in &config.route {
        let declared = route.route(config)?;
        builder = match route.remote {
            true => builder.leased(&declared),
            false => builder.remote(&declared),
        };
        let is_called = !route.remote && works;
        let is_probed = route.probe.is_some() && recovers;
        if !is_called && !is_probed {
            continue;
        }
        let built = executors.build(route, facts)?;
        if is_called {
            builder = builder.execute_with(&declared, built.executor);
        }
        if let Some(probe) = built.probe.filter(|_| recovers) {
            builder = builder.probe_with(&declared, probe);
        }
    }
    Ok((builder, Table::of(config)?))
}
