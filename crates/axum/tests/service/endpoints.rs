//! An endpoint of the builder.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::{Json, Router};
use clinch::testing::{self, Test};
use clinch::types::Probed;
use clinch::{Call, Clinch, Done, Fail, Refusal, Retry, Route};
use clinch_axum::{Api, Endpoint, Problem};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::{Seen, get, request, send, with_body};

const DAY: Duration = Duration::from_secs(86_400);

type Charge = Route<u64, String>;

fn charge() -> Charge {
    Route::new("payments", "charge").keyed(DAY)
}

/// Charges by the amount: the provider's answer is in the last digit.
async fn judged(cents: u64, attempt: u32) -> Result<Done<String>, Refusal> {
    match cents % 10 {
        1 => Err(Fail::new("card_declined", "the card was declined")
            .because("pan 4242")
            .into()),
        2 if attempt == 1 => Err(Retry::unknown("the connection broke").into()),
        3 => Err(Retry::unknown("the connection broke").into()),
        _ => Ok(Done::new(format!("charged {cents}")).txn_id("tx_1")),
    }
}

struct Shop {
    test: Test,
    app: Router,
    gate: Arc<Semaphore>,
    calls: Arc<AtomicU32>,
}

fn shop(route: Charge) -> Shop {
    let (gate, calls) = (Arc::new(Semaphore::new(1)), Arc::<AtomicU32>::default());
    let (opened, counted) = (gate.clone(), calls.clone());
    let read = |(Path(order), Json(cents)): (Path<String>, Json<u64>)| {
        let unknown = || {
            Problem::new(
                StatusCode::NOT_FOUND,
                "unknown_order",
                "there is no such order",
            )
        };
        (order != "none")
            .then_some((order, cents))
            .ok_or_else(unknown)
    };
    let endpoint = Endpoint::post("/orders/{order}/charge", route, read)
        .completed_as(StatusCode::CREATED)
        .handle(move |call: Call<u64>| {
            let (opened, counted) = (opened.clone(), counted.clone());
            async move {
                counted.fetch_add(1, Ordering::SeqCst);
                let _open = opened.acquire().await.expect("never closed");
                judged(call.input, call.attempt()).await
            }
        })
        .visible(|request, order| {
            let may = request.headers.get("x-order");
            may.is_none_or(|may| may == order)
        });
    let api = Api::new("/operations").endpoint(endpoint);
    let test = testing::start(api.register(Clinch::builder())).expect("it starts");
    let app = api.router(&test.clinch);
    Shop {
        test,
        app,
        gate,
        calls,
    }
}

impl Shop {
    async fn charge(&self, cents: u64, headers: &[(&str, &str)]) -> Seen {
        let json = [("content-type", "application/json")];
        let headers: Vec<_> = json.iter().chain(headers).copied().collect();
        let request = with_body(
            Method::POST,
            "/orders/o-1/charge",
            &headers,
            cents.to_string(),
        );
        send(&self.app, request).await
    }
}

