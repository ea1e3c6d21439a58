//! Limits on the bytes of requests and answers, each and all together.

use clinch_core::ports::PAGE_BYTES_MAX;
use clinch_server::Role;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{LONG_BYTES, ROUTES, Running, command, store};

fn with(server: &str) -> String {
    ROUTES.replace("[server]", &format!("[server]\n{server}"))
}

/// Completes operations with long results.
async fn long_results(server: &Running, count: usize) {
    for number in 0..count {
        let key = format!("long-{number}");
        let reply = server.submit("long", &key, "60s").await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
}

#[tokio::test]
async fn core_20_a_page_of_long_results_ends_at_its_bytes_and_goes_on() {
    let server = Running::new().await;
    long_results(&server, 50).await;
    let (mut shown, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let reply = server
            .get(&format!("/v1/operations?limit=1000&cursor={cursor}"))
            .await;
        assert!(reply.text.len() < PAGE_BYTES_MAX + 2 * LONG_BYTES);
        let operations = reply.body["operations"].as_array().expect("a list");
        shown.extend(operations.iter().map(|one| one["idem_key"].clone()));
        pages += 1;
        match reply.body["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    let expected: Vec<Value> = (0..50).rev().map(|n| json!(format!("long-{n}"))).collect();
    assert_eq!(shown, expected);
    assert_eq!(pages, 3);
}

/// Asks for a list many times and reads nothing: more than the system buffers.
async fn unread(server: &Running) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr).await.expect("it answers");
    let ask = "GET /v1/operations?limit=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for _ in 0..16 {
        stream.write_all(ask.as_bytes()).await.expect("written");
    }
    stream
}

#[tokio::test]
async fn core_20_a_caller_that_does_not_read_its_answer_is_disconnected() {
    // The only connection: no other caller is answered before the stalled one is closed.
    let text = with("connections_max = 1\nwrite_timeout = \"50ms\"");
    let server = Running::with(&text, store(), &Role::ALL).await;
    long_results(&server, 20).await;
    let mut stalled = unread(&server).await;
    let mut first = [0; 12];
    stalled.read_exact(&mut first).await.expect("it answers");
    assert_eq!(&first, b"HTTP/1.1 200");
    assert_eq!(server.get("/healthz").await.status, 200);
    // A caller that keeps reading is answered, however long the answer is.
    let reply = server.get("/v1/operations?limit=1000").await;
    assert_eq!(reply.body["operations"].as_array().map(Vec::len), Some(20));
}

#[tokio::test]
async fn core_20_requests_and_answers_share_a_bound_and_503_says_so() {
    let text = with("in_flight_max = \"4MiB\"\nwrite_timeout = \"1h\"");
    let server = Running::with(&text, store(), &Role::ALL).await;
    long_results(&server, 20).await;
    let mut stalled = unread(&server).await;
    let mut first = [0; 12];
    stalled.read_exact(&mut first).await.expect("it answers");
    let mut long = command("pay", "ok", "long-payload");
    long["payload"] = json!("x".repeat(LONG_BYTES));
    let bulk = json!({"operations": [long]});
    // The unread answer holds nearly all bytes.
    let reply = server.post("/v1/operations/bulk", &bulk).await;
    let after = reply.is_problem(503, "unavailable").header("retry-after");
    assert_eq!(after, Some("1"));
    // Short requests go on.
    assert_eq!(server.submit("ok", "short", "60s").await.status, 200);
    drop(stalled);
    // Closing the connection releases the bytes.
    assert_eq!(server.get("/v1/operations").await.status, 200);
    assert_eq!(server.post("/v1/operations/bulk", &bulk).await.status, 200);
}

#[tokio::test]
async fn core_20_listeners_that_stopped_reading_are_dropped_and_hold_little() {
    let text = with("connections_max = 2\nwrite_timeout = \"50ms\"");
    let server = Running::with(&text, store(), &Role::ALL).await;
    let mut stalled = TcpStream::connect(server.addr).await.expect("it answers");
    let ask = "GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stalled.write_all(ask.as_bytes()).await.expect("written");
    let mut first = [0; 12];
    stalled.read_exact(&mut first).await.expect("it answers");
    // One connection is left; unread results do not block other callers.
    long_results(&server, 60).await;
    let mut second = TcpStream::connect(server.addr).await.expect("it connects");
    let ask = "GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n";
    second.write_all(ask.as_bytes()).await.expect("written");
    second.read_exact(&mut first).await.expect("it answers");
    // Listeners hold both connections; the one that does not read is closed.
    assert_eq!(server.get("/healthz").await.status, 200);
}
