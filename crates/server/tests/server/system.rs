//! Health, metrics, OpenAPI, and unknown paths.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::WorkerId;
use clinch_memory::{ManualClock, Memory};
use clinch_server::{Application, Role};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use utoipa::openapi::OpenApi;

use crate::harness::{ROUTES, Running, command, config, store};

#[tokio::test]
async fn it_is_healthy_and_ready() {
    let server = Running::new().await;
    for path in ["/healthz", "/readyz"] {
        let reply = server.get(path).await;
        assert_eq!((reply.status, &reply.body["status"]), (200, &json!("ok")));
    }
}

#[tokio::test]
async fn run_10_metrics_have_their_names() {
    let server = Running::new().await;
    server.submit("ok", "k1", "30s").await;
    let reply = server.get("/metrics").await;
    assert_eq!(reply.status, 200);
    assert!(
        reply
            .header("content-type")
            .is_some_and(|value| value.starts_with("text/plain"))
    );
    for name in [
        "orchestrator_accept_count_total{",
        "orchestrator_pump_outcome_ok_count_total",
        "orchestrator_execute_duration_bucket{",
        "orchestrator_end_to_end_duration_sum",
        "orchestrator_operations{",
        "orchestrator_oldest_age{",
        "orchestrator_held ",
        "orchestrator_write_ahead_pending ",
        "orchestrator_breaker_state{",
    ] {
        assert!(reply.text.contains(name), "{name}\n{}", reply.text);
    }
    assert!(!reply.text.contains("order-1"), "no keys in labels");
}

