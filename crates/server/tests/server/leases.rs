//! Workers in other languages.

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

async fn report(server: &Running, op_id: &str, what: &str, body: Value) -> Reply {
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
    let beat = report(&server, &op_id, "heartbeat", json!({"fence": 1})).await;
    assert_eq!(
        (beat.status, &beat.body["cancel_requested"]),
        (200, &json!(false))
    );
    server
        .post(&format!("/v1/operations/{op_id}/cancel"), &json!({}))
        .await;
    let beat = report(
        &server,
        &op_id,
        "heartbeat",
        json!({"fence": 1, "lease": 60}),
    )
    .await;
    assert_eq!(beat.body["cancel_requested"], true);
    let spawn = command("away", "other", "spawned");
    let ok = json!({"fence": 1, "worker": "py-1", "type": "ok", "provider_txn_id": "tx_7", "payload": {"a": 1}, "spawn": [spawn]});
    for _ in 0..2 {
        let reply = report(&server, &op_id, "outcome", ok.clone()).await;
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
    lease(&server).await;
    let released = report(&server, &op_id, "release", json!({"fence": 1})).await;
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
        let mut body = more;
        body["fence"] = json!(1);
        let reply = report(&server, &op_id, what, body).await;
        assert_eq!(
            reply.is_problem(409, "stale_fence").body["op_id"],
            json!(op_id)
        );
    }
    // The same report again is answered like the first.
    let again = report(&server, &op_id, "release", json!({"fence": 1})).await;
    assert_eq!(again.status, 200, "{}", again.text);
    let late = json!({"fence": 1, "outcome": {"type": "ok", "provider_txn_id": "tx_late"}});
    let reply = report(&server, &op_id, "outcome", late).await;
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
    lease(&server).await;
    let kept = report(
        &server,
        &op_id,
        "checkpoint",
        json!({"fence": 1, "checkpoint": {"page": 7}}),
    )
    .await;
    assert_eq!(kept.status, 200, "{}", kept.text);
    let retry =
        json!({"fence": 1, "type": "retry", "reason": "busy", "after_ms": 0, "applied": "no"});
    let reply = report(&server, &op_id, "outcome", retry).await;
    assert_eq!(
        (reply.status, &reply.body["phase"]),
        (200, &json!("waiting"))
    );
    let delivery = lease(&server).await;
    assert_eq!(delivery["checkpoint"], json!({"page": 7}));
    assert_eq!(delivery["attempt"], 2);
    let fail = json!({"fence": 2, "type": "fail", "code": "card_declined", "message": "no", "cause": "funds"});
    assert_eq!(
        report(&server, &op_id, "outcome", fail).await.body["state"],
        "FAILED"
    );
    let failure = server.settled(&op_id).await["failure"].clone();
    assert_eq!(
        (&failure["code"], &failure["cause"]),
        (&json!("card_declined"), &json!("funds"))
    );
    // Left out means unknown: an unsafe route holds it.
    let op_id = hand_in(&server, "k2").await;
    lease(&server).await;
    let reply = report(
        &server,
        &op_id,
        "outcome",
        json!({"fence": 1, "type": "retry"}),
    )
    .await;
    assert_eq!(reply.body["phase"], "held", "{}", reply.text);
}

#[tokio::test]
async fn wrong_reports_name_their_field() {
    let server = Running::new().await;
    let op_id = hand_in(&server, "k1").await;
    lease(&server).await;
    for (what, body, field) in [
        ("heartbeat", json!({}), "fence"),
        ("heartbeat", json!({"fence": -1}), "fence"),
        ("heartbeat", json!({"fence": 1, "lease": "soon"}), "lease"),
        ("checkpoint", json!({"fence": 1}), "checkpoint"),
        ("outcome", json!({"fence": 1}), "type"),
        ("outcome", json!({"fence": 1, "type": "maybe"}), "type"),
        (
            "outcome",
            json!({"fence": 1, "type": "retry", "applied": "yes"}),
            "applied",
        ),
        ("outcome", json!({"fence": 1, "type": "fail"}), "code"),
        (
            "outcome",
            json!({"fence": 1, "type": "ok", "extra": 1}),
            "extra",
        ),
    ] {
        let reply = report(&server, &op_id, what, body).await;
        assert_eq!(
            reply.is_problem(400, "invalid_request").body["field"],
            field,
            "{}",
            reply.text
        );
    }
    let big = json!({"fence": 1, "checkpoint": "x".repeat(70_000)});
    report(&server, &op_id, "checkpoint", big)
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
