//! Submitting, reading and acting on operations.

use serde_json::json;

use crate::world::{World, command};

pub(crate) fn submit(world: &World) {
    let client = &world.client;
    let first = client
        .post("/v1/operations?wait=60s", &command("pay", "ok", "s1"))
        .is(200);
    assert_eq!(first.body["state"], "COMPLETED");
    let location = format!("/v1/operations/{}", first.op_id());
    assert_eq!(first.header("location"), Some(location.as_str()));
    let failed = client.post("/v1/operations?wait=60s", &command("pay", "fail", "s2"));
    assert_eq!(failed.is(200).body["failure"]["code"], "http_402");
    let again = client.submit(&command("pay", "ok", "s1")).is(200);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.op_id(), first.op_id());
    let mut other = command("pay", "ok", "s1");
    other["payload"] = json!({"amount": 5001});
    let refused = client.submit(&other).refused(422, "idempotency_mismatch");
    assert_eq!(refused.op_id(), first.op_id());
    let mut invalid = command("pay", "ok", "s3");
    invalid["priority"] = json!(99);
    let invalid = client.submit(&invalid).refused(400, "invalid_command");
    assert_eq!(invalid.body["field"], "priority");
    let unknown = client.submit(&command("nowhere", "x", "s4"));
    let unknown = unknown.refused(400, "unknown_route");
    let detail = "no route is declared for the domain \"nowhere\" and the event type \"x\"; add a \
                  [[route]] with domain = \"nowhere\", event_type = \"x\" to the server's \
                  configuration file (clinch.toml) and restart the server";
    assert_eq!(unknown.body["detail"], detail, "and no more");
    let differs = client.send(
        "POST",
        "/v1/operations",
        &[
            ("content-type", "application/json"),
            ("idempotency-key", "b"),
        ],
        &command("pay", "ok", "a").to_string(),
    );
    differs.refused(400, "invalid_command");
}

/// The same operation within and beyond the caller's wait budget.
pub(crate) fn budget(world: &World) {
    let (client, asked) = (&world.client, command("pay", "gated", "b1"));
    let send = |prefer: &str| {
        let headers = [("content-type", "application/json"), ("prefer", prefer)];
        client.send("POST", "/v1/operations", &headers, &asked.to_string())
    };
    let late = send("wait=1").is(202);
    assert_eq!(late.header("preference-applied"), Some("wait=1"));
    assert!(late.header("retry-after").is_some());
    assert_eq!(late.body["state"], "IN_PROGRESS");
    assert_eq!(send("respond-async").is(202).op_id(), late.op_id());
    world.provider.answer("b1", 200);
    let within = send("wait=60").is(200);
    assert_eq!(within.op_id(), late.op_id());
    assert_eq!(within.body["state"], "COMPLETED");
    assert_eq!(world.provider.calls("gate"), 1, "one call for all of them");
}

pub(crate) fn bulk(world: &World) {
    let operations = json!({"operations": [
        command("pay", "ok", "m1"), {"domain": "pay"}, command("nowhere", "x", "m2"),
    ]});
    let reply = world
        .client
        .post("/v1/operations/bulk", &operations)
        .is(200);
    let statuses: Vec<_> = (0..3)
        .map(|i| &reply.body["results"][i]["status"])
        .collect();
    assert_eq!(statuses, [202, 400, 400], "{}", reply.text);
    assert_eq!(reply.body["results"][2]["error"]["code"], "unknown_route");
}

pub(crate) fn look(world: &World) {
    let client = &world.client;
    let id = world.submit("pay", "ok", "l1");
    assert_eq!(client.settled(&id)["state"], "COMPLETED");
    let ledger = client.get(&format!("/v1/operations/{id}/attempts")).is(200);
    assert_eq!(ledger.body["attempts"][0]["outcome"], "ok");
    let page = client.get("/v1/operations?domain=pay&state=COMPLETED&limit=1");
    let cursor = page.is(200).body["next_cursor"].as_str().map(str::to_owned);
    let cursor = cursor.expect("there are more");
    client
        .get(&format!("/v1/operations?cursor={cursor}"))
        .is(200);
    for wrong in ["limit=0", "state=DONE", "colour=red", "from=yesterday"] {
        let path = format!("/v1/operations?{wrong}");
        client.get(&path).refused(400, "invalid_request");
        let path = format!("/v1/dead-letters?{wrong}");
        client.get(&path).refused(400, "invalid_request");
    }
    let path = format!("/v1/operations/{id}?wait=soon");
    client.get(&path).refused(400, "invalid_request");
    let destinations = client.get("/v1/destinations").is(200).body;
    assert!(
        destinations["destinations"]
            .as_array()
            .is_some_and(|all| all.len() > 5)
    );
    client.get("/v1/domains").is(200);
    let retention = client.get("/v1/retention").is(200).body;
    assert_eq!(retention["held_back"], false, "{retention}");
    client.post("/v1/retention/confirm", &json!({})).is(200);
    for path in ["/healthz", "/readyz", "/metrics"] {
        client.get(path).is(200);
    }
    drop(world.events());
}

