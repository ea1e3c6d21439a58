//! Two processes on one store, one of which dies in the middle of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use clinch::testing::{ManualClock, advance};
use clinch::{Backend, Clinch};
use clinch_axum::{Idempotent, Statuses};
use clinch_memory::Memory;
use tower_layer::Layer as _;

use crate::support::{request, send};

const HOUR: Duration = Duration::from_secs(3_600);

struct Store {
    clock: Arc<ManualClock>,
    backend: Backend,
    calls: Arc<AtomicU32>,
}

impl Store {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let backend = Backend::new(Memory::new(clock.clone()));
        let calls = Arc::default();
        Self {
            clock,
            backend,
            calls,
        }
    }

    /// A process whose service never answers, or answers at once.
    fn process(&self, idempotent: Idempotent, answers: bool) -> (Clinch, Router) {
        let builder = idempotent.register(Clinch::builder());
        let builder = builder
            .backend(self.backend.clone())
            .clock(self.clock.clone());
        let clinch = builder.build().expect("it is put together");
        let counted = self.calls.clone();
        let create = move || async move {
            counted.fetch_add(1, Ordering::SeqCst);
            match answers {
                true => (StatusCode::CREATED, "order 1"),
                false => std::future::pending().await,
            }
        };
        let service = Router::new().route("/orders", post(create));
        let layered = idempotent.layer(&clinch, "/operations").layer(service);
        let app = Statuses::new("/operations")
            .idempotent(&idempotent)
            .into_router(&clinch)
            .fallback_service(layered);
        let running = clinch.clone();
        tokio::spawn(async move { running.run().await });
        (clinch, app)
    }

    /// Accepts a request in a process of its own, which dies in the middle of the call.
    fn accept_and_die(&self, idempotent: Idempotent) -> String {
        std::thread::scope(|scope| {
            let dying = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread();
                let runtime = { runtime }.build().expect("a runtime");
                runtime.block_on(async {
                    let (_, app) = self.process(idempotent, false);
                    let headers = [("idempotency-key", "k"), ("prefer", "wait=0")];
                    let seen = send(&app, request(Method::POST, "/orders", &headers)).await;
                    advance(&self.clock, Duration::from_millis(1)).await;
                    seen.accepted().1
                })
                // Dropping the runtime drops the attempt where it is.
            });
            dying.join().expect("it accepted")
        })
    }
}

fn idempotent() -> Idempotent {
    Idempotent::new("shop", "orders", |_| Ok("everybody".to_owned()))
}

#[tokio::test]
async fn core_3_another_process_repeats_the_call_where_that_is_allowed() {
    let store = Store::new();
    let natural = || idempotent().route(|route| route.natural());
    let url = store.accept_and_die(natural());
    assert_eq!(store.calls.load(Ordering::SeqCst), 1);
    let (clinch, app) = store.process(natural(), true);
    advance(&store.clock, HOUR).await;
    let seen = send(&app, request(Method::GET, &url, &[])).await;
    assert_eq!((seen.status, seen.text()), (StatusCode::CREATED, "order 1"));
    assert_eq!(store.calls.load(Ordering::SeqCst), 2);
    clinch.stop();
}

#[tokio::test]
async fn core_6_a_lost_call_is_held_where_it_may_not_be_repeated() {
    let store = Store::new();
    let url = store.accept_and_die(idempotent());
    let (clinch, app) = store.process(idempotent(), true);
    advance(&store.clock, HOUR).await;
    let seen = send(&app, request(Method::GET, &url, &[])).await;
    seen.accepted();
    let again = [("idempotency-key", "k"), ("prefer", "wait=0")];
    send(&app, request(Method::POST, "/orders", &again))
        .await
        .accepted();
    assert_eq!(
        store.calls.load(Ordering::SeqCst),
        1,
        "nobody knows, so nobody calls"
    );
    clinch.stop();
}

#[tokio::test]
async fn two_processes_answer_the_same_key_with_one_call() {
    let store = Store::new();
    let (one, first) = store.process(idempotent(), true);
    let (two, second) = store.process(idempotent(), true);
    let order = || request(Method::POST, "/orders", &[("idempotency-key", "k")]);
    let (a, b) = (send(&first, order()).await, send(&second, order()).await);
    assert_eq!((a.status, &a.body), (b.status, &b.body));
    assert!(b.is_replayed());
    assert_eq!(store.calls.load(Ordering::SeqCst), 1);
    one.stop();
    two.stop();
}
