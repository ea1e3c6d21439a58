//! Remote workers.

use serde_json::{Value, json};

use crate::world::{World, command};

pub(crate) fn leases(world: &World) {
    let client = &world.client;
    let report =
        |id: &str, what: &str, body: Value| client.post(&format!("/v1/leases/{id}/{what}"), &body);
    world.submit("far", "x", "f1");
    let (id, fence) = world.lease("far");
    let beat = report(&id, "heartbeat", json!({"fence": fence, "lease": "10m"})).is(200);
    assert_eq!(beat.body["cancel_requested"], false);
    report(
        &id,
        "checkpoint",
        json!({"fence": fence, "checkpoint": {"page": 3}}),
    )
    .is(200);
    report(&id, "release", json!({"fence": fence})).is(200);
    report(&id, "release", json!({"fence": fence})).is(200);
    // Given back: whoever has the old fence is not the owner any more.
    report(&id, "heartbeat", json!({"fence": fence})).refused(409, "stale_fence");
    let stale = json!({"fence": fence, "checkpoint": 1});
    report(&id, "checkpoint", stale).refused(409, "stale_fence");
    let fail = json!({"fence": fence, "type": "fail", "code": "x", "message": "y"});
    report(&id, "outcome", fail.clone()).refused(409, "stale_fence");
    let (again, newer) = world.lease("far");
    assert_eq!((&again, newer > fence), (&id, true));
    report(&id, "outcome", fail).refused(409, "stale_fence");
    // A provider's yes is a fact, whoever brings it.
    let ok =
        json!({"fence": fence, "type": "ok", "provider_txn_id": "tx_1", "payload": {"rows": 3}});
    assert_eq!(
        report(&id, "outcome", ok.clone()).is(200).body["state"],
        "COMPLETED"
    );
    report(&id, "outcome", ok).is(200);
    report(&id, "release", json!({"fence": newer})).refused(409, "stale_fence");
    world.submit("far", "x", "f2");
    let (id, fence) = world.lease("far");
    let spawn = json!({"fence": fence, "type": "ok", "spawn": [{"domain": "pay"}]});
    report(&id, "outcome", spawn).refused(400, "invalid_command");
    let spawn = json!({"fence": fence, "type": "ok", "spawn": [command("pay", "ok", "f3")]});
    report(&id, "outcome", spawn).is(200);
    let listed = client.get("/v1/operations?biz_key=f3").is(200);
    assert_eq!(listed.body["operations"][0]["event_type"], "ok");
    let nowhere = client.post("/v1/leases", &json!({"domain": "nowhere"}));
    nowhere.refused(400, "unknown_route");
    let local = json!({"domain": "pay", "event_types": ["ok"]});
    client
        .post("/v1/leases", &local)
        .refused(400, "unknown_route");
}
