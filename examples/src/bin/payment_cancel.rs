//! Canceling a payment behind an HTTP API: 200 with the result, or 202 and the work goes on.
//!
//! ```sh
//! cargo run -p clinch-examples --bin payment_cancel
//! curl -i -X POST localhost:8080/payments/p-7/cancel -H 'idempotency-key: c0ffee'
//! ```
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use clinch::types::{Builder, Classify, ErrorKind, Handle, OpId, Settled};
use clinch::{Backend, Call, Clinch, Done, Fail, Refusal, Retry, Route};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How long a caller waits before it is told 202.
const BUDGET: Duration = Duration::from_secs(3);

#[derive(Debug, Serialize, Deserialize)]
struct Cancel {
    payment: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Canceled {
    refunded: u64,
}

/// The payment provider's client.
trait Psp: Send + Sync + 'static {
    /// Cancels; the provider remembers `key` and does it once.
    fn cancel(
        &self,
        payment: &str,
        key: &str,
    ) -> impl Future<Output = Result<(String, Canceled), PspError>> + Send;
}

/// What can go wrong there.
#[derive(Debug)]
enum PspError {
    /// It has no such payment, or it cannot be canceled any more.
    Refused(&'static str),
    /// It asks us to stay away.
    TooMany(Duration),
    /// The connection broke, and nobody knows.
    Broken,
}

impl Classify for PspError {
    fn classify(self) -> Refusal {
        match self {
            Self::Refused(why) => Fail::new("refused", why).into(),
            Self::TooMany(pause) => Retry::not_applied("throttled").retry_after(pause).into(),
            Self::Broken => Retry::unknown("the connection broke").into(),
        }
    }
}

#[derive(Clone)]
struct Api {
    clinch: Clinch,
    cancel: Route<Cancel, Canceled>,
}

fn route() -> Route<Cancel, Canceled> {
    Route::new("payments", "PAYMENT.CANCEL.REQUEST")
        .keyed(Duration::from_secs(24 * 60 * 60))
        .destination("psp")
}

/// The executor.
fn handled_by(builder: Builder, psp: impl Psp) -> Builder {
    let psp = Arc::new(psp);
    builder.handle(&route(), move |call: Call<Cancel>| {
        let psp = psp.clone();
        async move {
            let (txn_id, canceled) = psp.cancel(&call.input.payment, call.key()).await?;
            Ok::<_, PspError>(Done::new(canceled).txn_id(txn_id))
        }
    })
}

/// The controller.
fn api(clinch: Clinch) -> Router {
    let api = Api {
        clinch,
        cancel: route(),
    };
    Router::new()
        .route("/payments/{payment}/cancel", post(cancel))
        .route("/status/{op_id}", get(status))
        .with_state(api)
}

async fn cancel(
    State(api): State<Api>,
    Path(payment): Path<String>,
    headers: HeaderMap,
) -> Response {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok());
    let Some(key) = key else {
        return problem(StatusCode::BAD_REQUEST, "send an Idempotency-Key");
    };
    let input = Cancel {
        payment: payment.clone(),
    };
    let request = api.cancel.request(payment, key, &input);
    answer(api.clinch.start(request, BUDGET).await)
}

async fn status(State(api): State<Api>, Path(op_id): Path<String>) -> Response {
    let Ok(op_id) = op_id.parse::<OpId>() else {
        return problem(StatusCode::NOT_FOUND, "there is no such operation");
    };
    answer(api.clinch.look(&api.cancel, op_id).await)
}

fn answer(result: clinch::Result<Handle<Canceled>>) -> Response {
    let handle = match result {
        Ok(handle) => handle,
        Err(error) => return refuse(&error),
    };
    let op_id = handle.op_id();
    match handle.settled() {
        Some(Settled::Completed(done)) => {
            let body =
                json!({"op_id": op_id, "state": "COMPLETED", "refunded": done.value.refunded});
            (StatusCode::OK, Json(body)).into_response()
        }
        Some(Settled::Failed(failure)) => {
            let body = json!({"op_id": op_id, "state": "FAILED", "code": failure.code, "effect": failure.effect});
            (StatusCode::OK, Json(body)).into_response()
        }
        Some(Settled::OtherResult { .. } | Settled::Pruned(_)) => problem(
            StatusCode::GONE,
            "it ended long ago, or under another version",
        ),
        None => {
            let location = [(header::LOCATION, format!("/status/{op_id}"))];
            let body = json!({"op_id": op_id, "state": "IN_PROGRESS"});
            (StatusCode::ACCEPTED, location, Json(body)).into_response()
        }
    }
}

