//! The declared routes with their handlers, and the destinations that they call.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::{EventTypes, Idempotency, Routes, Rules};
use clinch_core::ports::{Executor, Gate, Probe, Topic, Unguarded};
use clinch_core::{Domain, Error, EventType, Result};

/// What is declared for a domain and its event types.
#[derive(Clone)]
pub struct Handler {
    /// Makes the call. `None`: only other processes execute this route.
    pub executor: Option<Arc<dyn Executor>>,
    /// Asks the provider what became of a call. `None`: this process cannot ask.
    pub probe: Option<Arc<dyn Probe>>,
    /// The part of the route that the protocol reads.
    pub rules: Rules,
    /// The key that the provider sees.
    pub idempotency: Idempotency,
    /// How much room the destination has. Nothing is claimed for a destination without room.
    pub gate: Arc<dyn Gate>,
    /// A call that takes longer is logged as a warning.
    pub slow: Option<Duration>,
    /// Remote workers lease the attempts of this route; no executor of this process makes its
    /// calls.
    pub leased: bool,
    /// Upper bound of each lease and each extension.
    pub lease_max: Option<Duration>,
    /// Only the application that declares the route submits and executes its operations. Requests
    /// of callers and remote workers are refused.
    pub internal: bool,
}

impl Handler {
    /// A route without guards that other processes execute.
    pub fn new(rules: Rules) -> Self {
        Self {
            executor: None,
            probe: None,
            rules,
            idempotency: Idempotency::default(),
            gate: Arc::new(Unguarded),
            slow: None,
            leased: false,
            lease_max: None,
            internal: false,
        }
    }
}

/// Every declared route with its handler.
#[derive(Clone, Default)]
pub struct Handlers {
    /// In order: a lookup, of which every operation makes several, copies nothing.
    pub(crate) by_route: Vec<((Domain, EventTypes), Handler)>,
}

/// Routes without a destination use the domain-wide topic.
pub(crate) fn topic(domain: &Domain, gate: &dyn Gate) -> Topic {
    match gate.destination() {
        "" => Topic::of(domain),
        destination => Topic::at(domain, destination),
    }
}

impl Handlers {
    /// No routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a route. A route that was declared before for the same event types is replaced.
    #[must_use]
    pub fn with(mut self, domain: Domain, event_types: EventTypes, handler: Handler) -> Self {
        let route = (domain, event_types);
        match self.by_route.binary_search_by(|(of, _)| of.cmp(&route)) {
            Ok(at) => self.by_route[at].1 = handler,
            Err(at) => self.by_route.insert(at, (route, handler)),
        }
        self
    }

    /// The topic for hints of this event type: the domain-wide topic if the route is not declared
    /// here.
    pub(crate) fn topic(&self, domain: &Domain, event_type: &EventType) -> Topic {
        match self.find(domain, event_type) {
            Some(handler) => topic(domain, &*handler.gate),
            None => Topic::of(domain),
        }
    }

    /// The handlers of a domain.
    pub(crate) fn of(&self, domain: &Domain) -> impl Iterator<Item = (&EventTypes, &Handler)> {
        let ours = self
            .by_route
            .iter()
            .filter(move |((of, _), _)| of == domain);
        ours.map(|((_, types), handler)| (types, handler))
    }

    /// No routes, but the named event types are known, so that a route for all types does not cover
    /// them.
    pub(crate) fn none_of(&self, domain: &Domain) -> Routes {
        let mut routes = Routes::new();
        for (types, _) in self.of(domain) {
            if let EventTypes::One(one) = types {
                routes = routes.without(domain.clone(), one.clone());
            }
        }
        routes
    }

    /// The handler of the most specific route.
    pub(crate) fn find(&self, domain: &Domain, event_type: &EventType) -> Option<&Handler> {
        self.get(domain, Some(event_type))
            .or_else(|| self.get(domain, None))
    }

    /// The handler of the event type's own route; `None`: of the route for all event types.
    fn get(&self, domain: &Domain, event_type: Option<&EventType>) -> Option<&Handler> {
        let found = self.by_route.binary_search_by(|((of, types), _)| {
            of.cmp(domain).then_with(|| match (types, event_type) {
                (EventTypes::Any, None) => Ordering::Equal,
                (EventTypes::Any, Some(_)) => Ordering::Less,
                (EventTypes::One(_), None) => Ordering::Greater,
                (EventTypes::One(one), Some(other)) => one.cmp(other),
            })
        });
        found.ok().map(|at| &self.by_route[at].1)
    }

    /// Whether the event type has a route of its own.
    pub(crate) fn is_named(&self, domain: &Domain, event_type: &EventType) -> bool {
        self.get(domain, Some(event_type)).is_some()
    }

    /// Every handler with its domain, ordered by domain.
    pub(crate) fn by_domain(&self) -> impl Iterator<Item = (&Domain, &Handler)> {
        self.by_route
            .iter()
            .map(|((domain, _), handler)| (domain, handler))
    }

    /// Whether the most specific route is internal.
    pub(crate) fn is_internal(&self, domain: &Domain, event_type: &EventType) -> bool {
        self.find(domain, event_type)
            .is_some_and(|handler| handler.internal)
    }

    /// The destinations that this process calls for the routes that `of` selects.
    pub(crate) fn destinations(
        &self,
        of: impl Fn(&Domain, &EventTypes) -> bool,
    ) -> BTreeSet<String> {
        let routes = self.by_route.iter();
        let routes = routes.filter(|((domain, types), _)| of(domain, types));
        routes
            .map(|(_, handler)| handler.gate.destination().to_owned())
            .collect()
    }

    /// Every route and the destination that this process calls for it.
    pub(crate) fn route_destinations(&self) -> Vec<(Domain, EventTypes, String)> {
        let routes = self.by_route.iter();
        routes
            .map(|((domain, types), handler)| {
                let destination = handler.gate.destination().to_owned();
                (domain.clone(), types.clone(), destination)
            })
            .collect()
    }

    /// Sets the lease of every route: the protocol judges by the lease that attempts really have.
    pub(crate) fn with_lease(mut self, lease: Duration) -> Self {
        for (_, handler) in &mut self.by_route {
            handler.rules.lease = lease;
        }
        self
    }

    /// The rules of every route.
    pub(crate) fn routes(&self) -> Result<Routes> {
        for ((domain, _), handler) in &self.by_route {
            handler
                .rules
                .validate()
                .map_err(|invalid| Error::from(invalid).with("domain", domain))?;
        }
        Ok(self.those(|_| true))
    }

    /// Routes with an executor in this process.
    pub(crate) fn runnable(&self) -> Routes {
        self.those(|handler| handler.executor.is_some())
    }

    /// The routes whose handler matches `are`. A route for all types does not cover an event type
    /// with a route of its own, even if that route does not match.
    pub(crate) fn those(&self, are: impl Fn(&Handler) -> bool) -> Routes {
        let mut routes = Routes::new();
        for ((domain, event_types), handler) in &self.by_route {
            routes = match event_types {
                types if are(handler) => {
                    routes.with(domain.clone(), types.clone(), handler.rules.clone())
                }
                EventTypes::One(event_type) => routes.without(domain.clone(), event_type.clone()),
                EventTypes::Any => routes,
            };
        }
        routes
    }
}
