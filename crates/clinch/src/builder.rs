//! Combines routes, handlers, guards and a backend.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::{EventTypes, ProbeRules, Safety};
use clinch_core::ports::{
    Alert, Clock, Executor, Ids, Journal, LoadShed, Meter, PlainText, Probe, Sealer, Spawner,
    Tracer,
};
use clinch_core::{Domain, Error, ErrorKind, EventType, Result, WorkerId};
use clinch_engine::{Config, Handler, Handlers, Ports, Runtime};
use clinch_protect::{Chain, Destination, DestinationConfig};
use clinch_system::{SystemClock, SystemIds, TokioSpawner};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::handler::Typed;
use crate::missing::{self, Runners};
use crate::route::Spec;
use crate::safety_net::{NoFile, OnlyLogged};
use crate::types::{Classify, Probed, Telemetry};
use crate::{Backend, Call, Clinch, Done, Route, breakers};

/// Builds a [`Clinch`]. Settings that are not made have the recommended value.
///
/// ```
/// use std::time::Duration;
/// use clinch::{Backend, Call, Clinch, Retry, Route};
/// use clinch::policy::{DestinationConfig, QueueAge, RateConfig};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// let send: Route<String, ()> = Route::new("sms", "send").destination("carrier");
/// let limits = DestinationConfig {
///     rate: Some(RateConfig::new(50, Duration::from_secs(1))),
///     ..DestinationConfig::default()
/// };
/// let clinch = Clinch::builder()
///     .backend(Backend::memory())
///     .destination("carrier", limits)
///     .shed(QueueAge::default())
///     .concurrency(32)
///     .handle(&send, |_: Call<String>| async { Ok::<_, Retry>(()) })
///     .build()?;
/// assert_eq!(clinch.destinations()[0].name, "carrier");
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Builder {
    backend: Option<Backend>,
    routes: BTreeMap<(String, String), Declared>,
    destinations: BTreeMap<String, DestinationConfig>,
    own_destinations: BTreeMap<String, Arc<Destination>>,
    config: Option<Config>,
    concurrency: Option<usize>,
    checkpoint_max: usize,
    shed: Option<Arc<dyn LoadShed>>,
    sealer: Option<Arc<dyn Sealer>>,
    alert: Option<Arc<dyn Alert>>,
    spill: Option<Arc<dyn Journal>>,
    dead_letters: Option<Arc<dyn Journal>>,
    telemetry: Option<Telemetry>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    spawner: Option<Arc<dyn Spawner>>,
    /// The first contradiction between the settings.
    problem: Option<Error>,
}

struct Declared {
    spec: Spec,
    executor: Option<Arc<dyn Executor>>,
    probe: Option<Arc<dyn Probe>>,
    leased: bool,
}

