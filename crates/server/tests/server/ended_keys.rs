//! Long answers end when their key ends.

use clinch_core::Timestamp;
use clinch_memory::Memory;
use clinch_server::Role;
use clinch_server::auth::{Scope, create, revoke};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::auth::now;
use crate::harness::{ROUTES, Running, command, store};
use crate::tenants::read;

/// A request in flight.
struct Waiting {
    stream: TcpStream,
    text: String,
}

impl Waiting {
    async fn send(server: &Running, head: &str, key: &str, body: &str) -> Self {
        let mut stream = TcpStream::connect(server.addr).await.expect("it answers");
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{key}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.expect("written");
        let text = String::new();
        Self { stream, text }
    }

    async fn until(&mut self, wanted: &str) {
        let mut chunk = [0; 4_096];
        while !self.text.contains(wanted) {
            let count = self.stream.read(&mut chunk).await.expect("read");
            assert!(count > 0, "it ended: {}", self.text);
            self.text
                .push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
    }

    /// The whole answer, once the server has ended it.
    async fn end(mut self) -> String {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.expect("read");
        self.text + &String::from_utf8_lossy(&rest)
    }
}

fn bearer(secret: &str) -> String {
    format!("authorization: Bearer {secret}\r\n")
}

async fn locked() -> (Memory, Running) {
    let memory = store();
    let made = create(&memory, "first", &[Scope::Admin], now(), None).await;
    made.expect("made");
    let server = Running::with(ROUTES, memory.clone(), &Role::ALL).await;
    (memory, server)
}

#[tokio::test]
async fn core_16_a_revoked_key_ends_its_stream_of_events() {
    let (memory, server) = locked().await;
    let made = create(&memory, "shop", &[Scope::Read], now(), None).await;
    let (key, secret) = made.expect("made");
    let other = create(&memory, "other", &[Scope::Read], now(), None).await;
    let (_, other) = other.expect("made");
    let listen = async |secret: &str| {
        let mut stream = Waiting::send(&server, "GET /v1/events", &bearer(secret), "").await;
        stream.until("event: counters").await;
        stream
    };
    let mut kept = listen(other.reveal()).await;
    let ended = listen(secret.reveal()).await;
    assert!(revoke(&memory, &key.id, now()).await.expect("revoked"));
    ended.end().await;
    // The stream of another key goes on.
    let bearer = format!("Bearer {}", other.reveal());
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(
        server.send("GET", "/v1/domains", &headers, "").await.status,
        200
    );
    let submitted = server
        .clinch
        .orchestrator()
        .accept(read(&command("pay", "ok", "k1")))
        .await;
    let op_id = submitted.expect("accepted").known.op_id.to_string();
    kept.until(&op_id).await;
}

#[tokio::test]
async fn core_16_an_expired_key_ends_its_stream_of_events() {
    let (memory, server) = locked().await;
    let soon = Timestamp::from_millis(now().as_millis() + 1_500);
    let made = create(&memory, "brief", &[Scope::Read], now(), Some(soon)).await;
    let (_, secret) = made.expect("made");
    let key = bearer(secret.reveal());
    let mut stream = Waiting::send(&server, "GET /v1/events", &key, "").await;
    stream.until("event: counters").await;
    stream.end().await;
    assert!(now() >= soon);
}

#[tokio::test]
async fn core_16_the_first_key_ends_streams_without_one() {
    let server = Running::new().await;
    let mut stream = Waiting::send(&server, "GET /v1/events", "", "").await;
    stream.until("event: counters").await;
    let made = create(&server.memory, "first", &[Scope::Admin], now(), None).await;
    made.expect("made");
    stream.end().await;
}

#[tokio::test]
async fn core_16_a_revoked_key_ends_what_waits_for_it() {
    let (memory, server) = locked().await;
    let scopes = [Scope::Admin];
    let made = create(&memory, "shop", &scopes, now(), None).await;
    let (key, secret) = made.expect("made");
    let bearer = bearer(secret.reveal());
    let body = command("pay", "gated", "k1").to_string();
    let submit = "POST /v1/operations?wait=60s";
    let submitted = Waiting::send(&server, submit, &bearer, &body).await;
    server.provider.arrival().await;
    let replayed = Waiting::send(&server, submit, &bearer, &body).await;
    let lease = "{\"domain\":\"away\",\"wait\":\"60s\"}";
    let leased = Waiting::send(&server, "POST /v1/leases", &bearer, lease).await;
    assert!(revoke(&memory, &key.id, now()).await.expect("revoked"));
    for waiting in [submitted, replayed, leased] {
        let answer = waiting.end().await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.contains("unauthenticated"), "{answer}");
    }
    // The operation continues without its caller.
    server.provider.open_gate(1);
}
