//! What is declared for a domain and its event types, and which destinations are called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clinch_core::policy::{EventTypes, Idempotency, Routes, Rules};
use clinch_core::ports::{Executor, Gate, Probe, Reason, Topic, Unguarded};
use clinch_core::{Domain, Error, EventType, Result};

use crate::execute::{OnTheWay, Rest};

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
        }
    }
}

impl Handler {
    /// Its provider is failing, or asked to be left alone; more than full or used up.
    pub(crate) fn is_closed_by_its_provider(&self) -> bool {
        let room = self.gate.room();
        let reason = matches!(room.reason, Some(Reason::BreakerOpen | Reason::Paused));
        room.is_closed() && reason
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
    pub on_the_way: OnTheWay,
    /// More hints for it may be waiting on the bus.
    pub busy: AtomicBool,
}

/// What has no guards waits with what is for everybody.
fn topic(domain: &Domain, gate: &dyn Gate) -> Topic {
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

    /// Where hints for these routes wait, and what is for everybody.
    pub(crate) fn topics(&self, domain: &Domain, routes: &Routes) -> Vec<Topic> {
        let own = routes.iter().filter_map(|(of, types, _)| {
            let find = |types| self.by_route.get(&(of.clone(), types));
            let handler = find(types.clone()).or_else(|| find(EventTypes::Any))?;
            Some(topic(of, &*handler.gate))
        });
        let named = own.chain([Topic::of(domain)]);
        let topics: BTreeSet<_> = named.collect();
        topics.into_iter().collect()
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

    /// A provider that calls of this domain go to is failing, or asked to be left alone.
    pub(crate) fn is_closed_by_a_provider(&self, domain: &Domain) -> bool {
        let routes = self.by_route.iter().filter(|((of, _), _)| of == domain);
        routes
            .into_iter()
            .any(|(_, handler)| handler.is_closed_by_its_provider())
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
                on_the_way: OnTheWay::default(),
                busy: AtomicBool::new(false),
            }
        };
        gates.into_iter().map(lot).collect()
    }

    /// Some of the routes. A type with a route of its own that is not among them is not
    /// covered by one for all types either.
    fn those(&self, are: impl Fn(&Handler) -> bool) -> Routes {
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