impl Builder {
    /// The store and bus. Required.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Sets the function that makes the calls of the route.
    #[must_use]
    pub fn handle<I, O, F, Fut, R, E>(self, route: &Route<I, O>, handler: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(Call<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Done<O>> + Send + 'static,
        E: Classify + Send + 'static,
    {
        let executor = Arc::new(Typed::<I, O, F>::new(handler));
        self.declare(route, |declared| {
            let first = declared.executor.replace(executor).is_none();
            first.then_some(()).ok_or("the route has two handlers")
        })
    }

    /// Sets the function that asks the provider what became of a call of the route.
    #[must_use]
    pub fn probe<I, O, F, Fut, E>(self, route: &Route<I, O>, probe: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(Call<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Probed<O>, E>> + Send + 'static,
        E: Send + 'static,
    {
        let probe = Arc::new(Typed::<I, O, F>::new(probe));
        self.declare(route, |declared| {
            let first = declared.probe.replace(probe).is_none();
            first.then_some(()).ok_or("the route has two probes")
        })
    }

    /// Sets an executor of your own for the calls of the route, without typed input and output.
    #[must_use]
    pub fn execute_with<I, O>(self, route: &Route<I, O>, executor: Arc<dyn Executor>) -> Self {
        self.declare(route, |declared| {
            let first = declared.executor.replace(executor).is_none();
            first.then_some(()).ok_or("the route has two handlers")
        })
    }

    /// Sets a probe of your own, without typed input and output.
    #[must_use]
    pub fn probe_with<I, O>(self, route: &Route<I, O>, probe: Arc<dyn Probe>) -> Self {
        self.declare(route, |declared| {
            let first = declared.probe.replace(probe).is_none();
            first.then_some(()).ok_or("the route has two probes")
        })
    }

    /// Declares a route whose calls other processes make. This process may accept its operations.
    #[must_use]
    pub fn remote<I, O>(self, route: &Route<I, O>) -> Self {
        self.declare(route, |_| Ok(()))
    }

    /// Declares a route whose calls remote workers make: they lease attempts and report on them.
    /// The guards of its destination apply to the leases. They have no defaults: only guards set
    /// with [`Builder::destination`] exist.
    #[must_use]
    pub fn leased<I, O>(self, route: &Route<I, O>) -> Self {
        self.declare(route, |declared| {
            declared.leased = true;
            Ok(())
        })
    }

    /// Sets the guards that routes with this destination share.
    #[must_use]
    pub fn destination(mut self, name: impl Into<String>, guards: DestinationConfig) -> Self {
        let name = name.into();
        if self.own_destinations.contains_key(&name) {
            self.problem.get_or_insert_with(|| guarded_twice(&name));
        }
        self.destinations.insert(name, guards);
        self
    }

    /// Sets guards of your own, for example a rate limit that several processes share.
    #[must_use]
    pub fn guarded_by(mut self, destination: Arc<Destination>) -> Self {
        let name = destination.status().name;
        if self.destinations.contains_key(&name) {
            self.problem.get_or_insert_with(|| guarded_twice(&name));
        }
        self.own_destinations.insert(name, destination);
        self
    }

    /// Sheds new work while too much due work waits.
    #[must_use]
    pub fn shed(mut self, policy: impl LoadShed + 'static) -> Self {
        self.shed = Some(Arc::new(policy));
        self
    }

    /// Concurrent attempts from the queue, and as many again for callers that wait.
    #[must_use]
    pub fn concurrency(mut self, attempts: usize) -> Self {
        self.concurrency = Some(attempts);
        self
    }

    /// Sets every parameter of the engine.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Raises the maximum size of a checkpoint, if `bytes` is more than the configuration says.
    #[must_use]
    pub fn checkpoint_max(mut self, bytes: usize) -> Self {
        self.checkpoint_max = self.checkpoint_max.max(bytes);
        self
    }

    /// Sets a sealer, which payloads and results pass before any adapter sees them.
    #[must_use]
    pub fn sealer(mut self, sealer: impl Sealer + 'static) -> Self {
        self.sealer = Some(Arc::new(sealer));
        self
    }

    /// Sets where alerts go. By default alerts are logged as errors.
    #[must_use]
    pub fn alert(mut self, alert: impl Alert + 'static) -> Self {
        self.alert = Some(Arc::new(alert));
        self
    }

    /// Sets files for answers and dead letters that the store does not take, such as
    /// [`FileJournal`](clinch_system::FileJournal)s. Without them such an answer is offered to the
    /// store for as long as the process lives.
    #[must_use]
    pub fn safety_net(
        mut self,
        spill: impl Journal + 'static,
        dead_letters: impl Journal + 'static,
    ) -> Self {
        self.spill = Some(Arc::new(spill));
        self.dead_letters = Some(Arc::new(dead_letters));
        self
    }

    /// Sets only the dead-letter file, for a program that only imports it:
    /// [`Runtime::import_dead_letters`].
    #[must_use]
    pub fn dead_letter_file(mut self, dead_letters: impl Journal + 'static) -> Self {
        self.dead_letters = Some(Arc::new(dead_letters));
        self
    }

    /// Sets what is counted, traced and logged.
    #[must_use]
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = Some(telemetry);
        self
    }

    /// Sets another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    fn declare<I, O>(
        mut self,
        route: &Route<I, O>,
        change: impl FnOnce(&mut Declared) -> Result<(), &'static str>,
    ) -> Self {
        let spec = &route.spec;
        let names = (spec.domain.clone(), spec.event_type.clone());
        let declared = self.routes.entry(names).or_insert_with(|| Declared {
            spec: spec.clone(),
            executor: None,
            probe: None,
            leased: false,
        });
        let same = if declared.spec.says_the_same_as(spec) {
            Ok(())
        } else {
            Err("the route is declared twice, with different policies")
        };
        if let Err(problem) = same.and_then(|()| change(declared)) {
            self.problem.get_or_insert_with(|| of_route(spec, problem));
        }
        self
    }

    /// Refuses contradictory settings. Runs nothing by itself: see [`Clinch::run`].
    pub fn build(self) -> Result<Clinch> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let backend = self.backend.ok_or_else(missing::no_backend)?;
        let has_handlers = self.routes.values().any(|one| one.executor.is_some());
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let ids = Arc::new(SystemIds);
        let spawner = match self.spawner {
            Some(spawner) => spawner,
            None => Arc::new(TokioSpawner::current()?),
        };
        let mut config = match self.config {
            Some(config) => config,
            None => Config::new(worker(ids.as_ref())?),
        };
        let guards = Guards {
            clock: clock.clone(),
            lease: config.lease,
            configs: self.destinations,
            made: self.own_destinations,
        };
        let (handlers, destinations) = guards.handlers(self.routes)?;
        config.concurrency = self.concurrency.unwrap_or(config.concurrency);
        config.checkpoint_bytes_max = config.checkpoint_bytes_max.max(self.checkpoint_max);
        config.store_address = config.store_address.or(backend.store_address);
        config.bus_address = config.bus_address.or(backend.bus_address);
        let telemetry = Arc::new(self.telemetry.unwrap_or_default());
        let must_refuse = self.sealer.as_ref().and(backend.sql_accept);
        let no_file = || Arc::new(NoFile) as Arc<dyn Journal>;
        let meter: Arc<dyn Meter> = telemetry.clone();
        let tracer: Arc<dyn Tracer> = telemetry;
        let ports = Ports {
            store: backend.store,
            outbox: backend.outbox,
            recovery: backend.recovery,
            batches: backend.batches,
            domains: backend.domains.clone(),
            inspect: backend.inspect,
            notices: backend.notices,
            dispatch: backend.dispatch.clone(),
            sealer: self.sealer.unwrap_or_else(|| Arc::new(PlainText)),
            spill: self.spill.unwrap_or_else(no_file),
            dead_letter_file: self.dead_letters.unwrap_or_else(no_file),
            alert: self.alert.unwrap_or_else(|| Arc::new(OnlyLogged)),
            clock,
            ids,
            spawner,
            shed: self.shed,
            meter: meter.clone(),
            tracer,
        };
        let shared_guards = breakers::share(backend.records, &ports, &destinations);
        let runtime = Runtime::new(ports, handlers, config)?;
        let orchestrator = runtime.orchestrator();
        Ok(Clinch {
            reopened: breakers::wakes(orchestrator.clone(), shared_guards.as_deref()),
            orchestrator,
            runtime,
            runners: Arc::new(Runners::new(has_handlers)),
            shared_guards,
            destinations: destinations.into(),
            meter,
            domains: backend.domains,
            dispatch: backend.dispatch,
            counted: backend.counted.into(),
            must_refuse,
        })
    }
}

/// Creates each destination once.
struct Guards {
    clock: Arc<dyn Clock>,
    /// The lease of every attempt.
    lease: Duration,
    configs: BTreeMap<String, DestinationConfig>,
    made: BTreeMap<String, Arc<Destination>>,
}

impl Guards {
    fn handlers(
        mut self,
        routes: BTreeMap<(String, String), Declared>,
    ) -> Result<(Handlers, Vec<Arc<Destination>>)> {
        let mut handlers = Handlers::new();
        let named: Vec<_> = routes
            .values()
            .map(|one| one.spec.destination_name())
            .collect();
        for declared in routes.into_values() {
            let domain = Domain::new(&declared.spec.domain)?;
            let event_types = match declared.spec.event_type.as_str() {
                "*" => EventTypes::Any,
                one => EventTypes::One(EventType::new(one)?),
            };
            handlers = handlers.with(domain, event_types, self.handler(declared)?);
        }
        if let Some(name) = self.configs.keys().find(|name| !named.contains(*name)) {
            let message = "guards were given for a destination that no route names";
            return Err(Error::new(ErrorKind::Invalid, message).with("destination", name));
        }
        Ok((handlers, self.made.into_values().collect()))
    }