#[tokio::test]
async fn core_8_the_result_within_the_budget_and_again_for_the_same_key() {
    let shop = shop(charge());
    let first = shop.charge(500, &[("idempotency-key", "a")]).await;
    assert_eq!(first.status, StatusCode::CREATED);
    assert_eq!(first.json(), "charged 500");
    assert!(!first.is_replayed());
    let again = shop.charge(500, &[("idempotency-key", "\"a\"")]).await;
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    assert!(again.is_replayed());
    assert_eq!(shop.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn another_input_under_the_key_is_refused_and_names_the_operation() {
    let shop = shop(charge());
    shop.charge(500, &[("idempotency-key", "a")]).await;
    let other = shop.charge(600, &[("idempotency-key", "a")]).await;
    assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(other.problem(), "idempotency_mismatch");
    assert!(other.json()["op_id"].is_string());
    assert!(!other.text().contains("600"), "no payload in errors");
    assert_eq!(shop.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn core_8_past_the_budget_202_and_the_end_at_the_status_url() {
    let shop = shop(charge());
    let held = shop.gate.clone().acquire_owned().await.expect("a permit");
    let now = [("idempotency-key", "a"), ("prefer", "respond-async")];
    let (op_id, url) = shop.charge(500, &now).await.accepted();
    assert_eq!(url, format!("/operations/{op_id}"));
    let open = get(&shop.app, &url).await;
    assert_eq!(open.accepted().1, url, "still 202");
    assert_eq!(open.json()["state"], "IN_PROGRESS");
    drop(held);
    shop.test.assert_completed(&charge(), op_id).await;
    let done = get(&shop.app, &url).await;
    assert_eq!(
        (done.status, done.json()),
        (StatusCode::CREATED, json!("charged 500"))
    );
}

#[tokio::test]
async fn a_status_request_waits_as_long_as_it_says() {
    let shop = shop(charge());
    let held = shop.gate.clone().acquire_owned().await.expect("a permit");
    let now = [("idempotency-key", "a"), ("prefer", "wait=0")];
    let (_, url) = shop.charge(500, &now).await.accepted();
    let waiting = tokio::spawn({
        let (app, url) = (shop.app.clone(), url);
        async move { send(&app, request(Method::GET, &url, &[("prefer", "wait=20")])).await }
    });
    shop.test.advance(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    drop(held);
    shop.test.advance(Duration::from_secs(1)).await;
    assert_eq!(
        waiting.await.expect("an answer").status,
        StatusCode::CREATED
    );
}

#[tokio::test]
async fn a_refusal_is_a_problem_with_code_and_effect() {
    let shop = shop(charge());
    let failed = shop.charge(501, &[("idempotency-key", "a")]).await;
    assert_eq!(failed.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(failed.problem(), "card_declined");
    let document = failed.json();
    assert_eq!(
        (&document["effect"], &document["state"]),
        (&json!("none"), &json!("FAILED"))
    );
    assert!(!failed.text().contains("4242"), "the cause stays inside");
    let url = format!("/operations/{}", document["op_id"].as_str().expect("an id"));
    assert_eq!(get(&shop.app, &url).await.problem(), "card_declined");
}

#[tokio::test]
async fn an_unknown_effect_that_ends_is_a_502_that_says_so() {
    let shop = shop(charge().max_attempts(2));
    let now = [("idempotency-key", "a"), ("prefer", "wait=0")];
    let (op_id, url) = shop.charge(503, &now).await.accepted();
    let failure = shop.test.assert_failed(&charge(), op_id).await;
    let failed = get(&shop.app, &url).await;
    assert_eq!(failed.status, StatusCode::BAD_GATEWAY);
    assert_eq!(failed.problem(), failure.code);
    assert_eq!(failed.json()["effect"], "unknown");
    assert_eq!(shop.calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn status_urls_answer_for_their_routes_and_their_callers_only() {
    let other: Route<u64, u64> = Route::new("payments", "refund").natural();
    let (read, handler) = (
        |Json(cents): Json<u64>| ("r", cents),
        |call: Call<u64>| async move { Ok::<_, Retry>(call.input) },
    );
    let inside = Api::new("/inside")
        .endpoint(Endpoint::post("/refund", other.clone(), read).handle(handler));
    let outside: Route<u64, u64> = Route::new("payments", "look").natural();
    let endpoint = Endpoint::post("/look", outside.clone(), read)
        .handle(handler)
        .visible(|request, biz_key| {
            request
                .headers
                .get("x-who")
                .is_some_and(|who| who == biz_key)
        });
    let api = Api::new("/operations").endpoint(endpoint);
    let builder = inside.register(api.register(Clinch::builder()));
    let test = testing::start(builder).expect("it starts");
    let app = api.router(&test.clinch);
    let refund = test
        .clinch
        .start(other.request("r", "a", &1), Duration::ZERO)
        .await;
    let refund = refund.expect("accepted").op_id();
    let json = [
        ("content-type", "application/json"),
        ("idempotency-key", "k"),
        ("prefer", "wait=0"),
    ];
    send(&app, with_body(Method::POST, "/look", &json, "7")).await;
    let look = test
        .clinch
        .start(outside.request("r", "k", &7), Duration::ZERO)
        .await;
    let look = look.expect("known");
    assert!(look.replayed());
    let look = look.op_id();
    let status = async |op_id: String, who: &str| {
        let path = format!("/operations/{op_id}");
        send(&app, request(Method::GET, &path, &[("x-who", who)]))
            .await
            .status
            .as_u16()
    };
    assert_eq!(status(look.to_string(), "r").await, 200);
    assert_eq!(status(look.to_string(), "somebody").await, 404);
    assert_eq!(
        status(refund.to_string(), "r").await,
        404,
        "a route of another service"
    );
    for unknown in ["01917f5e-0000-7000-8000-000000000000", "x", "..", "%00"] {
        assert_eq!(status(unknown.to_owned(), "r").await, 404, "{unknown}");
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_read_starts_nothing() {
    let shop = shop(charge());
    let missing = shop.charge(500, &[]).await;
    assert_eq!(
        (missing.status, missing.problem().as_str()),
        (StatusCode::BAD_REQUEST, "idempotency_key_missing")
    );
    assert!(
        missing.json()["detail"]
            .as_str()
            .expect("text")
            .contains("UUID")
    );
    let key = [
        ("idempotency-key", "a"),
        ("content-type", "application/json"),
    ];
    let unread = with_body(Method::POST, "/orders/o-1/charge", &key, "not a number");
    assert!(send(&shop.app, unread).await.status.is_client_error());
    let unknown = with_body(Method::POST, "/orders/none/charge", &key, "500");
    assert_eq!(send(&shop.app, unknown).await.problem(), "unknown_order");
    let long = format!("/orders/{}/charge", "x".repeat(300));
    let long = send(&shop.app, with_body(Method::POST, &long, &key, "500")).await;
    assert_eq!(
        (long.status, long.problem().as_str()),
        (StatusCode::BAD_REQUEST, "invalid_request")
    );
    assert_eq!(long.json()["field"], "biz_key");
    assert_eq!(shop.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_endpoint_takes_a_probe_and_may_be_carried_out_elsewhere() {
    let unsafe_one: Charge = Route::new("payments", "charge");
    let read = |Json(cents): Json<u64>| ("o-1", cents);
    let probed = Endpoint::post("/charge", unsafe_one.clone(), read)
        .handle(|_: Call<u64>| async { Err::<Done<String>, _>(Retry::unknown("it broke")) })
        .probe(|_: Call<u64>| async {
            Ok::<_, Retry>(Probed::Succeeded(Done::new("found".to_owned())))
        });
    let elsewhere: Route<u64, String> = Route::new("payments", "elsewhere");
    let api = Api::new("/operations")
        .endpoint(probed)
        .endpoint(Endpoint::post("/elsewhere", elsewhere, read).budget(Duration::ZERO));
    let test = testing::start(api.register(Clinch::builder())).expect("it starts");
    let app = api.router(&test.clinch);
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "a"),
        ("prefer", "wait=0"),
    ];
    let (op_id, _) = send(&app, with_body(Method::POST, "/charge", &headers, "5"))
        .await
        .accepted();
    let done = test.assert_completed(&unsafe_one, op_id).await;
    assert_eq!(done.value, "found");
    let sent = send(&app, with_body(Method::POST, "/elsewhere", &headers, "5")).await;
    assert_eq!(sent.json()["state"], "PENDING");
}
