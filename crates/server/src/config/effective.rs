//! The configuration with every value that is in effect, for `--print-config`.
//!
//! A key that is left out has a default that depends on other keys: the retry preset, the other
//! routes of the destination, whether this server makes the calls. The printed configuration says
//! each of them, and means the same as the one that was read.

use clinch_protect::{CircuitConfig, DestinationConfig, Window};

use super::{BreakerConfig, Config, RateLimit, RetryConfig, RouteConfig, Span};

impl Config {
    /// Fills in the destination, timeout, retries and guards of every route.
    pub(super) fn effective(&self) -> Self {
        let destinations = self.destinations().unwrap_or_default();
        let mut config = self.clone();
        for route in &mut config.route {
            route.destination = route.destination_name();
            if !route.remote {
                route.timeout = Some(Span(route.call_timeout()));
            }
            if let Some(guards) = destinations.get(&route.destination) {
                fill_guards(route, guards);
            }
            fill_retry(route);
        }
        config
    }
}

fn fill_retry(route: &mut RouteConfig) {
    let Ok(rules) = route.retry_rules() else {
        return;
    };
    route.retry = RetryConfig {
        preset: match route.retry.preset.as_str() {
            "" => "worker".to_owned(),
            named => named.to_owned(),
        },
        max_attempts: Some(rules.max_attempts),
        base: Some(Span(rules.backoff.base)),
        cap: Some(Span(rules.backoff.cap)),
        jitter: Some(rules.backoff.jitter),
        retry_after_max: Some(Span(rules.retry_after_max)),
        budget: route.retry.budget,
    };
}

/// Guards belong to the destination: a route shows those that another route of it set.
fn fill_guards(route: &mut RouteConfig, guards: &DestinationConfig) {
    route.breaker = guards.breaker.as_ref().map(breaker);
    let concurrency = guards.concurrency.as_ref();
    route.concurrency = concurrency.map(|limit| limit.max_concurrent);
    route.rate = guards.rate.as_ref().map(|rate| RateLimit {
        permits: rate.permits,
        per: Span(rate.per),
    });
    route.retry.budget = guards.budget.as_ref().map(|budget| budget.ratio);
}

fn breaker(circuit: &CircuitConfig) -> BreakerConfig {
    let unset = BreakerConfig::default();
    BreakerConfig {
        failure_rate: circuit.failure_rate,
        slow_rate: circuit.slow_rate,
        slow: Span(circuit.slow),
        window: match circuit.window {
            Window::Count(calls) => calls,
            // `[[route]]` has no key for a window of time.
            _ => unset.window,
        },
        min_calls: circuit.min_calls,
        open: Span(circuit.open),
        half_open: circuit.half_open,
    }
}
