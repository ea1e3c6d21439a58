//! The reasons why an operation is not running.

use serde_json::json;

use crate::world::{World, command};

pub(crate) fn of_the_queue(world: &World) {
    let client = &world.client;
    client.post("/v1/domains/stopped/pause", &json!({})).is(200);
    let id = world.submit("stopped", "ok", "h1");
    client.held(&id, "paused");
    client
        .post("/v1/domains/stopped/resume", &json!({}))
        .is(200);
    assert_eq!(client.settled(&id)["state"], "COMPLETED");
    let id = world.submit("away", "x", "h2");
    client.held(&id, "no_executor");
    let mut later = command("pay", "ok", "h3");
    later["run_at"] = json!("2200-01-01T00:00:00Z");
    let id = client.submit(&later).is(202).op_id();
    let hold = &client.held(&id, "delayed")["hold"];
    assert_eq!(hold["until"], "2200-01-01T00:00:00.000Z");
    let id = world.submit("pay", "refused", "h4");
    assert!(client.held(&id, "backoff")["hold"]["until"].is_string());
    let id = world.held("h5");
    client.held(&id, "effect_unknown");
}

/// Operations of one key run one at a time, in order of acceptance.
pub(crate) fn of_the_key(world: &World) {
    let client = &world.client;
    let with = |idem_key: &str| {
        let mut command = command("lane", "step", "lane-1");
        command["idem_key"] = json!(idem_key);
        client.submit(&command).is(202).op_id()
    };
    let (first, second) = (with("1"), with("2"));
    world.provider.arrival("lane-1");
    client.held(&second, "key_order");
    world.provider.answer("lane-1", 200);
    let (first, second) = (client.settled(&first), client.settled(&second));
    let at =
        |operation: &serde_json::Value, what: &str| operation[what].as_str().map(str::to_owned);
    assert!(at(&first, "finished_at") <= at(&second, "started_at"));
}

pub(crate) fn of_the_destination(world: &World) {
    let client = &world.client;
    let first = world.submit("pay", "limited", "g1");
    assert_eq!(client.settled(&first)["state"], "COMPLETED");
    let id = world.submit("pay", "limited", "g2");
    client.held(&id, "rate_limited");
    let id = world.submit("pay", "broken", "g3");
    client.held(&id, "breaker_open");
    // The first operation must retry; by then the second one occupies the only bulkhead slot.
    let first = world.submit("pay", "narrow", "g4");
    world.provider.arrival("g4");
    let second = world.submit("pay", "narrow", "g5");
    world.provider.answer("g4", 503);
    world.provider.arrival("g5");
    client.held(&first, "bulkhead_full");
    world.provider.answer("g4", 200);
    world.provider.answer("g5", 200);
    for id in [first, second] {
        assert_eq!(client.settled(&id)["state"], "COMPLETED");
    }
}
