//! Reports changes of breakers.

use std::sync::Arc;

use clinch_core::ports::{CircuitState, Clock, Gate as _, Level, Meter, Tags, Tracer};
use clinch_protect::Destination;

/// Logs and counts every change of a breaker's state.
pub(crate) fn watch(
    destination: &Destination,
    clock: &Arc<dyn Clock>,
    meter: &Arc<dyn Meter>,
    tracer: &Arc<dyn Tracer>,
) {
    let (clock, meter, tracer) = (clock.clone(), meter.clone(), tracer.clone());
    let name = destination.destination().to_owned();
    destination.breaker().watch(Box::new(move |change| {
        let (level, message) = match change.state {
            CircuitState::Open => (Level::Warn, "breaker opened"),
            CircuitState::HalfOpen => (Level::Info, "breaker half open: a few calls test it"),
            CircuitState::Closed => (Level::Info, "breaker closed"),
        };
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
