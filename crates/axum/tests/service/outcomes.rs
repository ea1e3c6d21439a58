//! What a service's response means for its operation.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use clinch::Clinch;
use clinch::testing::{self, Test};
use clinch_axum::{Idempotent, Statuses};
use http_body::Frame;
use tower_layer::Layer as _;

use crate::support::{Seen, request, send};

const DAY: Duration = Duration::from_secs(86_400);

struct Shop {
    test: Test,
    app: Router,
    calls: Arc<AtomicU32>,
}

fn shop(idempotent: Idempotent, answer: fn(u32) -> Response) -> Shop {
    let calls = Arc::<AtomicU32>::default();
    let counted = calls.clone();
    let test = testing::start(idempotent.register(Clinch::builder())).expect("it starts");
    let service = Router::new().route(
        "/",
        post(move || async move { answer(counted.fetch_add(1, Ordering::SeqCst) + 1) }),
    );
    let layered = idempotent.layer(&test.clinch, "/operations").layer(service);
    let app = Statuses::new("/operations")
        .idempotent(&idempotent)
        .into_router(&test.clinch)
        .fallback_service(layered);
    Shop { test, app, calls }
}

fn of_everybody() -> Idempotent {
    Idempotent::new("shop", "call", |_| Ok("everybody".to_owned()))
}

impl Shop {
    async fn post(&self, prefer: &str) -> Seen {
        let headers = [("idempotency-key", "k"), ("prefer", prefer)];
        send(&self.app, request(Method::POST, "/", &headers)).await
    }

    /// Sends a request, and looks when its operation has ended.
    async fn at_the_end(&self) -> Seen {
        let (op_id, url) = self.post("wait=0").await.accepted();
        let has_ended = |row: &clinch::ports::Operation| row.state.is_terminal();
        self.test.until(op_id, "settled", has_ended).await;
        send(&self.app, request(Method::GET, &url, &[])).await
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_refusal_of_the_service_is_kept_like_every_answer() {
    let shop = shop(of_everybody(), |_| {
        (StatusCode::CONFLICT, "sold out").into_response()
    });
    for _ in 0..2 {
        let seen = shop.post("wait=1").await;
        assert_eq!(
            (seen.status, seen.text()),
            (StatusCode::CONFLICT, "sold out")
        );
    }
    assert_eq!(shop.calls(), 1);
}

#[tokio::test]
async fn core_6_a_500_is_not_repeated_where_repeating_is_not_allowed() {
    let shop = shop(of_everybody(), |_| {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    });
    let (op_id, _) = shop.post("wait=0").await.accepted();
    shop.test.advance(Duration::from_secs(3_600)).await;
    let row = shop.test.operation(op_id).await;
    assert!(row.state.hold.is_some(), "held for an operator or a probe");
    shop.post("wait=0").await.accepted();
    assert_eq!(shop.calls(), 1);
}

#[tokio::test]
async fn a_500_is_repeated_where_the_route_allows_it() {
    let shop = shop(
        of_everybody().route(|route| route.keyed(DAY)),
        |call| match call {
            1 => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            2 => (StatusCode::BAD_GATEWAY, [(header::RETRY_AFTER, "600")]).into_response(),
            _ => (StatusCode::CREATED, "order 1").into_response(),
        },
    );
    let seen = shop.at_the_end().await;
    assert_eq!(
        (seen.status, seen.text(), shop.calls()),
        (StatusCode::CREATED, "order 1", 3)
    );
}

#[tokio::test]
async fn a_service_that_stays_broken_ends_as_a_502_that_says_what_is_known() {
    let rules = of_everybody().route(|route| route.natural().max_attempts(3));
    let shop = shop(rules, |_| StatusCode::SERVICE_UNAVAILABLE.into_response());
    let seen = shop.at_the_end().await;
    assert_eq!(
        (seen.status, seen.problem().as_str()),
        (StatusCode::BAD_GATEWAY, "retry_exhausted")
    );
    assert_eq!(
        (seen.json()["effect"].as_str(), shop.calls()),
        (Some("unknown"), 3)
    );
}

#[tokio::test]
async fn too_many_requests_were_not_carried_out_and_are_repeated_on_any_route() {
    let shop = shop(of_everybody(), |call| match call {
        1 => (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "30")]).into_response(),
        _ => "done".into_response(),
    });
    let seen = shop.at_the_end().await;
    assert_eq!((seen.text(), shop.calls()), ("done", 2));
}

#[tokio::test]
async fn a_panic_is_an_unknown_effect() {
    let shop = shop(of_everybody(), |_| panic!("a bug of the service"));
    let (op_id, _) = shop.post("wait=0").await.accepted();
    shop.test.advance(Duration::from_secs(60)).await;
    assert!(shop.test.operation(op_id).await.state.hold.is_some());
    assert_eq!(shop.calls(), 1);
}

/// A body of so many parts, which may break off at the end, or never end.
struct Parts(usize, bool);

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.0 == 0 {
            let end = self.1.then(|| Err(std::io::Error::other("it broke off")));
            return Poll::Ready(end);
        }
        self.0 = self.0.saturating_sub(1);
        let part = Frame::data(Bytes::from_static(&[b'x'; 1_000]));
        Poll::Ready(Some(Ok(part)))
    }
}

#[tokio::test]
async fn a_response_without_an_end_is_cut_and_never_asked_for_again() {
    let shop = shop(of_everybody(), |_| {
        Body::new(Parts(usize::MAX, false)).into_response()
    });
    for _ in 0..2 {
        let seen = shop.post("wait=1").await;
        assert_eq!(
            (seen.status, seen.problem().as_str()),
            (StatusCode::INTERNAL_SERVER_ERROR, "response_too_large")
        );
        assert!(
            seen.json()["detail"]
                .as_str()
                .expect("text")
                .contains("200")
        );
    }
    assert_eq!(shop.calls(), 1);
}

#[tokio::test]
async fn the_largest_response_is_kept_whole() {
    let shop = shop(of_everybody(), |_| vec![0_u8; 1024 * 1024].into_response());
    assert_eq!(shop.post("wait=1").await.body.len(), 1024 * 1024);
    let again = shop.post("wait=1").await;
    assert!(again.is_replayed());
    assert!(again.body == vec![0; 1024 * 1024]);
}

#[tokio::test]
async fn a_response_that_breaks_off_is_an_unknown_effect() {
    let shop = shop(of_everybody(), |_| {
        Body::new(Parts(3, true)).into_response()
    });
    let (op_id, _) = shop.post("wait=0").await.accepted();
    shop.test.advance(Duration::from_secs(60)).await;
    assert!(shop.test.operation(op_id).await.state.hold.is_some());
    assert_eq!(shop.calls(), 1);
}

#[tokio::test]
async fn a_request_body_that_breaks_off_starts_nothing() {
    let shop = shop(of_everybody(), |_| "done".into_response());
    let headers = [("idempotency-key", "k")];
    let broken = crate::support::with_body(Method::POST, "/", &headers, Body::new(Parts(3, true)));
    let seen = send(&shop.app, broken).await;
    assert_eq!(
        (seen.status, seen.problem().as_str()),
        (StatusCode::BAD_REQUEST, "body_incomplete")
    );
    let endless = crate::support::with_body(
        Method::POST,
        "/",
        &headers,
        Body::new(Parts(usize::MAX, false)),
    );
    assert_eq!(
        send(&shop.app, endless).await.status,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    assert_eq!(shop.calls(), 0);
}
