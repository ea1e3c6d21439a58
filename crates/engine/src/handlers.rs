//! What is declared for a domain and its event types, and which destinations are called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clinch_core::policy::{EventTypes, Idempotency, Routes, Rules};
use clinch_core::ports::{Executor, Gate, Probe, Reason, Room, Topic, Unguarded};
use clinch_core::{Domain, Error, EventType, Result};

use crate::Orchestrator;
use crate::execute::{Reservations, Rest};

/// What is declared for a domain and its event types.
#[derive(Clone)]
pub struct Handler {
    /// Makes the call; `None` if other processes do.
    pub executor: Option<Arc<dyn Executor>>,
    /// Asks what became of a call; `None` if nobody here can.
    pub probe: Option<Arc<dyn Probe>>,
    /// What the protocol looks at.
    pub rules: Rules,
    /// What the provider sees as the key.
    pub idempotency: Idempotency,
    /// How much room the destination has. Nothing is claimed for one without.
    pub gate: Arc<dyn Gate>,
    /// A call that takes longer is worth a warning.
    pub slow: Option<Duration>,
    /// Remote workers lease its attempts; no executor of ours makes its calls.
    pub leased: bool,
    /// No lease and no extension is longer.
    pub lease_max: Option<Duration>,
    /// Only the application that declares the route submits and executes its operations: no
    /// request of a caller and no remote worker may.
    pub internal: bool,
}

impl Handler {
    /// A route that other processes execute, without guards.
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
    by_route: BTreeMap<(Domain, EventTypes), Handler>,
}

/// The routes that this process executes for one destination.
pub(crate) struct Lot {
    pub gate: Arc<dyn Gate>,
    pub domains: Vec<Domain>,
    /// Where its hints wait.
    pub topics: Vec<Topic>,
    pub routes: Arc<Routes>,
    pub rest: Rest,
    pub reservations: Reservations,
    /// More hints for it may be waiting on the bus.
    pub busy: AtomicBool,
    /// When it was last seen closed by its breaker, its provider or its rate, in milliseconds of
    /// the monotonic clock.
    closed_at: AtomicU64,
}

impl Lot {
    /// Notes why it takes no call now: while it waits for its provider, no work of it is late.
    pub(crate) fn note_closed(&self, room: Room, now: Duration) {
        if room.reason != Some(Reason::BulkheadFull) {
            let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            self.closed_at.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// Until then, on the monotonic clock, it waited for its provider, as far as was seen.
    pub(crate) fn closed_until(&self) -> Duration {
        Duration::from_millis(self.closed_at.load(Ordering::Relaxed))
    }
}

/// What has no guards waits with what is for everybody.
pub(crate) fn topic(domain: &Domain, gate: &dyn Gate) -> Topic {
    match gate.destination() {
        "" => Topic::of(domain),
        destination => Topic::at(domain, destination),
    }
}

impl Handlers {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a route; one declared before for the same types is replaced.
    #[must_use]
    pub fn with(mut self, domain: Domain, event_types: EventTypes, handler: Handler) -> Self {
        self.by_route.insert((domain, event_types), handler);
        self
    }

    /// Where a hint for this event waits. Who does not know the route asks everybody.
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

    /// No routes, and a type with a route of its own is left out of one for all types.
    pub(crate) fn none_of(&self, domain: &Domain) -> Routes {
        let mut routes = Routes::new();
        for (types, _) in self.of(domain) {
            if let EventTypes::One(one) = types {
                routes = routes.without(domain.clone(), one.clone());
            }
        }
        routes
    }

    /// The most specific handler.
    pub(crate) fn find(&self, domain: &Domain, event_type: &EventType) -> Option<&Handler> {
        let one = (domain.clone(), EventTypes::One(event_type.clone()));
        let any = || (domain.clone(), EventTypes::Any);
        self.by_route
            .get(&one)
            .or_else(|| self.by_route.get(&any()))
    }

    /// The event type has a route of its own.
    pub(crate) fn is_named(&self, domain: &Domain, event_type: &EventType) -> bool {
        let one = (domain.clone(), EventTypes::One(event_type.clone()));
        self.by_route.contains_key(&one)
    }

    /// Every handler with its domain, in the order of the domains.
    pub(crate) fn by_domain(&self) -> impl Iterator<Item = (&Domain, &Handler)> {
        self.by_route
            .iter()
            .map(|((domain, _), handler)| (domain, handler))
    }

    /// The most specific route is for its application only.
    pub(crate) fn is_internal(&self, domain: &Domain, event_type: &EventType) -> bool {
        self.find(domain, event_type)
            .is_some_and(|handler| handler.internal)
    }

    /// The destinations that some routes call from here.
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

    /// Those with an executor here.
    pub(crate) fn runnable(&self) -> Routes {
        self.those(|handler| handler.executor.is_some())
    }

    /// What this process executes, by destination. A domain whose event types go to several
    /// destinations is in several lots.
    pub(crate) fn lots(&self) -> Vec<Lot> {
        let runnable = |handler: &&Handler| handler.executor.is_some();
        let mut gates = BTreeMap::new();
        for handler in self.by_route.values().filter(runnable) {
            let gate = handler.gate.clone();
            gates.entry(gate.destination().to_owned()).or_insert(gate);
        }
        let lot = |(destination, gate): (String, Arc<dyn Gate>)| {
            let ours = |h: &Handler| h.executor.is_some() && h.gate.destination() == destination;
            let routes = self.those(ours);
            let mut domains: Vec<_> = routes.iter().map(|(domain, ..)| domain.clone()).collect();
            domains.dedup();
            let at = |domain: &Domain| topic(domain, &*gate);
            Lot {
                topics: domains.iter().map(at).collect(),
                gate,
                domains,
                routes: Arc::new(routes),
                rest: Rest::default(),
                reservations: Reservations::default(),
                busy: AtomicBool::new(false),
                closed_at: AtomicU64::new(0),
            }
        };
        gates.into_iter().map(lot).collect()
    }

    /// Some of the routes. A type with a route of its own that is not among them is not
    /// covered by one for all types either.
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

/// What a face of the engine has to know of the routes that it serves.
impl Orchestrator {
    /// Only the application that declares the route of these operations may submit and execute
    /// them. Whoever takes commands from callers refuses such a command.
    pub fn is_internal(&self, domain: &Domain, event_type: &EventType) -> bool {
        self.node.handlers.is_internal(domain, event_type)
    }

    /// Remote workers may lease operations of this event type from this process.
    pub fn is_remote(&self, domain: &Domain, event_type: &EventType) -> bool {
        let handler = self.node.handlers.find(domain, event_type);
        handler.is_some_and(|handler| handler.executor.is_none() && !handler.internal)
    }

    /// The destinations that the routes of `of` call from this process.
    pub fn destinations(&self, of: impl Fn(&Domain, &EventTypes) -> bool) -> BTreeSet<String> {
        self.node.handlers.destinations(of)
    }
}