fn refuse(error: &clinch::Error) -> Response {
    let status = match error.kind() {
        ErrorKind::Mismatch => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Shed => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    problem(status, &error.to_string())
}

fn problem(status: StatusCode, detail: &str) -> Response {
    (status, Json(json!({"detail": detail}))).into_response()
}

/// A provider that refunds 5,000, and has its bad days: try p-broken, p-busy and p-gone.
struct FakePsp;

impl Psp for FakePsp {
    async fn cancel(&self, payment: &str, key: &str) -> Result<(String, Canceled), PspError> {
        match payment {
            "p-broken" => Err(PspError::Broken),
            "p-busy" => Err(PspError::TooMany(Duration::from_secs(30))),
            "p-gone" => Err(PspError::Refused("there is no such payment")),
            _ => {
                let txn_id = format!("tx_{}", key.chars().take(8).collect::<String>());
                Ok((txn_id, Canceled { refunded: 5_000 }))
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Clinch::builder().backend(Backend::memory());
    let clinch = handled_by(builder, FakePsp).build()?;
    let running = clinch.clone();
    tokio::spawn(async move { running.run().await });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, api(clinch)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use clinch::testing;
    use tokio::sync::Semaphore;
    use tower::ServiceExt;

    use super::*;

    /// Answers when the gate opens, and counts.
    struct Slow {
        gate: Arc<Semaphore>,
        calls: Arc<AtomicU32>,
        answer: fn(u32) -> Result<(String, Canceled), PspError>,
    }

    impl Psp for Slow {
        async fn cancel(&self, _: &str, _: &str) -> Result<(String, Canceled), PspError> {
            let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
            let _open = self.gate.acquire().await.expect("never closed");
            (self.answer)(call)
        }
    }

    fn canceled(_: u32) -> Result<(String, Canceled), PspError> {
        Ok(("tx_1".into(), Canceled { refunded: 5_000 }))
    }

    struct Shop {
        test: testing::Test,
        api: Router,
        gate: Arc<Semaphore>,
        calls: Arc<AtomicU32>,
    }

    fn shop(answer: fn(u32) -> Result<(String, Canceled), PspError>) -> Shop {
        let (gate, calls) = (Arc::new(Semaphore::new(1)), Arc::<AtomicU32>::default());
        let psp = Slow {
            gate: gate.clone(),
            calls: calls.clone(),
            answer,
        };
        let test = testing::start(handled_by(Clinch::builder(), psp)).expect("it starts");
        let api = api(test.clinch.clone());
        Shop {
            test,
            api,
            gate,
            calls,
        }
    }

    async fn send(
        api: &Router,
        request: Request<Body>,
    ) -> (StatusCode, HeaderMap, serde_json::Value) {
        let response = api.clone().oneshot(request).await.expect("infallible");
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 64 * 1024).await.expect("a short body");
        let body = serde_json::from_slice(&body).expect("JSON");
        (parts.status, parts.headers, body)
    }

    fn post_cancel(key: &str) -> Request<Body> {
        let request = Request::post("/payments/p-7/cancel").header("idempotency-key", key);
        request.body(Body::empty()).expect("a request")
    }

    #[tokio::test]
    async fn core_8_within_the_budget_200_and_a_replay_calls_nobody() {
        let shop = shop(canceled);
        let (status, _, body) = send(&shop.api, post_cancel("a")).await;
        assert_eq!(
            (status, body["refunded"].as_u64()),
            (StatusCode::OK, Some(5_000))
        );
        let (status, _, again) = send(&shop.api, post_cancel("a")).await;
        assert_eq!((status, &again), (StatusCode::OK, &body));
        assert_eq!(shop.calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn core_8_past_the_budget_202_and_the_work_goes_on() {
        let shop = shop(canceled);
        let held = shop.gate.clone().acquire_owned().await.expect("a permit");
        let waiting = tokio::spawn({
            let api = shop.api.clone();
            async move { send(&api, post_cancel("a")).await }
        });
        // The provider's own timeout is as long as the budget: the caller is told first.
        shop.test.advance(Duration::from_millis(2_999)).await;
        assert!(!waiting.is_finished());
        shop.test.advance(Duration::from_millis(1)).await;
        let (status, headers, body) = waiting.await.expect("an answer");
        assert_eq!(status, StatusCode::ACCEPTED);
        let op_id: OpId = body["op_id"]
            .as_str()
            .expect("an id")
            .parse()
            .expect("an id");
        assert_eq!(headers[header::LOCATION], format!("/status/{op_id}"));
        drop(held);
        let done = shop.test.assert_completed(&route(), op_id).await;
        assert_eq!(done.value.refunded, 5_000);
        let look = Request::get(format!("/status/{op_id}")).body(Body::empty());
        let (status, _, body) = send(&shop.api, look.expect("a request")).await;
        assert_eq!(
            (status, body["state"].as_str()),
            (StatusCode::OK, Some("COMPLETED"))
        );
    }

    #[tokio::test]
    async fn a_broken_connection_is_tried_again_under_the_same_key() {
        let shop = shop(|call| match call {
            1 => Err(PspError::Broken),
            2 => Err(PspError::TooMany(Duration::from_secs(60))),
            _ => canceled(call),
        });
        let (status, _, body) = send_and_wait(&shop).await;
        assert_eq!(status, StatusCode::ACCEPTED);
        let op_id: OpId = body["op_id"]
            .as_str()
            .expect("an id")
            .parse()
            .expect("an id");
        shop.test.assert_completed(&route(), op_id).await;
        assert_eq!(shop.test.attempts(op_id).await, 3);
    }

    /// Sends one request and lets its budget pass.
    async fn send_and_wait(shop: &Shop) -> (StatusCode, HeaderMap, serde_json::Value) {
        let waiting = tokio::spawn({
            let api = shop.api.clone();
            async move { send(&api, post_cancel("a")).await }
        });
        shop.test.advance(BUDGET).await;
        waiting.await.expect("an answer")
    }

    #[tokio::test]
    async fn a_refusal_is_an_answer_too() {
        let shop = shop(|_| Err(PspError::Refused("settled long ago")));
        let (status, _, body) = send(&shop.api, post_cancel("a")).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(
            (&body["state"], &body["code"], &body["effect"]),
            (&json!("FAILED"), &json!("refused"), &json!("none"))
        );
    }
}
