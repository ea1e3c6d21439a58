//! Remote workers.

use serde_json::{Value, json};

use crate::world::{World, command};

/// The report of an attempt, with its fence and token.
fn of(attempt: &Value, mut report: Value) -> Value {
    for name in ["fence", "token"] {
        report[name] = attempt[name].clone();
    }
    report
}

pub(crate) fn leases(world: &World) {
    let client = &world.client;
    let report =
        |id: &str, what: &str, body: Value| client.post(&format!("/v1/leases/{id}/{what}"), &body);
    world.submit("far", "x", "f1");
    let (id, first) = world.lease("far");
    let beat = report(&id, "heartbeat", of(&first, json!({"lease": "10m"}))).is(200);
    assert_eq!(beat.body["cancel_requested"], false);
    let page = json!({"checkpoint": {"page": 3}});
    report(&id, "checkpoint", of(&first, page)).is(200);
    strangers_are_refused(world, &id, &first);
    report(&id, "release", first.clone()).is(200);
    report(&id, "release", first.clone()).is(200);
    // The lease was given back: the old fence is no longer current.
    report(&id, "heartbeat", first.clone()).refused(409, "stale_fence");
    let stale = of(&first, json!({"checkpoint": 1}));
    report(&id, "checkpoint", stale).refused(409, "stale_fence");
    let fail = of(&first, json!({"type": "fail", "code": "x", "message": "y"}));
    report(&id, "outcome", fail.clone()).refused(409, "stale_fence");
    let (again, second) = world.lease("far");
    let newer = second["fence"].as_u64() > first["fence"].as_u64();
    assert_eq!((&again, newer), (&id, true));
    report(&id, "outcome", fail).refused(409, "stale_fence");
    // An Ok of the provider is a fact, however late the worker reports it.
    let ok = json!({"type": "ok", "provider_txn_id": "tx_1", "payload": {"rows": 3}});
    let ok = of(&first, ok);
    assert_eq!(
        report(&id, "outcome", ok.clone()).is(200).body["state"],
        "COMPLETED"
    );
    report(&id, "outcome", ok).is(200);
    report(&id, "release", second).refused(409, "stale_fence");
    world.submit("far", "x", "f2");
    let (id, attempt) = world.lease("far");
    let spawn = json!({"type": "ok", "spawn": [{"domain": "pay"}, command("pay", "ok", "f3")]});
    let kept = report(&id, "outcome", of(&attempt, spawn)).is(200);
    assert_eq!(kept.body["left_out"], json!(["spawn[0]"]));
    let listed = client.get("/v1/operations?biz_key=f3").is(200);
    assert_eq!(listed.body["operations"][0]["event_type"], "ok");
    let nowhere = client.post("/v1/leases", &json!({"domain": "nowhere"}));
    nowhere.refused(400, "unknown_route");
    let local = json!({"domain": "pay", "event_types": ["ok"]});
    client
        .post("/v1/leases", &local)
        .refused(400, "unknown_route");
}

/// A caller that has the fence of a lease but not its token changes nothing.
fn strangers_are_refused(world: &World, id: &str, attempt: &Value) {
    let reports = [
        ("heartbeat", json!({})),
        ("release", json!({})),
        ("checkpoint", json!({"checkpoint": 1})),
        ("outcome", json!({"type": "ok"})),
        ("outcome", json!({"type": "retry", "applied": "no"})),
        ("outcome", json!({"type": "fail", "code": "x"})),
    ];
    for (what, mut body) in reports {
        let path = format!("/v1/leases/{id}/{what}");
        body["fence"] = attempt["fence"].clone();
        world
            .client
            .post(&path, &body)
            .refused(400, "invalid_request");
        body["token"] = json!("0123456789abcdef0123456789abcdef");
        world.client.post(&path, &body).refused(409, "stale_fence");
        body["fence"] = json!(u64::MAX);
        world.client.post(&path, &body).refused(409, "stale_fence");
    }
}
