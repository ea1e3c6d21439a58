//! A shutdown loses nothing.

use clinch_server::Role;

use crate::harness::{ROUTES, Running, store};

#[tokio::test]
async fn run_12_a_stop_answers_long_polls_and_lets_attempts_finish() {
    let server = Running::new().await;
    let op_id = server.submit("gated", "k1", "0").await.op_id();
    server.provider.arrival().await;
    let (addr, provider, memory) = (server.addr, server.provider.clone(), server.memory.clone());
    let mut poll = tokio::net::TcpStream::connect(addr)
        .await
        .expect("it answers");
    let request =
        format!("GET /v1/operations/{op_id}?wait=60s HTTP/1.1\r\nhost: localhost\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut poll, request.as_bytes())
        .await
        .expect("written");
    // One more answer on another connection: by then the server has read the poll's request, or
    // soon will.
    assert_eq!(server.get("/healthz").await.status, 200);
    let stopping = tokio::spawn(server.stop());
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut poll, &mut answer)
        .await
        .expect("it ends");
    assert!(
        answer.contains("IN_PROGRESS") || answer.is_empty(),
        "{answer}"
    );
    provider.open_gate(1);
    assert!(stopping.await.expect("it ends"), "in time");
    let id = op_id.parse().expect("an id");
    let row = clinch_core::ports::Inspect::get(&memory, &[id])
        .await
        .expect("read");
    let row = row.into_iter().next().flatten().expect("a row");
    assert!(row.state.is_terminal());
}

#[tokio::test]
async fn run_12_a_stop_has_a_hard_deadline() {
    let text = ROUTES.replace("[server]", "[server]\nshutdown_deadline = \"100ms\"");
    let server = Running::with(&text, store(), &Role::ALL).await;
    server.submit("gated", "k1", "0").await;
    server.provider.arrival().await;
    // The call never ends; the shutdown does.
    let _in_time = server.stop().await;
}
