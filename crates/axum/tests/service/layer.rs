//! The layer around an existing service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Router};
use clinch::Clinch;
use clinch::testing::{self, Test};
use clinch_axum::{Execution, Idempotent, Statuses};
use tokio::sync::Semaphore;
use tower_layer::Layer as _;

use crate::support::{Seen, request, send, user, with_body};

#[derive(Clone)]
struct Orders {
    calls: Arc<AtomicU32>,
    gate: Arc<Semaphore>,
}

/// The service as it was before the layer.
async fn create(
    State(orders): State<Orders>,
    Path(item): Path<String>,
    uri: Uri,
    Extension(execution): Extension<Execution>,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let number = orders.calls.fetch_add(1, Ordering::SeqCst) + 1;
    let _open = orders.gate.acquire().await.expect("never closed");
    assert_eq!(headers["idempotency-key"], execution.key.as_str());
    let text = format!(
        "order {number} of {item} for {} {:?} {} bytes {:?}",
        execution.whose,
        uri.query(),
        body.len(),
        headers.get(header::COOKIE),
    );
    let headers = [
        (header::LOCATION, format!("/orders/{number}")),
        (header::SET_COOKIE, "session=1".to_owned()),
    ];
    (StatusCode::CREATED, headers, text)
}

struct Shop {
    test: Test,
    app: Router,
    orders: Orders,
}

fn idempotent() -> Idempotent {
    Idempotent::new("shop", "orders", user)
}

fn wrapped(idempotent: &Idempotent, clinch: &Clinch, service: Router) -> Router {
    let service = idempotent.layer(clinch, "/operations").layer(service);
    Statuses::new("/operations")
        .idempotent(idempotent)
        .into_router(clinch)
        .fallback_service(service)
}

fn shop(idempotent: &Idempotent) -> Shop {
    let orders = Orders {
        calls: Arc::default(),
        gate: Arc::new(Semaphore::new(1_000)),
    };
    let test = testing::start(idempotent.register(Clinch::builder())).expect("it starts");
    let service = Router::new()
        .route(
            "/orders/{item}",
            post(create).put(create).get(|| async { "all orders" }),
        )
        .route("/echo", post(|body: Bytes| async move { body }))
        .with_state(orders.clone());
    let app = wrapped(idempotent, &test.clinch, service);
    Shop { test, app, orders }
}

impl Shop {
    async fn order(&self, user: &str, key: &str, path: &str, body: &'static str) -> Seen {
        let headers = [
            ("x-user", user),
            ("idempotency-key", key),
            ("cookie", "secret"),
        ];
        send(&self.app, with_body(Method::POST, path, &headers, body)).await
    }

