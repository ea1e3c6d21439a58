//! The lag in `/metrics`.

use clinch_testbed::Kind;

use crate::http::{metric, until};
use crate::world::{World, on_both};

const PENDING: &str = "orchestrator_bus_pending";
const LAG: &str = "orchestrator_bus_lag";

/// The store is the queue: live operations are on loan, pending ones are behind.
fn the_store_is_the_queue(kind: Kind) {
    let world = World::new(kind, "lag");
    let first = world.serve("api");
    for number in 0..3 {
        world.submit(&first, "payments", &format!("order-{number}"));
    }
    assert_eq!(metric(first.address, LAG), Some(3.0));
    assert_eq!(metric(first.address, PENDING), Some(0.0));
    assert_eq!(metric(first.address, "orchestrator_operations"), Some(3.0));
    let oldest = "orchestrator_oldest_age";
    until(first.address, oldest, |age| age > 0.0);
    let second = world.serve_beside("api,worker,recovery", 2);
    for number in 0..3 {
        world.provider.arrival(&format!("order-{number}"));
    }
    assert_eq!(metric(second.address, PENDING), Some(3.0));
    assert_eq!(metric(second.address, LAG), Some(0.0));
    assert_eq!(metric(second.address, oldest), Some(0.0));
    let retries = "orchestrator_store_deadlock_retry_count_total";
    let told = metric(second.address, retries);
    assert_eq!(told.is_some(), kind == Kind::MariaDb, "{told:?}");
    for number in 0..3 {
        world.provider.answer(&format!("order-{number}"), 200);
    }
    for number in 0..3 {
        world.settled(&second, "payments", &format!("order-{number}"));
    }
    assert_eq!(metric(second.address, PENDING), Some(0.0));
    let dequeued = "orchestrator_pump_dequeue_count_total";
    assert_eq!(metric(second.address, dequeued), Some(3.0));
}

fn hints_over_redis(kind: Kind) {
    hints_over(kind, Kind::Redis);
}

fn hints_over_nats(kind: Kind) {
    hints_over(kind, Kind::Nats);
}

/// Hints over a bus: hints that no worker has taken are behind.
fn hints_over(kind: Kind, bus: Kind) {
    let world = World::new(kind, "hints");
    let url = clinch_testbed::shared(bus).expect("a server");
    let prefix = format!("metrics-{kind}-{}", std::process::id());
    let bus = format!("[bus]\nurl = \"{url}\"\nprefix = \"{prefix}\"\n");
    world.configure(&bus);
    let first = world.serve("api,recovery");
    for number in 0..3 {
        world.submit(&first, "payments", &format!("order-{number}"));
    }
    let published = "orchestrator_relay_published_count_total";
    until(first.address, published, |count| count == 3.0);
    assert_eq!(metric(first.address, LAG), Some(3.0));
    assert_eq!(metric(first.address, PENDING), Some(0.0));
    assert_eq!(
        metric(first.address, "orchestrator_delayed_size"),
        Some(0.0)
    );
    assert!(metric(first.address, "orchestrator_leader").is_some());
    let _second = world.serve_beside("api,worker", 2);
    for number in 0..3 {
        world.provider.arrival(&format!("order-{number}"));
    }
    // A hint is acked as soon as its attempt has begun.
    until(first.address, LAG, |count| count == 0.0);
    until(first.address, PENDING, |count| count == 0.0);
    for number in 0..3 {
        world.provider.answer(&format!("order-{number}"), 200);
    }
}

on_both! {
    the_store_is_the_queue =>
        out_9_the_lag_of_the_store_as_queue_is_told_on_postgres,
        out_9_the_lag_of_the_store_as_queue_is_told_on_mariadb;
    hints_over_redis =>
        out_9_the_lag_of_hints_over_redis_is_told_on_postgres,
        out_9_the_lag_of_hints_over_redis_is_told_on_mariadb;
    hints_over_nats =>
        out_9_the_lag_of_hints_over_nats_is_told_on_postgres,
        out_9_the_lag_of_hints_over_nats_is_told_on_mariadb;
}