#[tokio::test]
async fn the_api_describes_itself() {
    let server = Running::new().await;
    let api = server.get("/openapi.json").await.body;
    assert!(
        api["openapi"]
            .as_str()
            .is_some_and(|version| version.starts_with("3.1"))
    );
    for (path, method) in [
        ("/v1/operations", "post"),
        ("/v1/operations", "get"),
        ("/v1/operations/{op_id}", "get"),
        ("/v1/operations/{op_id}/attempts", "get"),
        ("/v1/operations/bulk", "post"),
        ("/v1/operations/{op_id}/cancel", "post"),
        ("/v1/operations/{op_id}/resolve", "post"),
        ("/v1/dead-letters", "get"),
        ("/v1/dead-letters/{op_id}", "get"),
        ("/v1/dead-letters/redrive", "post"),
        ("/v1/domains", "get"),
        ("/v1/domains/{domain}/pause", "post"),
        ("/v1/domains/{domain}/resume", "post"),
        ("/v1/destinations", "get"),
        ("/v1/events", "get"),
        ("/v1/leases", "post"),
        ("/v1/leases/{op_id}/heartbeat", "post"),
        ("/v1/leases/{op_id}/release", "post"),
        ("/v1/leases/{op_id}/checkpoint", "post"),
        ("/v1/leases/{op_id}/outcome", "post"),
        ("/v1/batches", "post"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
    ] {
        assert!(api["paths"][path][method].is_object(), "{method} {path}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems_too() {
    let server = Running::new().await;
    server.get("/v1/nothing").await.is_problem(404, "not_found");
    server.get("/nothing").await.is_problem(404, "not_found");
    let reply = server.send("DELETE", "/v1/operations", &[], "").await;
    reply.is_problem(405, "method_not_allowed");
    assert!(
        reply
            .header("allow")
            .is_some_and(|allow| allow.contains("POST"))
    );
    server
        .get("/v1/operations/%ff")
        .await
        .is_problem(400, "invalid_request");
    server
        .post("/v1/domains", &json!({}))
        .await
        .is_problem(405, "method_not_allowed");
}

#[tokio::test]
async fn events_tell_what_was_settled_and_the_counters() {
    let server = Running::new().await;
    let mut stream = TcpStream::connect(server.addr).await.expect("it answers");
    stream
        .write_all(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .expect("written");
    let mut text = String::new();
    let mut read_until = async |wanted: &str| {
        let mut chunk = [0; 4_096];
        while !text.contains(wanted) {
            let count = stream.read(&mut chunk).await.expect("read");
            assert!(count > 0, "it ended: {text}");
            text.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
        text.clone()
    };
    let head = read_until("event: counters").await;
    assert!(head.contains("text/event-stream"));
    let op_id = server.submit("ok", "k1", "30s").await.op_id();
    let text = read_until(&op_id).await;
    assert!(text.contains("event: operation"));
    read_until("\"COMPLETED\":1").await;
    // A shutdown ends the stream.
    assert!(server.stop().await);
}

#[tokio::test]
async fn a_panic_in_an_executor_is_an_unknown_outcome_not_an_end() {
    let server = Running::new().await;
    let op_id = server.submit("panics", "k1", "0").await.op_id();
    assert_eq!(server.phase(&op_id, "held").await["effect"], "unknown");
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn run_12_roles_split_a_process() {
    let memory = store();
    let api = Running::with(ROUTES, memory.clone(), &[Role::Api]).await;
    let worker = {
        let parts = crate::harness::parts(&memory, &api.provider);
        let roles = [Role::Worker, Role::Recovery];
        clinch_server::Server::bind(crate::harness::config(ROUTES), parts, &roles).await
    };
    let worker = worker.expect("it starts");
    assert_eq!(worker.local_addr(), None);
    let op = api
        .post("/v1/operations?wait=0", &command("pay", "ok", "k1"))
        .await;
    assert_eq!((op.status, &op.body["state"]), (202, &json!("PENDING")));
    assert_eq!(api.provider.calls(), 0);
    let clinch = worker.clinch().clone();
    let running = tokio::spawn(worker.run(std::future::pending()));
    let settled: Value = api.settled(&op.op_id()).await;
    assert_eq!(settled["state"], "COMPLETED");
    assert_eq!(api.provider.calls(), 1);
    clinch.stop();
    running.abort();
}

#[tokio::test]
async fn a_panic_in_a_handler_is_500_and_the_next_request_is_answered() {
    async fn panics() -> &'static str {
        panic!("hunter2")
    }
    let memory = store();
    let provider = crate::harness::Provider::default();
    let mut parts = crate::harness::parts(&memory, &provider);
    parts.applications.push(Application {
        domain: "reports",
        router: axum::Router::new().route("/v1/reports", axum::routing::get(panics)),
        described: OpenApi::default(),
        examples: "",
        panel: None,
    });
    let server = Running::of(ROUTES, parts, memory, provider, &Role::ALL).await;
    let reply = server.get("/v1/reports").await;
    reply.is_problem(500, "internal");
    assert!(!reply.text.contains("hunter2"));
    assert_eq!(server.get("/healthz").await.status, 200);
}

/// The warnings of `/readyz`.
async fn warnings(server: &Running) -> Vec<String> {
    let reply = server.get("/readyz").await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let warnings = reply.body["warnings"].as_array().expect("a list").clone();
    let code = |warning: &Value| warning["code"].as_str().expect("a code").to_owned();
    warnings.iter().map(code).collect()
}

#[tokio::test]
async fn core_6_a_jump_of_the_clock_is_told_and_confirmed() {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let server = Running::with(ROUTES, memory, &Role::ALL).await;
    server.submit("ok", "k1", "30s").await;
    let retention = config(ROUTES)
        .engine(WorkerId::new("prunes").expect("a name"))
        .retention;
    let prune = async || {
        let pruned = server.clinch.runtime().prune(&retention).await;
        pruned.expect("it prunes").operations
    };
    prune().await;
    assert_eq!(warnings(&server).await, Vec::<String>::new());
    clock.advance(Duration::from_secs(500 * 86_400));
    assert_eq!(prune().await, 0);
    assert_eq!(warnings(&server).await, ["clock_ahead"]);
    let retention = server.get("/v1/retention").await.body;
    assert_eq!(retention["held_back"], true, "{retention}");
    let metrics = server.get("/metrics").await.text;
    assert!(
        metrics.contains("orchestrator_clock_ahead 432"),
        "{metrics}"
    );
    let replayed = server.submit("ok", "k1", "30s").await;
    assert_eq!(replayed.header("idempotency-replayed"), Some("true"));
    assert_eq!(server.provider.calls(), 1);
    let confirmed = server.post("/v1/retention/confirm", &json!({})).await;
    assert_eq!(
        (confirmed.status, &confirmed.body["held_back"]),
        (200, &json!(false))
    );
    assert_eq!(warnings(&server).await, Vec::<String>::new());
    assert_eq!(prune().await, 1);
    let metrics = server.get("/metrics").await.text;
    let counted = r#"orchestrator_prune_count_total{kind="operations"}"#;
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn open_operations_of_a_route_that_was_removed_are_told() {
    let memory = store();
    let before = Running::with(ROUTES, memory.clone(), &Role::ALL).await;
    let op_id = before.submit("busy", "k1", "0").await.op_id();
    before.phase(&op_id, "waiting").await;
    assert_eq!(warnings(&before).await, Vec::<String>::new());
    assert!(before.stop().await);
    let edited = ROUTES.replace(r#"event_type = "busy""#, r#"event_type = "other""#);
    let after = Running::with(&edited, memory, &Role::ALL).await;
    let handled = after.clinch.runtime().recover_undeclared().await;
    assert_eq!(handled.expect("a pass"), 0, "it waits for its time");
    assert_eq!(warnings(&after).await, ["undeclared_routes"]);
    let metrics = after.get("/metrics").await.text;
    let gauge = r#"orchestrator_undeclared{domain="pay"} 1"#;
    assert!(metrics.contains(gauge), "{metrics}");
}