pub(crate) fn cancel(world: &World) {
    let client = &world.client;
    let cancel = |id: &str| {
        let path = format!("/v1/operations/{id}/cancel");
        client.post(&path, &json!({"reason": "changed my mind"}))
    };
    let waiting = world.submit("away", "x", "c1");
    assert_eq!(cancel(&waiting).is(200).body["failure"]["code"], "canceled");
    cancel(&waiting).is(200);
    let running = world.submit("pay", "gated", "c2");
    world.provider.arrival("c2");
    assert_eq!(cancel(&running).is(202).body["cancel_requested"], true);
    world.provider.answer("c2", 200);
    assert_eq!(client.settled(&running)["state"], "COMPLETED", "Ok wins");
    let refused = cancel(&running).refused(409, "terminal");
    assert_eq!(refused.op_id(), running);
}

pub(crate) fn resolve(world: &World) {
    let client = &world.client;
    let resolve = |id: &str, body| client.post(&format!("/v1/operations/{id}/resolve"), &body);
    let id = world.held("r1");
    let done = json!({"as": "completed", "provider_txn_id": "tx_7", "payload": {"n": 1}, "reason": "seen at the bank"});
    let resolved = resolve(&id, done.clone()).is(200).body;
    assert_eq!(resolved["state"], "COMPLETED");
    assert_eq!(resolved["result"]["provider_txn_id"], "tx_7");
    resolve(&id, done).refused(409, "not_held");
    let id = world.held("r2");
    let failed = json!({"as": "failed", "code": "not_charged", "message": "nothing there", "effect": "none", "reason": "asked"});
    let failure = &resolve(&id, failed).is(200).body["failure"];
    assert_eq!(
        (&failure["code"], &failure["effect"]),
        (&json!("not_charged"), &json!("none"))
    );
    let id = world.held("r3");
    let calls = world.provider.calls("500");
    resolve(&id, json!({"as": "retry", "reason": "once more"})).is(200);
    let path = format!("/v1/operations/{id}");
    client.until(&path, |body| {
        body["attempts"] == 2 && body["phase"] == "held"
    });
    assert_eq!(world.provider.calls("500"), calls + 1, "once, not twice");
    resolve(&id, json!({"as": "maybe"})).refused(400, "invalid_request");
    let twice = client.send(
        "POST",
        &format!("/v1/operations/{id}/resolve"),
        &[("content-type", "application/json")],
        r#"{"as":"completed","payload":{"a":1,"a":2}}"#,
    );
    twice.refused(400, "invalid_command");
}

pub(crate) fn dead_letters(world: &World) {
    let client = &world.client;
    let id = world.submit("pay", "fail", "d1");
    assert_eq!(client.settled(&id)["state"], "FAILED");
    client.get("/v1/dead-letters?group=true").is(200);
    let letter = client.get(&format!("/v1/dead-letters/{id}")).is(200);
    assert_eq!(letter.op_id(), id);
    let redrive = |dry_run: bool| {
        let ask = json!({"filter": {"op_ids": [id]}, "dry_run": dry_run});
        client.post("/v1/dead-letters/redrive", &ask).is(200).body
    };
    assert_eq!(redrive(true)["results"][0]["verdict"], "redrive");
    assert_eq!(redrive(false)["redriven"], 1);
    assert_eq!(redrive(false)["already"], 1, "twice is once");
    let id = world.submit("pay", "fail", "d2");
    assert_eq!(client.settled(&id)["state"], "FAILED");
    for action in ["dismiss", "reopen"] {
        let path = format!("/v1/dead-letters/{action}");
        let ask = json!({"filter": {"op_ids": [id]}, "reason": "known", "dry_run": false});
        assert_eq!(client.post(&path, &ask).is(200).body["changed"], 1);
        assert_eq!(client.post(&path, &ask).is(200).body["already"], 1);
        let ask = json!({"filter": {"op_ids": [id]}});
        client.post(&path, &ask).refused(400, "invalid_request");
    }
    client
        .get("/v1/dead-letters?status=done")
        .refused(400, "invalid_request");
}

pub(crate) fn domains(world: &World) {
    let client = &world.client;
    let paused = client.post("/v1/domains/spare/pause", &json!({"reason": "x"}));
    assert_eq!(paused.is(200).body["paused"], true);
    let resumed = client.send("POST", "/v1/domains/spare/resume", &[], "");
    assert_eq!(resumed.is(200).body["paused"], false);
    client.get("/v1/overview").is(200);
    let destinations = client.get("/v1/destinations").is(200).body;
    let first = destinations["destinations"][0]["destination"].as_str();
    let path = format!("/v1/destinations/{}", first.expect("a destination"));
    let open = client.post(
        &format!("{path}/open"),
        &json!({"for": "1h", "reason": "x"}),
    );
    assert_eq!(open.is(200).body["forced"], true);
    let reset = client.post(&format!("{path}/reset"), &json!({"reason": "x"}));
    assert_eq!(reset.is(200).body["state"], "ok");
}

pub(crate) fn batches(world: &World) {
    let client = &world.client;
    let open = |body| client.post("/v1/batches", &body);
    let batch = open(json!({"on_complete": command("away", "done", "t0")})).is(200);
    let id = batch.body["batch_id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/batches/{id}");
    let members = json!({"operations": [command("pay", "ok", "t1")]});
    client.post(&format!("{path}/operations"), &members).is(200);
    client.post(&format!("{path}/seal"), &json!({})).is(200);
    let batch = client.until(&path, |batch| batch["complete"] == true);
    assert_eq!(
        (&batch["total"], &batch["completed"]),
        (&json!(1), &json!(1))
    );
    open(json!({"on_complete": {"domain": "pay"}})).refused(400, "invalid_command");
    let unknown = json!({"on_complete": command("nowhere", "x", "t2")});
    open(unknown).refused(400, "unknown_route");
}
