//! Reports changes of breakers, and shares them with other processes.

use std::sync::Arc;

use clinch_core::ports::{CircuitState, Clock, Gate as _, Level, Meter, Records, Tags, Tracer};
use clinch_engine::{Orchestrator, Ports};
use clinch_protect::Destination;

use crate::shared_guards::{Reopened, SharedGuards};

/// Reports changes of breakers, and shares them with other processes if the store has records.
pub(crate) fn share(
    records: Option<Arc<dyn Records>>,
    ports: &Ports,
    destinations: &[Arc<Destination>],
) -> Option<Arc<SharedGuards>> {
    let shared = records.map(|records| {
        let (inspect, clock) = (ports.inspect.clone(), ports.clock.clone());
        SharedGuards::new(records, inspect, clock, ports.spawner.clone(), destinations)
    });
    for destination in destinations {
        let (clock, meter, tracer) = (&ports.clock, &ports.meter, &ports.tracer);
        watch(destination, clock, meter, tracer, shared.as_ref());
    }
    shared
}

/// Wakes work that waits for a destination, also when another process opened it.
pub(crate) fn wakes(orchestrator: Orchestrator, shared: Option<&SharedGuards>) -> Arc<Reopened> {
    let wakes: Arc<Reopened> = Arc::new(move || orchestrator.destination_opened());
    if let Some(shared) = shared {
        shared.when_reopened(&wakes);
    }
    wakes
}

/// Logs and counts every change of a breaker's state.
fn watch(
    destination: &Destination,
    clock: &Arc<dyn Clock>,
    meter: &Arc<dyn Meter>,
    tracer: &Arc<dyn Tracer>,
    shared: Option<&Arc<SharedGuards>>,
) {
    let shared = shared.map(Arc::downgrade).unwrap_or_default();
    let (clock, meter, tracer) = (clock.clone(), meter.clone(), tracer.clone());
    let name = destination.destination().to_owned();
    destination.breaker().watch(Box::new(move |change| {
        let (level, message) = match (change.state, change.is_told) {
            (CircuitState::Open, false) => (Level::Warn, "breaker opened"),
            (CircuitState::Open, true) => (Level::Warn, "breaker opened from outside"),
            (CircuitState::HalfOpen, _) => (Level::Info, "breaker half open: a few calls test it"),
            (CircuitState::Closed, false) => (Level::Info, "breaker closed"),
            (CircuitState::Closed, true) => (Level::Info, "breaker closed from outside"),
        };
        let is_news = !change.is_told && change.state != CircuitState::HalfOpen;
        if let Some(shared) = shared.upgrade().filter(|_| is_news) {
            shared.breaker_changed(&name);
        }
        let labels = [("destination", name.as_str())];
        let state = f64::from(change.state as u8);
        meter.set("orchestrator.breaker.state", &labels, state);
        let labels = [labels[0], ("state", change.state.as_str())];
        meter.add("orchestrator.breaker.transition.count", &labels, 1);
        let tags = Tags {
            destination: Some(&name),
            failure_rate: change.failure_rate,
            until: change.lasting.map(|lasting| clock.now() + lasting),
            ..Tags::default()
        };
        tracer.log(level, message, &tags);
    }));
}
