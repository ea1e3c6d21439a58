//! Remote workers.

use serde_json::{Value, json};

use crate::harness::{Reply, Running, command};

async fn hand_in(server: &Running, key: &str) -> String {
    server
        .post("/v1/operations?wait=0", &command("away", "call", key))
        .await
        .op_id()
}

async fn lease(server: &Running) -> Value {
    let body = json!({"domain": "away", "event_types": ["call"], "max": 1, "wait": "30s", "lease": "30s", "worker": "py-1"});
    let reply = server.post("/v1/leases", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.body["deliveries"][0].clone()
}

/// Reports on a delivery, with its fence and token unless the body has others.
async fn report(server: &Running, delivery: &Value, what: &str, mut body: Value) -> Reply {
    for name in ["fence", "token"] {
        if body.get(name).is_none() {
            body[name] = delivery[name].clone();
        }
    }
    let op_id = delivery["op_id"].as_str().expect("an id");
    server
        .post(&format!("/v1/leases/{op_id}/{what}"), &body)
        .await
}

#[tokio::test]
async fn a_worker_leases_beats_and_reports() {
    let server = Running::new().await;
    let op_id = hand_in(&server, "k1").await;
    let delivery = lease(&server).await;
    assert_eq!(delivery["op_id"], json!(op_id));
    assert_eq!(
        (&delivery["fence"], &delivery["attempt"]),
        (&json!(1), &json!(1))
    );
    assert!(delivery["outbound_key"].is_string());
    assert!(delivery["deadline"].is_string());
    assert_eq!(delivery["checkpoint"], Value::Null);
    assert_eq!(delivery["command"]["payload"], json!({"amount": 5000}));
    assert_eq!(delivery["command"]["idem_key"], "k1");
    assert!(delivery["lease_until"].is_string());
    let beat = report(&server, &delivery, "heartbeat", json!({})).await;
    assert_eq!(
        (beat.status, &beat.body["cancel_requested"]),
        (200, &json!(false))
    );
    server
        .post(&format!("/v1/operations/{op_id}/cancel"), &json!({}))
        .await;
    let beat = report(&server, &delivery, "heartbeat", json!({"lease": 60})).await;
    assert_eq!(beat.body["cancel_requested"], true);
    let spawn = command("away", "other", "spawned");
    let ok = json!({"worker": "py-1", "type": "ok", "provider_txn_id": "tx_7", "payload": {"a": 1}, "spawn": [spawn]});
    for _ in 0..2 {
        let reply = report(&server, &delivery, "outcome", ok.clone()).await;
        assert_eq!(
            (reply.status, &reply.body["state"]),
            (200, &json!("COMPLETED")),
            "{}",
            reply.text
        );
    }
    let done = server.settled(&op_id).await;
    assert_eq!(
        done["result"],
        json!({"provider_txn_id": "tx_7", "payload": {"a": 1}})
    );
    let spawned = server.get("/v1/operations?idem_key=spawned").await.body;
    assert_eq!(spawned["operations"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_stale_fence_is_409_but_an_ok_is_always_taken() {
    let server = Running::new().await;
    let op_id = hand_in(&server, "k1").await;
    let first = lease(&server).await;
    let released = report(&server, &first, "release", json!({})).await;
    assert_eq!(
        (released.status, &released.body["phase"]),
        (200, &json!("waiting")),
        "{}",
        released.text
    );
    let delivery = lease(&server).await;
    assert_eq!(
        (&delivery["fence"], &delivery["attempt"]),
        (&json!(2), &json!(1))
    );
    for (what, more) in [
        ("heartbeat", json!({})),
        ("checkpoint", json!({"checkpoint": 1})),
        (
            "outcome",
            json!({"type": "fail", "code": "no", "message": "no"}),
        ),
        (
            "outcome",
            json!({"type": "retry", "reason": "busy", "applied": "no"}),
        ),
    ] {
        let reply = report(&server, &first, what, more.clone()).await;
        assert_eq!(
            reply.is_problem(409, "stale_fence").body["op_id"],
            json!(op_id)
        );
        // The token of one attempt with the fence of another.
        let mut mixed = more;
        mixed["fence"] = delivery["fence"].clone();
        let reply = report(&server, &first, what, mixed).await;
        reply.is_problem(409, "stale_fence");
    }
    // The same report again is answered like the first.
    let again = report(&server, &first, "release", json!({})).await;
    assert_eq!(again.status, 200, "{}", again.text);
    let late = json!({"outcome": {"type": "ok", "provider_txn_id": "tx_late"}});
    let reply = report(&server, &first, "outcome", late).await;
    assert_eq!(
        (reply.status, &reply.body["state"]),
        (200, &json!("COMPLETED"))
    );
    let attempts = server
        .get(&format!("/v1/operations/{op_id}/attempts"))
        .await
        .body;
    assert_eq!(
        attempts["attempts"].as_array().map(Vec::len),
        Some(2),
        "{attempts}"
    );
}

#[tokio::test]
async fn outcomes_are_read_and_checkpoints_kept() {
    let server = Running::new().await;
    let op_id = hand_in(&server, "k1").await;
    let first = lease(&server).await;
    let kept = report(
        &server,
        &first,
        "checkpoint",
        json!({"checkpoint": {"page": 7}}),
    )
    .await;
    assert_eq!(kept.status, 200, "{}", kept.text);
    let retry = json!({"type": "retry", "reason": "busy", "after_ms": 0, "applied": "no"});
    let reply = report(&server, &first, "outcome", retry).await;
    assert_eq!(
        (reply.status, &reply.body["phase"]),
        (200, &json!("waiting"))
    );
    let delivery = lease(&server).await;
    assert_eq!(delivery["checkpoint"], json!({"page": 7}));
    assert_eq!(delivery["attempt"], 2);
    let fail = json!({"type": "fail", "code": "card_declined", "message": "no", "cause": "funds"});
    assert_eq!(
        report(&server, &delivery, "outcome", fail).await.body["state"],
        "FAILED"
    );
    let failure = server.settled(&op_id).await["failure"].clone();
    assert_eq!(
        (&failure["code"], &failure["cause"]),
        (&json!("card_declined"), &json!("funds"))
    );
    // Without `applied` the effect is unknown: an unsafe route holds the operation.
    hand_in(&server, "k2").await;
    let delivery = lease(&server).await;
    let reply = report(&server, &delivery, "outcome", json!({"type": "retry"})).await;
    assert_eq!(reply.body["phase"], "held", "{}", reply.text);
}

#[tokio::test]
async fn wrong_reports_name_their_field() {
    let server = Running::new().await;
    hand_in(&server, "k1").await;
    let delivery = lease(&server).await;
    for (what, body, field) in [
        ("heartbeat", json!({"fence": null}), "fence"),
        ("heartbeat", json!({"fence": -1}), "fence"),
        ("heartbeat", json!({"token": null}), "token"),
        ("heartbeat", json!({"token": "guess"}), "token"),
        ("heartbeat", json!({"token": 7}), "token"),
        ("heartbeat", json!({"lease": "soon"}), "lease"),
        ("release", json!({"token": null}), "token"),
        (
            "checkpoint",
            json!({"token": null, "checkpoint": 1}),
            "token",
        ),
        ("checkpoint", json!({}), "checkpoint"),
    ] {
        let reply = report(&server, &delivery, what, body).await;
        assert_eq!(
            reply.is_problem(400, "invalid_request").body["field"],
            field,
            "{}",
            reply.text
        );
    }
    let big = json!({"checkpoint": "x".repeat(70_000)});
    report(&server, &delivery, "checkpoint", big)
        .await
        .is_problem(413, "payload_too_large");
    let none = server
        .post("/v1/leases", &json!({"domain": "nowhere"}))
        .await;
    none.is_problem(400, "unknown_route");
    let none = server
        .post("/v1/leases", &json!({"domain": "away", "max": 0}))
        .await;
    assert_eq!(none.is_problem(400, "invalid_request").body["field"], "max");
    let nothing = server.post("/v1/leases", &json!({"domain": "away"})).await;
    assert_eq!(nothing.body, json!({"deliveries": []}));
}

#[tokio::test]
async fn wrong_outcomes_name_their_field() {
    let server = Running::new().await;
    hand_in(&server, "k1").await;
    let delivery = lease(&server).await;
    for (body, field) in [
        (json!({"token": null, "type": "ok"}), "token"),
        (json!({}), "type"),
        (json!({"type": "maybe"}), "type"),
        (json!({"type": "retry", "applied": "yes"}), "applied"),
        (json!({"type": "fail"}), "code"),
        (json!({"type": "fail", "code": "x", "extra": 1}), "extra"),
        (
            json!({"type": "fail", "code": "x", "after_ms": null}),
            "after_ms",
        ),
        (json!({"type": "retry", "after_ms": "soon"}), "after_ms"),
        (json!({"outcome": 7}), "outcome"),
        (
            json!({"outcome": {"type": "fail", "code": "x"}, "cause": "y"}),
            "cause",
        ),
        (
            json!({"outcome": {"type": "fail", "code": "x", "worker": "w"}}),
            "worker",
        ),
    ] {
        let reply = report(&server, &delivery, "outcome", body).await;
        assert_eq!(
            reply.is_problem(400, "invalid_request").body["field"],
            field,
            "{}",
            reply.text
        );
    }
}

/// Leases, reports ok with these fields, and returns the answer and the operation.
async fn says_yes(server: &Running, key: &str, fields: Value) -> (Reply, Value) {
    let op_id = hand_in(server, key).await;
    let delivery = lease(server).await;
    let mut ok = fields;
    ok["type"] = json!("ok");
    let reply = report(server, &delivery, "outcome", ok).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.body["state"], "COMPLETED", "{}", reply.text);
    (reply, server.settled(&op_id).await)
}

#[tokio::test]
async fn run_2_a_yes_is_kept_whatever_else_is_wrong_with_it() {
    let server = Running::new().await;
    let spawn = |key: &str| command("away", "other", key);
    let cases = [
        (
            "k1",
            json!({"spawn": [{"domain": "away"}, spawn("s1")]}),
            json!(["spawn[0]"]),
        ),
        ("k2", json!({"spawn": 7}), json!(["spawn"])),
        (
            "k3",
            json!({"provider_txn_id": 7}),
            json!(["provider_txn_id"]),
        ),
        (
            "k4",
            json!({"provider_txn_id": "x".repeat(256)}),
            json!(["provider_txn_id"]),
        ),
        ("k5", json!({"unheard": {"of": 1}}), json!(["unheard"])),
        ("k6", json!({"worker": "x".repeat(500)}), json!(["worker"])),
        ("k9", json!({"after_ms": "soon"}), json!(["after_ms"])),
        (
            "k10",
            json!({"worker": 7, "code": 7}),
            json!(["code", "worker"]),
        ),
        (
            "k7",
            json!({"spawn": [command("nowhere", "x", "s2")]}),
            json!(["spawn[0]"]),
        ),
    ];
    for (key, fields, left_out) in cases {
        let (reply, _) = says_yes(&server, key, fields).await;
        assert_eq!(reply.body["left_out"], left_out, "{key}: {}", reply.text);
    }
    let spawned = server.get("/v1/operations?idem_key=s1").await.body;
    assert_eq!(spawned["operations"].as_array().map(Vec::len), Some(1));
    let (reply, done) = says_yes(&server, "k8", json!({"payload": {"a": 1}})).await;
    assert_eq!(reply.body.get("left_out"), None, "nothing was left out");
    assert_eq!(done["result"]["payload"], json!({"a": 1}));
}

#[tokio::test]
async fn run_2_a_yes_whose_result_is_too_long_is_kept_with_the_beginning_of_it() {
    let server = Running::new().await;
    let long = json!({"text": "x".repeat(300_000)});
    let (reply, done) = says_yes(&server, "k1", json!({"payload": long})).await;
    assert_eq!(reply.body["left_out"], json!(["payload"]));
    let payload = &done["result"]["payload"];
    assert_eq!(payload["truncated"], true);
    let body = payload["body"].as_str().expect("a text");
    assert!(body.starts_with(r#"{"text":"xxx"#), "the beginning");
    // A body that is too long to read is 413, and the error says how to report the ok.
    let op_id = hand_in(&server, "k2").await;
    let delivery = lease(&server).await;
    let huge = json!({"type": "ok", "payload": "x".repeat(17 * 1024 * 1024)});
    let reply = report(&server, &delivery, "outcome", huge).await;
    let problem = reply.is_problem(413, "payload_too_large");
    let detail = problem.body["detail"].as_str().expect("a text");
    assert!(detail.contains("without"), "{detail}");
    let reply = report(&server, &delivery, "outcome", json!({"type": "ok"})).await;
    assert_eq!(reply.body["state"], "COMPLETED", "{}", reply.text);
    assert_eq!(server.settled(&op_id).await["attempts"], 1);
}
