//! Limits on every input.

use clinch_server::Role;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{ROUTES, Running, command, store};

fn with(server: &str) -> String {
    ROUTES.replace("[server]", &format!("[server]\n{server}"))
}

#[tokio::test]
async fn a_payload_over_its_limit_is_413() {
    let text = with("payload_max = \"1KiB\"\nbulk_max = \"16KiB\"");
    let server = Running::with(&text, store(), &Role::ALL).await;
    let sized = |bytes: usize| {
        let mut body = command("pay", "ok", "k1");
        body["payload"] = json!("x".repeat(bytes - 2));
        body
    };
    server
        .post("/v1/operations", &sized(1_025))
        .await
        .is_problem(413, "payload_too_large");
    assert_eq!(
        server
            .post("/v1/operations?wait=30s", &sized(1_024))
            .await
            .status,
        200
    );
    server
        .post("/v1/operations", &sized(300_000))
        .await
        .is_problem(413, "payload_too_large");
    // The canonical form counts too.
    let grown = format!(
        r#"{{"domain":"pay","event_type":"ok","biz_key":"b","idem_key":"k","payload":[{}1]}}"#,
        "1e9,".repeat(100)
    );
    let json = [("content-type", "application/json")];
    let reply = server.send("POST", "/v1/operations", &json, &grown).await;
    reply.is_problem(413, "payload_too_large");
    let bulk = json!({"operations": [sized(1_025), command("pay", "ok", "k2")]});
    let reply = server.post("/v1/operations/bulk", &bulk).await.body;
    assert_eq!(reply["results"][0]["error"]["code"], "payload_too_large");
    assert!(reply["results"][1]["op_id"].is_string());
    let bulk = json!({"operations": vec![command("pay", "ok", "k3"); 200]});
    server
        .post("/v1/operations/bulk", &bulk)
        .await
        .is_problem(413, "payload_too_large");
}

#[tokio::test]
async fn a_connection_that_never_finishes_its_headers_is_closed() {
    let text = with("header_timeout = \"50ms\"");
    let server = Running::with(&text, store(), &Role::ALL).await;
    let mut slow = TcpStream::connect(server.addr).await.expect("it answers");
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: local")
        .await
        .expect("written");
    let mut rest = Vec::new();
    // Ends only when the server closes the connection.
    let _ = slow.read_to_end(&mut rest).await;
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_body_that_never_arrives_is_refused() {
    let text = with("body_timeout = \"50ms\"");
    let server = Running::with(&text, store(), &Role::ALL).await;
    let mut slow = TcpStream::connect(server.addr).await.expect("it answers");
    let head = b"POST /v1/operations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    slow.write_all(head).await.expect("written");
    let mut answer = Vec::new();
    let _ = slow.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.1 408") && answer.contains("request_timeout"),
        "{answer}"
    );
}

#[tokio::test]
async fn silent_connections_make_room_for_callers() {
    let text = with("connections_max = 8\nheader_timeout = \"1h\"");
    let server = Running::with(&text, store(), &Role::ALL).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(server.addr).await.expect("it connects");
        stream
            .write_all(b"GET / HTTP/1.1\r\n")
            .await
            .expect("written");
        silent.push(stream);
    }
    for at in 0..20 {
        assert_eq!(server.get("/healthz").await.status, 200, "{at}");
    }
}

/// Sixteen calls at once that never end; more calls wait.
fn slow(shed_queue_age: &str) -> String {
    let text = with(&format!("shed_queue_age = {shed_queue_age:?}"));
    let gated = "event_type = \"gated\"";
    text.replace(gated, &format!("{gated}\ntimeout = \"10m\""))
}

#[tokio::test]
async fn new_work_is_shed_and_a_replay_never() {
    let server = Running::with(&slow("1ms"), store(), &Role::ALL).await;
    let first = server
        .post("/v1/operations?wait=0", &command("pay", "gated", "first"))
        .await;
    assert_eq!(first.status, 202);
    // The queue's age is measured in the background: operations are accepted until it is known.
    let shed = loop {
        let key = uuid();
        let reply = server
            .post("/v1/operations?wait=0", &command("pay", "gated", &key))
            .await;
        if reply.status != 202 {
            break reply;
        }
        tokio::task::yield_now().await;
    };
    let after = shed.is_problem(429, "shed").header("retry-after");
    assert!(
        after
            .and_then(|after| after.parse::<u64>().ok())
            .is_some_and(|after| after >= 1)
    );
    let replay = server
        .post("/v1/operations?wait=0", &command("pay", "gated", "first"))
        .await;
    assert_eq!((replay.status, replay.op_id()), (202, first.op_id()));
    assert_eq!(replay.header("idempotency-replayed"), Some("true"));
    let bulk = ["first", "new"].map(|key| command("pay", "gated", key));
    let other = command("pay", "ok", "other");
    let operations = json!({"operations": [bulk[0], bulk[1], other]});
    let bulk = server.post("/v1/operations/bulk", &operations).await;
    let statuses = bulk.body["results"].as_array().expect("a list");
    let statuses: Vec<_> = statuses.iter().map(|one| one["status"].as_u64()).collect();
    assert_eq!(statuses, [Some(202), Some(429), Some(202)], "{}", bulk.body);
    let metrics = server.get("/metrics").await.text;
    for name in [
        "orchestrator_shed_count_total{domain=\"pay\"}",
        "orchestrator_shed_age{domain=\"pay\",destination=\"gated\"}",
    ] {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn nobody_is_shed_where_it_is_switched_off() {
    let server = Running::with(&slow("0s"), store(), &Role::ALL).await;
    // Older than two measurements of the queue.
    let is_old = |body: &serde_json::Value| {
        let domains = body["domains"].as_array().expect("a list");
        let pay = domains.iter().find(|one| one["domain"] == "pay");
        pay.is_some_and(|one| one["oldest_age_ms"].as_u64() > Some(2_500))
    };
    loop {
        let new = command("pay", "gated", &uuid());
        let reply = server.post("/v1/operations?wait=0", &new).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
        if is_old(&server.get("/v1/domains").await.body) {
            break;
        }
        tokio::task::yield_now().await;
    }
}

fn uuid() -> String {
    use clinch_core::ports::Ids;
    clinch_system::SystemIds.op_id().to_string()
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_503() {
    let server = Running::new().await;
    server.memory.fail_next(clinch_memory::Fault::BeforeCommit);
    let reply = server
        .post("/v1/operations?wait=0", &command("away", "x", "k1"))
        .await;
    let reply = if reply.status == 202 {
        // A background task took the fault; the next call is ours.
        server.memory.fail_next(clinch_memory::Fault::BeforeCommit);
        server.post("/v1/domains/pay/pause", &json!({})).await
    } else {
        reply
    };
    assert_eq!(
        reply.is_problem(503, "unavailable").header("retry-after"),
        Some("1")
    );
}