    fn handler(&mut self, declared: Declared) -> Result<Handler> {
        let Declared {
            spec,
            executor,
            probe,
            leased,
        } = declared;
        if leased && executor.is_some() {
            return Err(of_route(
                &spec,
                "the route has a handler and is for remote workers",
            ));
        }
        spec.timeouts.validate()?;
        if spec.fallback.is_some() && spec.rules.safety != Safety::Natural {
            let message = "a fallback needs a natural route: an answer of our own must not stand \
                           for a call that may have been applied";
            return Err(of_route(&spec, message));
        }
        if let Safety::Keyed { .. } = spec.rules.safety
            && spec.timeouts.total > self.lease + spec.rules.margin
        {
            let message = "total_timeout must not be longer than lease and margin together: a \
                           late copy could be sent when the provider has forgotten the key";
            return Err(of_route(&spec, message));
        }
        let mut rules = spec.rules.clone();
        if probe.is_some() {
            rules.probe.get_or_insert_with(ProbeRules::default);
        }
        let mut handler = Handler::new(rules);
        handler.idempotency = spec.idempotency;
        handler.leased = leased;
        handler.lease_max = spec.lease_max;
        if leased || probe.is_some() {
            let destination = self.destination(&spec, leased)?;
            handler.gate = Chain::gate_of(destination, spec.fallback.is_some());
        }
        handler.internal = spec.internal;
        handler.probe = probe;
        // A call is logged as slow before it reaches its timeout.
        handler.slow = Some(spec.timeouts.per_attempt.mul_f64(0.8));
        if let Some(executor) = executor {
            let destination = self.destination(&spec, false)?;
            let mut chain = Chain::new(executor, destination, self.clock.clone())
                .timeouts(Arc::new(spec.timeouts))
                .retries(&spec.rules.retry);
            if let Some(hedge) = spec.hedge {
                hedge.validate()?;
                chain = chain.hedge(Arc::new(hedge));
            }
            if let Some(fallback) = spec.fallback {
                chain = chain.fallback(fallback);
            }
            handler.gate = chain.gate();
            handler.executor = Some(Arc::new(chain));
        }
        Ok(handler)
    }

