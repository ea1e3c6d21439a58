//! Over a real connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use clinch::{Backend, Clinch};
use clinch_axum::{Idempotent, Statuses};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower_layer::Layer as _;

/// Sends these bytes and reads until the server closes.
async fn talk(server: SocketAddr, sent: &str) -> String {
    let mut stream = TcpStream::connect(server).await.expect("connected");
    stream.write_all(sent.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8(answer).expect("text")
}

async fn serve() -> (SocketAddr, Arc<AtomicU32>, Clinch) {
    let orders = Idempotent::new("shop", "orders", |_| Ok("everybody".to_owned()));
    let builder = orders.register(Clinch::builder().backend(Backend::memory()));
    let clinch = builder.build().expect("it is put together");
    let calls = Arc::<AtomicU32>::default();
    let counted = calls.clone();
    let create = move |body: Bytes| async move {
        let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
        (
            StatusCode::CREATED,
            format!("order {number} of {} bytes", body.len()),
        )
    };
    let service = Router::new().route("/orders", post(create));
    let layered = orders.layer(&clinch, "/operations").layer(service);
    let app = Statuses::new("/operations")
        .idempotent(&orders)
        .into_router(&clinch)
        .fallback_service(layered);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    (server, calls, clinch)
}

#[tokio::test]
async fn a_request_over_a_socket_is_one_call() {
    let (server, calls, _clinch) = serve().await;
    let head = "POST /orders HTTP/1.1\r\nhost: shop\r\nconnection: close\r\nidempotency-key: k\r\n";
    let whole = format!("{head}content-length: 5\r\n\r\nhello");
    let first = talk(server, &whole).await;
    assert!(first.starts_with("HTTP/1.1 201 Created\r\n"), "{first}");
    assert!(first.ends_with("order 1 of 5 bytes"), "{first}");
    // The same bytes in chunks are the same request.
    let chunked =
        format!("{head}transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n");
    let again = talk(server, &chunked).await;
    assert!(again.starts_with("HTTP/1.1 201 Created\r\n"), "{again}");
    assert!(again.contains("idempotency-replayed: true\r\n"), "{again}");
    assert!(again.ends_with("order 1 of 5 bytes"), "{again}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);

    let twice = format!("{head}idempotency-key: other\r\ncontent-length: 0\r\n\r\n");
    let twice = talk(server, &twice).await;
    assert!(twice.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{twice}");
    assert!(
        twice.contains("content-type: application/problem+json"),
        "{twice}"
    );

    // The client closes its side in the middle of the body: nothing is accepted.
    let mut stream = TcpStream::connect(server).await.expect("connected");
    let half = head.replace("k\r\n", "half\r\n") + "content-length: 500\r\n\r\nhel";
    stream.write_all(half.as_bytes()).await.expect("sent");
    stream.shutdown().await.expect("closed");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("the end");
    assert!(!String::from_utf8_lossy(&answer).contains("order"));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
