//! What `start` refuses, as responses.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::{Method, StatusCode};
use clinch::testing::{self, ManualClock};
use clinch::types::{Builder, Command};
use clinch::{Backend, Call, Clinch, Retry, Route};
use clinch_axum::{Answer, Api, Endpoint};
use clinch_core::ports::LoadShed;
use clinch_memory::{Fault, Memory};
use tower::ServiceExt as _;

use crate::support::{Seen, send, with_body};

fn echo() -> Route<u64, u64> {
    Route::new("demo", "echo").natural()
}

fn api() -> Api {
    let endpoint = Endpoint::post("/echo", echo(), |Json(number): Json<u64>| ("echo", number))
        .handle(|call: Call<u64>| async move { Ok::<_, Retry>(call.input) });
    Api::new("/operations").endpoint(endpoint)
}

async fn answer(api: &Api, clinch: &Clinch, key: &str) -> Seen {
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", key),
    ];
    let request = with_body(Method::POST, "/echo", &headers, "7");
    send(&api.router(clinch), request).await
}

struct Busy;

impl LoadShed for Busy {
    fn shed(&self, _: &Command, _: Duration) -> Option<Duration> {
        Some(Duration::from_millis(2_500))
    }
}

#[tokio::test]
async fn shed_work_is_a_429_that_says_when_to_come_back() {
    let test = testing::start(api().register(Clinch::builder()).shed(Busy)).expect("it starts");
    let shed = answer(&api(), &test.clinch, "a").await;
    assert_eq!(
        (shed.status, shed.problem().as_str()),
        (StatusCode::TOO_MANY_REQUESTS, "shed")
    );
    assert_eq!(shed.headers["retry-after"], "3");
}

/// An engine on a store that the test makes fail.
fn on(memory: &Memory, clock: &Arc<ManualClock>, builder: Builder) -> Clinch {
    let backend = Backend::new(memory.clone());
    builder
        .backend(backend)
        .clock(clock.clone())
        .build()
        .expect("it is put together")
}

#[tokio::test]
async fn a_store_that_is_away_is_a_503_and_the_same_request_works_later() {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let clinch = on(&memory, &clock, api().register(Clinch::builder()));
    memory.fail_next(Fault::BeforeCommit);
    let away = answer(&api(), &clinch, "a").await;
    assert_eq!(
        (away.status, away.problem().as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    );
    assert_eq!(away.headers["retry-after"], "1");
    let again = answer(&api(), &clinch, "a").await;
    assert_eq!((again.status, again.json()), (StatusCode::OK, 7.into()));
}

#[tokio::test]
async fn a_stopped_engine_still_accepts_for_the_others() {
    let test = testing::start(api().register(Clinch::builder())).expect("it starts");
    test.clinch.stop();
    test.advance(Duration::from_secs(60)).await;
    let stopped = tokio::spawn({
        let clinch = test.clinch.clone();
        async move { answer(&api(), &clinch, "a").await }
    });
    test.advance(Duration::from_secs(60)).await;
    let stopped = stopped.await.expect("an answer");
    stopped.accepted();
    assert_eq!(
        stopped.json()["state"],
        "PENDING",
        "another process makes the call"
    );
}

#[tokio::test]
async fn an_endpoint_without_its_route_is_a_mistake_of_the_service() {
    let test = testing::start(Clinch::builder()).expect("it starts");
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "a"),
    ];
    let request = with_body(Method::POST, "/echo", &headers, "7");
    let router = api().router(&test.clinch);
    let response = router.oneshot(request).await.expect("infallible");
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let error = response.extensions().get::<Arc<clinch::Error>>();
    let error = error
        .expect("the error, for a middleware that logs it")
        .to_string();
    assert!(error.contains("echo"), "{error}");
}

#[tokio::test]
async fn an_answer_can_be_shaped() {
    use axum::response::IntoResponse as _;
    use clinch::Fail;

    let refused =
        |_: Call<u64>| async { Err::<u64, _>(Fail::new("sold_out", "there are none left")) };
    let test = testing::start(Clinch::builder().handle(&echo(), refused)).expect("it starts");
    let start = async || {
        test.clinch
            .start(echo().request("e", "a", &1), Duration::from_secs(1))
            .await
    };
    let shaped = Answer::new(start().await, "/operations/").failed_as(|failure| {
        match failure.code.as_str() {
            "sold_out" => StatusCode::CONFLICT,
            _ => StatusCode::BAD_GATEWAY,
        }
    });
    assert_eq!(shaped.into_response().status(), StatusCode::CONFLICT);
    let elsewhere: Route<u64, u64> = Route::new("demo", "elsewhere");
    let test = testing::start(Clinch::builder().remote(&elsewhere)).expect("it starts");
    let open = test
        .clinch
        .start(elsewhere.request("e", "a", &1), Duration::ZERO)
        .await;
    let response = Answer::new(open, "/operations/")
        .ask_again(Duration::from_secs(60))
        .into_response();
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(response.headers()["retry-after"], "60");
    let url = response.headers()["location"].to_str().expect("a path");
    assert!(!url.contains("//"), "{url}");
}