    /// A destination that only remote workers call has exactly the guards that were set for it.
    fn destination(&mut self, spec: &Spec, leased: bool) -> Result<Arc<Destination>> {
        let name = spec.destination_name();
        if let Some(made) = self.made.get(&name) {
            return Ok(made.clone());
        }
        let unsaid = || match leased {
            true => DestinationConfig::NONE,
            false => DestinationConfig::default(),
        };
        let config = self.configs.get(&name).cloned().unwrap_or_else(unsaid);
        let made = Destination::new(name.clone(), self.clock.clone(), config)?;
        let made = Arc::new(made);
        self.made.insert(name, made.clone());
        Ok(made)
    }
}

fn guarded_twice(name: &str) -> Error {
    let message = "guards were given twice for this destination";
    Error::new(ErrorKind::Invalid, message).with("destination", name)
}

fn of_route(spec: &Spec, message: &str) -> Error {
    Error::new(ErrorKind::Invalid, message)
        .with("domain", &spec.domain)
        .with("event_type", &spec.event_type)
}

/// The name of this process on claims and ledger lines.
fn worker(ids: &dyn Ids) -> Result<WorkerId> {
    let id = ids.attempt_id().to_string();
    let short = id.get(id.len().saturating_sub(12)..).unwrap_or(&id);
    let name = format!("clinch-{}-{short}", std::process::id());
    Ok(WorkerId::new(name)?)
}