    fn calls(&self) -> u32 {
        self.orders.calls.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn the_same_key_gives_the_same_response_without_another_call() {
    let shop = shop(&idempotent());
    let first = shop.order("ann", "k", "/orders/tea?size=2", "{}").await;
    assert_eq!(first.status, StatusCode::CREATED);
    assert_eq!(
        first.text(),
        "order 1 of tea for ann Some(\"size=2\") 2 bytes None"
    );
    assert_eq!(first.headers["location"], "/orders/1");
    assert!(
        !first.headers.contains_key("set-cookie"),
        "not even the first time"
    );
    assert!(!first.is_replayed());
    let again = shop.order("ann", "k", "/orders/tea?size=2", "{}").await;
    assert!(again.is_replayed());
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(again.headers["location"], first.headers["location"]);
    assert_eq!(again.headers["content-type"], first.headers["content-type"]);
    assert_eq!(shop.calls(), 1);
}

#[tokio::test]
async fn everything_that_makes_a_request_counts() {
    let versioned = idempotent().request_header(HeaderName::from_static("x-version"));
    let shop = shop(&versioned);
    let sent = async |method: Method, path: &str, version: &str, body: &'static str| {
        let headers = [
            ("x-user", "ann"),
            ("idempotency-key", "k"),
            ("x-version", version),
        ];
        send(&shop.app, with_body(method, path, &headers, body))
            .await
            .status
            .as_u16()
    };
    assert_eq!(sent(Method::POST, "/orders/tea", "1", "{}").await, 201);
    assert_eq!(sent(Method::POST, "/orders/tea", "1", "{}").await, 201);
    assert_eq!(
        sent(Method::POST, "/orders/tea", "1", "{ }").await,
        422,
        "another body"
    );
    assert_eq!(
        sent(Method::POST, "/orders/tea", "2", "{}").await,
        422,
        "another kept header"
    );
    assert_eq!(
        sent(Method::POST, "/orders/tea?a", "1", "{}").await,
        422,
        "another query"
    );
    assert_eq!(
        sent(Method::POST, "/orders/milk", "1", "{}").await,
        422,
        "another path"
    );
    assert_eq!(
        sent(Method::PUT, "/orders/tea", "1", "{}").await,
        422,
        "another method"
    );
    assert_eq!(shop.calls(), 1);
}

#[tokio::test]
async fn two_users_may_choose_the_same_key() {
    let shop = shop(&idempotent());
    let ann = shop.order("ann", "1", "/orders/tea", "").await;
    let ben = shop.order("ben", "1", "/orders/tea", "").await;
    assert!(ann.text().contains("for ann") && ben.text().contains("for ben"));
    assert_eq!(shop.calls(), 2);
    let nobody = request(Method::POST, "/orders/tea", &[("idempotency-key", "1")]);
    assert_eq!(send(&shop.app, nobody).await.problem(), "unauthenticated");
}

#[tokio::test]
async fn requests_without_a_key_pass_or_are_told_what_to_do() {
    let shop_strict = shop(&idempotent());
    let user = [("x-user", "ann")];
    let missing = send(&shop_strict.app, request(Method::POST, "/echo", &user)).await;
    assert_eq!(
        (missing.status, missing.problem().as_str()),
        (StatusCode::BAD_REQUEST, "idempotency_key_missing")
    );
    let with_key = [("x-user", "ann"), ("idempotency-key", "k")];
    let read = send(
        &shop_strict.app,
        request(Method::GET, "/orders/tea", &with_key),
    )
    .await;
    assert_eq!(read.text(), "all orders");
    assert!(!read.is_replayed());
    let empty = [("x-user", "ann"), ("idempotency-key", "")];
    let empty = send(&shop_strict.app, request(Method::POST, "/echo", &empty)).await;
    assert_eq!(empty.problem(), "idempotency_key_invalid");

    let shop_optional = shop(&idempotent().optional());
    let passed = with_body(Method::POST, "/echo", &[], "as it is");
    assert_eq!(send(&shop_optional.app, passed).await.text(), "as it is");
    let seen = shop_optional.test.clinch.orchestrator();
    assert!(seen.concerns().1.is_empty());
}

#[tokio::test]
async fn a_body_has_a_bound_and_any_bytes() {
    let shop = shop(&idempotent().body_max(1_000));
    let key = |key: &'static str| [("x-user", "ann"), ("idempotency-key", key)];
    let bytes: Vec<u8> = (0..=255).collect();
    let echoed = send(
        &shop.app,
        with_body(Method::POST, "/echo", &key("a"), bytes.clone()),
    )
    .await;
    assert_eq!((echoed.status, &echoed.body), (StatusCode::OK, &bytes));
    let again = send(
        &shop.app,
        with_body(Method::POST, "/echo", &key("a"), bytes.clone()),
    )
    .await;
    assert!(again.is_replayed());
    assert_eq!(again.body, bytes);
    let fits = send(
        &shop.app,
        with_body(Method::POST, "/echo", &key("b"), vec![0; 1_000]),
    )
    .await;
    assert_eq!(fits.body.len(), 1_000);
    let large = send(
        &shop.app,
        with_body(Method::POST, "/echo", &key("c"), vec![0; 1_001]),
    )
    .await;
    assert_eq!(
        (large.status, large.problem().as_str()),
        (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large")
    );
}

/// The largest body that is allowed becomes a payload, whatever its bytes are.
#[tokio::test]
async fn the_largest_body_of_any_bytes_is_accepted() {
    let shop = shop(&idempotent());
    for (key, byte) in [("a", 0_u8), ("b", b'"'), ("c", b'x'), ("d", 255)] {
        let headers = [("x-user", "ann"), ("idempotency-key", key)];
        let body = vec![byte; 128 * 1024];
        let echoed = send(
            &shop.app,
            with_body(Method::POST, "/echo", &headers, body.clone()),
        )
        .await;
        assert_eq!(
            echoed.status,
            StatusCode::OK,
            "{byte}: {}",
            String::from_utf8_lossy(&echoed.body)
        );
        assert!(echoed.body == body, "{byte}");
    }
}

#[tokio::test]
async fn a_slow_service_gives_202_and_its_response_at_the_status_url() {
    let shop = shop(&idempotent());
    let held = shop
        .orders
        .gate
        .clone()
        .acquire_many_owned(1_000)
        .await
        .expect("permits");
    let headers = [
        ("x-user", "ann"),
        ("idempotency-key", "k"),
        ("prefer", "wait=0"),
    ];
    let (_, url) = send(&shop.app, request(Method::POST, "/orders/tea", &headers))
        .await
        .accepted();
    let look =
        async |user: &str| send(&shop.app, request(Method::GET, &url, &[("x-user", user)])).await;
    look("ann").await.accepted();
    drop(held);
    shop.test.advance(Duration::from_secs(1)).await;
    let done = look("ann").await;
    assert_eq!(done.status, StatusCode::CREATED);
    assert_eq!(done.headers["location"], "/orders/1");
    assert_eq!(look("ben").await.problem(), "not_found", "another user's");
    let again = shop.order("ann", "k", "/orders/tea", "").await;
    assert_eq!((again.status, again.body), (done.status, done.body));
    assert_eq!(shop.calls(), 1);
}

#[tokio::test]
async fn a_thousand_at_once_are_one_call() {
    let shop = Arc::new(shop(&idempotent()));
    let held = shop
        .orders
        .gate
        .clone()
        .acquire_many_owned(1_000)
        .await
        .expect("permits");
    let senders: Vec<_> = (0..1_000)
        .map(|_| {
            let shop = shop.clone();
            tokio::spawn(async move { shop.order("ann", "k", "/orders/tea", "{}").await })
        })
        .collect();
    shop.test.advance(Duration::from_millis(10)).await;
    drop(held);
    shop.test.advance(Duration::from_millis(10)).await;
    let mut first = 0;
    for sender in senders {
        let seen = sender.await.expect("an answer");
        assert_eq!(
            (seen.status, seen.text()),
            (
                StatusCode::CREATED,
                "order 1 of tea for ann None 2 bytes None"
            )
        );
        first += u32::from(!seen.is_replayed());
    }
    assert_eq!((first, shop.calls()), (1, 1));
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_the_work() {
    let shop = shop(&idempotent());
    let held = shop
        .orders
        .gate
        .clone()
        .acquire_many_owned(1_000)
        .await
        .expect("permits");
    let gone = tokio::spawn({
        let app = shop.app.clone();
        let headers = [("x-user", "ann"), ("idempotency-key", "k")];
        async move { send(&app, request(Method::POST, "/orders/tea", &headers)).await }
    });
    shop.test.advance(Duration::from_millis(10)).await;
    gone.abort();
    assert!(gone.await.is_err(), "the connection is closed");
    drop(held);
    shop.test.advance(Duration::from_millis(10)).await;
    let seen = shop.order("ann", "k", "/orders/tea", "").await;
    assert!(seen.is_replayed());
    assert_eq!((seen.status, shop.calls()), (StatusCode::CREATED, 1));
}

#[tokio::test]
#[should_panic(expected = "instead of `router.layer(layer)`")]
async fn a_layer_around_every_route_alone_is_refused_at_the_start() {
    let idempotent = idempotent();
    let test = testing::start(idempotent.register(Clinch::builder())).expect("it starts");
    let router: Router = Router::new()
        .route("/a", get(|| async {}))
        .route("/b", post(|| async {}));
    let _ = router.layer(idempotent.layer(&test.clinch, "/operations"));
}

#[tokio::test]
async fn an_attempt_before_the_service_is_mounted_costs_nothing() {
    let idempotent = idempotent();
    let test = testing::start(idempotent.register(Clinch::builder())).expect("it starts");
    let spare = Idempotent::new("shop", "orders", user);
    let early = spare
        .layer(&test.clinch, "/operations")
        .layer(Router::new());
    let early = Router::new().fallback_service(early);
    let headers = [
        ("x-user", "ann"),
        ("idempotency-key", "k"),
        ("prefer", "wait=0"),
    ];
    let (op_id, url) = send(
        &early,
        with_body(Method::POST, "/echo", &headers, Body::from("hello")),
    )
    .await
    .accepted();
    test.advance(Duration::from_secs(10)).await;
    assert_eq!(test.attempts(op_id).await, 0, "nothing was called");
    let service = Router::new().route("/echo", post(|body: Bytes| async move { body }));
    let app = wrapped(&idempotent, &test.clinch, service);
    test.advance(Duration::from_secs(60)).await;
    let seen = send(&app, request(Method::GET, &url, &[("x-user", "ann")])).await;
    assert_eq!(seen.text(), "hello");
}
