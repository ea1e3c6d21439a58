//! Callers without a key cannot take connections from callers with a key.

use clinch_core::ports::Clock as _;
use clinch_memory::Memory;
use clinch_server::Role;
use clinch_server::auth::{Scope, create};
use clinch_system::SystemClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{ROUTES, Reply, Running, command, store};

/// Few connections, which are never closed for being idle.
fn few() -> String {
    let few = "[server]\nconnections_max = 8\nheader_timeout = \"1h\"";
    ROUTES.replace("[server]", few)
}

async fn key(memory: &Memory) -> String {
    let now = SystemClock::new().now();
    let made = create(memory, "tests", &[Scope::Submit, Scope::Read], now, None).await;
    format!("Bearer {}", made.expect("made").1.reveal())
}

async fn with_key(server: &Running, path: &str, key: &str) -> Reply {
    let headers = [("authorization", key)];
    server.send("GET", path, &headers, "").await
}

/// Sends a request on a kept connection and reads the answer.
async fn knock(stream: &mut TcpStream, path: &str) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = vec![0; 64 * 1024];
    let read = stream.read(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
}

#[tokio::test]
async fn core_16_a_connection_without_a_key_ends_with_its_first_refusal() {
    let memory = store();
    let key = key(&memory).await;
    let server = Running::with(ROUTES, memory, &Role::ALL).await;
    let mut stream = TcpStream::connect(server.addr).await.expect("it answers");
    let body = command("pay", "ok", "k1").to_string();
    let head = format!(
        "POST /v1/operations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("written");
    stream.write_all(body.as_bytes()).await.expect("written");
    let mut answer = Vec::new();
    // Ends only when the server closes the connection.
    stream
        .read_to_end(&mut answer)
        .await
        .expect("a whole answer");
    let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 401"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    assert_eq!(with_key(&server, "/v1/operations", &key).await.status, 200);
}

#[tokio::test]
async fn core_16_strangers_who_keep_asking_do_not_keep_a_key_holder_out() {
    let memory = store();
    let key = key(&memory).await;
    let server = Running::with(&few(), memory, &Role::ALL).await;
    for path in ["/v1/operations", "/healthz"] {
        let mut strangers = Vec::new();
        for _ in 0..40 {
            let mut stream = TcpStream::connect(server.addr).await.expect("it connects");
            let answer = knock(&mut stream, path).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
            strangers.push(stream);
        }
        for round in 0..5 {
            for stream in &mut strangers {
                if knock(stream, path).await.is_err() {
                    *stream = TcpStream::connect(server.addr).await.expect("it connects");
                }
            }
            let reply = with_key(&server, "/v1/operations", &key).await;
            assert_eq!(reply.status, 200, "{path} {round}");
        }
    }
}

#[tokio::test]
async fn core_16_a_call_with_a_key_outlives_every_stranger() {
    let memory = store();
    let key = key(&memory).await;
    let server = Running::with(&few(), memory, &Role::ALL).await;
    let body = command("pay", "gated", "k1").to_string();
    let headers = [
        ("authorization", key.as_str()),
        ("content-type", "application/json"),
    ];
    let call = server.send("POST", "/v1/operations?wait=60s", &headers, &body);
    let strangers = async {
        server.provider.arrival().await;
        let mut strangers = Vec::new();
        for _ in 0..40 {
            let mut stream = TcpStream::connect(server.addr).await.expect("it connects");
            let _ = knock(&mut stream, "/healthz").await;
            strangers.push(stream);
        }
        server.provider.open_gate(1);
    };
    let (reply, ()) = tokio::join!(call, strangers);
    assert_eq!(
        (reply.status, &reply.body["state"]),
        (200, &"COMPLETED".into())
    );
}
