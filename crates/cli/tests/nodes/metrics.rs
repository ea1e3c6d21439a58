//! Metrics that only a node with a bus has.

use std::time::Duration;

use clinch_testbed::{Kind, Server, wait_until};

use crate::node::Node;

/// The scheduler sleeps for ten seconds at most.
const PATIENCE: Duration = Duration::from_secs(60);
const SLEEPS: &str = "orchestrator_scheduler_sleep_count_total";
const SLEPT: &str = "orchestrator_scheduler_slept_ms_count_total";

/// The names that rules and panels use for the bus and its scheduler.
const NAMES: [&str; 7] = [
    "orchestrator_bus_pending",
    "orchestrator_bus_lag",
    "orchestrator_delayed_size",
    "orchestrator_leader",
    "orchestrator_bus_recovered_count_total",
    SLEEPS,
    SLEPT,
];

/// A counter without labels in the text of `/metrics`.
fn value(text: &str, name: &str) -> f64 {
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok())
        .unwrap_or(0.0)
}

pub(crate) fn a_node_with_redis_has_every_metric_of_the_bus() {
    let redis = Server::start(Kind::Redis).expect("a bus");
    let config = format!(
        "[bus]\nurl = \"{}\"\n[[route]]\nname = \"charge\"\ndomain = \"payments\"\n\
         event_type = \"charge\"\nremote = true\n",
        redis.url()
    );
    let node = Node::start(&config, "api,worker,recovery", &[]);
    let text = node.text("/metrics");
    for name in NAMES {
        let is_there = text.lines().any(|line| line.starts_with(name));
        assert!(is_there, "no {name} in\n{text}");
    }
    // The number and the time of its sleeps, and not one for the other.
    let has_slept = wait_until(PATIENCE, || value(&node.text("/metrics"), SLEPT) > 0.0);
    let text = node.text("/metrics");
    let (sleeps, slept) = (value(&text, SLEEPS), value(&text, SLEPT));
    assert!(has_slept && sleeps > 0.0, "{text}");
    assert!(
        slept / sleeps >= 1.0,
        "{sleeps} sleeps in {slept} milliseconds"
    );
}
