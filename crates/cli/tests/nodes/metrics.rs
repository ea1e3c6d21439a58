//! Metrics that only a node with a bus has.

use clinch_testbed::{Kind, Server};

use crate::node::Node;

/// The names that rules and panels use for the bus and its scheduler.
const NAMES: [&str; 7] = [
    "orchestrator_bus_pending",
    "orchestrator_bus_lag",
    "orchestrator_delayed_size",
    "orchestrator_leader",
    "orchestrator_bus_recovered_count_total",
    "orchestrator_scheduler_sleep_count_total",
    "orchestrator_scheduler_slept_ms_count_total",
];

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
}
