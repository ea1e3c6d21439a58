//! Reports on attempts that were never leased, or that another worker leased.

use clinch_server::Role;
use serde_json::{Value, json};

use crate::harness::{ROUTES, Running, command, store};

/// A route that must not be repeated and whose calls wait at the gate.
const UNSAFE: &str = r#"
[[route]]
name = "once"
domain = "pay"
event_type = "once"
url = "test://gated/gated"
"#;

async fn server() -> Running {
    let routes = format!("{ROUTES}{UNSAFE}");
    Running::with(&routes, store(), &Role::ALL).await
}

/// A report without a token, and with tokens that no lease gave out.
async fn is_refused(server: &Running, op_id: &str, what: &str, body: &Value) {
    let path = format!("/v1/leases/{op_id}/{what}");
    let reply = server.post(&path, body).await;
    let problem = reply.is_problem(400, "invalid_request");
    assert_eq!(problem.body["field"], "token", "{}", problem.text);
    let version = row(server, op_id).await["version"].clone();
    for token in [op_id, "3f2504e0-4f89-41d3-9a0c-0305e82c3301"] {
        let mut body = body.clone();
        body["token"] = json!(token);
        server
            .post(&path, &body)
            .await
            .is_problem(409, "stale_fence");
    }
    assert_eq!(row(server, op_id).await["version"], version, "no change");
}

async fn row(server: &Running, op_id: &str) -> Value {
    server.get(&format!("/v1/operations/{op_id}")).await.body
}

async fn live_call(server: &Running, key: &str) -> String {
    let op_id = server.submit("once", key, "0").await.op_id();
    server.provider.arrival().await;
    op_id
}

fn reports() -> Vec<(&'static str, Value)> {
    vec![
        ("release", json!({"fence": 1})),
        (
            "outcome",
            json!({"fence": 1, "type": "retry", "applied": "no", "after_ms": 0}),
        ),
        (
            "outcome",
            json!({"fence": 1, "type": "fail", "code": "x", "message": "y"}),
        ),
        ("outcome", json!({"fence": 1, "type": "ok"})),
        ("heartbeat", json!({"fence": 1, "lease": "1h"})),
        ("checkpoint", json!({"fence": 1, "checkpoint": 1})),
    ]
}

#[tokio::test]
async fn a_call_of_our_own_is_not_reported_on_and_made_once() {
    let server = server().await;
    let op_id = live_call(&server, "k1").await;
    for (what, body) in reports() {
        is_refused(&server, &op_id, what, &body).await;
    }
    server.provider.open_gate(1);
    assert_eq!(server.settled(&op_id).await["state"], "COMPLETED");
    assert_eq!(server.provider.calls(), 1);
    let attempts = server
        .get(&format!("/v1/operations/{op_id}/attempts"))
        .await;
    let lines = attempts.body["ledger"].as_array().expect("lines");
    assert!(
        lines.iter().all(|line| line["refused"].is_null()),
        "strangers write no history: {lines:?}"
    );
}

#[tokio::test]
async fn a_failed_and_a_completed_operation_stay_what_they_are() {
    let server = server().await;
    for event_type in ["ok", "fail"] {
        let op_id = server.submit(event_type, event_type, "30s").await.op_id();
        let before = row(&server, &op_id).await;
        for (what, body) in reports() {
            is_refused(&server, &op_id, what, &body).await;
        }
        assert_eq!(row(&server, &op_id).await, before);
    }
}

#[tokio::test]
async fn what_never_began_is_not_completed_by_any_fence() {
    let server = server().await;
    let path = "/v1/operations?wait=0";
    let op_id = server
        .post(path, &command("away", "call", "k1"))
        .await
        .op_id();
    for fence in [0, 1, 2, u64::MAX - 1, u64::MAX] {
        let ok = json!({"fence": fence, "type": "ok", "provider_txn_id": "forged"});
        is_refused(&server, &op_id, "outcome", &ok).await;
    }
    let row = row(&server, &op_id).await;
    assert_eq!(
        (&row["state"], &row["result"]),
        (&json!("PENDING"), &Value::Null)
    );
}

async fn lease(server: &Running, worker: &str) -> Value {
    let body = json!({"domain": "away", "wait": "30s", "lease": "30s", "worker": worker});
    let reply = server.post("/v1/leases", &body).await;
    reply.body["deliveries"][0].clone()
}

#[tokio::test]
async fn one_worker_does_not_end_the_lease_of_another() {
    let server = server().await;
    let path = "/v1/operations?wait=0";
    for key in ["k1", "k2"] {
        server
            .post(path, &command("away", "call", key))
            .await
            .op_id();
    }
    let (a, b) = (lease(&server, "a").await, lease(&server, "b").await);
    let of_a = a["op_id"].as_str().expect("an id");
    for (what, mut body) in reports() {
        is_refused(&server, of_a, what, &body).await;
        body["token"] = b["token"].clone();
        let path = format!("/v1/leases/{of_a}/{what}");
        let reply = server.post(&path, &body).await;
        reply.is_problem(409, "stale_fence");
    }
    let ok = json!({"fence": 1, "token": a["token"], "type": "ok", "provider_txn_id": "tx_a"});
    let reply = server
        .post(&format!("/v1/leases/{of_a}/outcome"), &ok)
        .await;
    assert_eq!(reply.body["state"], "COMPLETED", "{}", reply.text);
    assert_eq!(
        row(&server, of_a).await["result"]["provider_txn_id"],
        "tx_a"
    );
}

/// Only the worker gets the token: no document, ledger line or log line holds it.
#[tokio::test]
async fn a_token_is_shown_to_its_worker_only() {
    let server = server().await;
    let path = "/v1/operations?wait=0";
    let op_id = server
        .post(path, &command("away", "call", "k1"))
        .await
        .op_id();
    let token = lease(&server, "a").await["token"].clone();
    let token = token.as_str().expect("a token");
    let shown = |text: &str| text.replace('-', "").contains(&token.replace('-', ""));
    for path in ["", "/attempts"] {
        let path = format!("/v1/operations/{op_id}{path}");
        assert!(!shown(&server.get(&path).await.text), "{path}");
    }
    assert!(!shown(&server.get("/v1/operations").await.text));
}
