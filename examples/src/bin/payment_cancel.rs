//! Canceling a payment behind an HTTP API: 200 with the result, or 202 and the work goes on.
//!
//! ```sh
//! cargo run -p clinch-examples --bin payment_cancel
//! curl -i -X POST localhost:8080/payments/p-7/cancel -H 'idempotency-key: c0ffee'
//! ```
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use clinch::types::Classify;
use clinch::{Backend, Call, Clinch, Done, Fail, Refusal, Retry, Route};
use clinch_axum::{Api, Endpoint};
use serde::{Deserialize, Serialize};

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

fn route() -> Route<Cancel, Canceled> {
    Route::new("payments", "PAYMENT.CANCEL.REQUEST")
        .keyed(Duration::from_secs(24 * 60 * 60))
        .destination("psp")
}

/// Route, endpoint and handler in one place. The answers, the `Idempotency-Key`, `Prefer: wait=N`
/// and the status URL are those of `clinch-axum`.
fn api(psp: impl Psp) -> Api {
    let psp = Arc::new(psp);
    let read = |Path(payment): Path<String>| (payment.clone(), Cancel { payment });
    let cancel = Endpoint::post("/payments/{payment}/cancel", route(), read).handle(
        move |call: Call<Cancel>| {
            let psp = psp.clone();
            async move {
                let (txn_id, canceled) = psp.cancel(&call.input.payment, call.key()).await?;
                Ok::<_, PspError>(Done::new(canceled).txn_id(txn_id))
            }
        },
    );
    Api::new("/status").endpoint(cancel)
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
    let (clinch, router) = api(FakePsp).build(builder)?;
    tokio::spawn(async move { clinch.run().await });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::http::{HeaderMap, Request, StatusCode, header};
    use clinch::testing::{self, Effects, Test};
    use clinch::types::OpId;
    use serde_json::{Value, json};
    use tokio::sync::Semaphore;
    use tower::ServiceExt;

    use super::*;

    /// Answers when the gate opens, and counts.
    struct Slow {
        gate: Arc<Semaphore>,
        book: Effects,
        answer: fn(u32) -> Result<(String, Canceled), PspError>,
    }

    impl Psp for Slow {
        async fn cancel(&self, _: &str, key: &str) -> Result<(String, Canceled), PspError> {
            let call = self.book.call(key);
            let _open = self.gate.acquire().await.expect("never closed");
            (self.answer)(call)
        }
    }

    fn canceled(_: u32) -> Result<(String, Canceled), PspError> {
        Ok(("tx_1".into(), Canceled { refunded: 5_000 }))
    }

    struct Shop {
        test: Test,
        router: Router,
        gate: Arc<Semaphore>,
        book: Effects,
    }

    fn shop(answer: fn(u32) -> Result<(String, Canceled), PspError>) -> Shop {
        let (gate, book) = (Arc::new(Semaphore::new(1)), Effects::default());
        let api = api(Slow {
            gate: gate.clone(),
            book: book.clone(),
            answer,
        });
        let test = testing::start(api.register(Clinch::builder())).expect("it starts");
        let router = api.router(&test.clinch);
        Shop {
            test,
            router,
            gate,
            book,
        }
    }

    async fn send(router: &Router, request: Request<Body>) -> (StatusCode, HeaderMap, Value) {
        let response = router.clone().oneshot(request).await.expect("infallible");
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 64 * 1024).await.expect("a short body");
        let body = serde_json::from_slice(&body).expect("JSON");
        (parts.status, parts.headers, body)
    }

    fn post_cancel(key: &str) -> Request<Body> {
        let request = Request::post("/payments/p-7/cancel").header("idempotency-key", key);
        request.body(Body::empty()).expect("a request")
    }

    fn op_id(body: &Value) -> OpId {
        let op_id = body["op_id"].as_str().expect("an id");
        op_id.parse().expect("an id")
    }

    #[tokio::test]
    async fn core_8_within_the_budget_200_and_a_replay_calls_nobody() {
        let shop = shop(canceled);
        let (status, _, body) = send(&shop.router, post_cancel("a")).await;
        assert_eq!(
            (status, &body),
            (StatusCode::OK, &json!({"refunded": 5_000}))
        );
        let (status, _, again) = send(&shop.router, post_cancel("a")).await;
        assert_eq!((status, &again), (StatusCode::OK, &body));
        assert_eq!(shop.book.all_calls(), 1);
    }

    #[tokio::test]
    async fn core_8_past_the_budget_202_and_the_work_goes_on() {
        let shop = shop(canceled);
        let held = shop.gate.clone().acquire_owned().await.expect("a permit");
        let waiting = tokio::spawn({
            let router = shop.router.clone();
            async move { send(&router, post_cancel("a")).await }
        });
        // The provider's own timeout is as long as the budget: the caller is told first.
        shop.test.advance(Duration::from_millis(2_999)).await;
        assert!(!waiting.is_finished());
        shop.test.advance(Duration::from_millis(1)).await;
        let (status, headers, body) = waiting.await.expect("an answer");
        assert_eq!(status, StatusCode::ACCEPTED);
        let op_id = op_id(&body);
        let url = format!("/status/{op_id}");
        assert_eq!(headers[header::LOCATION], url);
        drop(held);
        let done = shop.test.assert_completed(&route(), op_id).await;
        assert_eq!(done.value.refunded, 5_000);
        let look = Request::get(url).body(Body::empty()).expect("a request");
        let (status, _, body) = send(&shop.router, look).await;
        assert_eq!((status, body), (StatusCode::OK, json!({"refunded": 5_000})));
    }

    #[tokio::test]
    async fn a_broken_connection_is_tried_again_under_the_same_key() {
        let shop = shop(|call| match call {
            1 => Err(PspError::Broken),
            2 => Err(PspError::TooMany(Duration::from_secs(60))),
            _ => canceled(call),
        });
        let waiting = tokio::spawn({
            let router = shop.router.clone();
            async move { send(&router, post_cancel("a")).await }
        });
        shop.test.advance(Duration::from_secs(3)).await;
        let (status, _, body) = waiting.await.expect("an answer");
        assert_eq!(status, StatusCode::ACCEPTED);
        let op_id = op_id(&body);
        shop.test.assert_completed(&route(), op_id).await;
        let key = shop.test.key(op_id).await;
        assert_eq!(shop.book.calls(&key), 3, "all three under one key");
    }

    #[tokio::test]
    async fn a_refusal_is_a_problem_that_says_why_and_that_nothing_happened() {
        let shop = shop(|_| Err(PspError::Refused("settled long ago")));
        let (status, headers, body) = send(&shop.router, post_cancel("a")).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(
            (&body["state"], &body["code"], &body["effect"]),
            (&json!("FAILED"), &json!("refused"), &json!("none"))
        );
    }
}
