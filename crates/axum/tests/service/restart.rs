//! The first request before a restart, the second after it, on a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use clinch::{Backend, Clinch};
use clinch_axum::{Idempotent, Statuses};
use tokio::task::JoinHandle;
use tower_layer::Layer as _;

use crate::support::{request, send, user};

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("clinch-axum-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process: engine, service, and what it was called.
struct Process {
    clinch: Clinch,
    running: JoinHandle<()>,
    app: Router,
    calls: Arc<AtomicU32>,
}

impl Process {
    async fn start(folder: &Folder, name: &'static str) -> Self {
        let url = format!("sqlite://{}/clinch.db", folder.0.display());
        let backend = Backend::open(&url, "store").await.expect("it opens");
        let orders = Idempotent::new("shop", "orders", user);
        let builder = orders.register(Clinch::builder().backend(backend));
        let clinch = builder.build().expect("it is put together");
        let calls = Arc::<AtomicU32>::default();
        let counted = calls.clone();
        let create = move || async move {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            (
                StatusCode::CREATED,
                format!("order {number} of the {name} process"),
            )
        };
        let service = Router::new().route("/orders", post(create));
        let layered = orders.layer(&clinch, "/operations").layer(service);
        let app = Statuses::new("/operations")
            .idempotent(&orders)
            .into_router(&clinch)
            .fallback_service(layered);
        let running = clinch.clone();
        let running = tokio::spawn(async move { running.run().await });
        Self {
            clinch,
            running,
            app,
            calls,
        }
    }

    async fn stop(self) {
        self.clinch.stop();
        self.running.await.expect("it ends");
    }
}

#[tokio::test]
async fn the_second_request_after_a_restart_gets_the_first_response() {
    let folder = Folder::new("restart");
    let order = |key| {
        let headers = [("x-user", "ann"), ("idempotency-key", key)];
        request(Method::POST, "/orders", &headers)
    };
    let first = Process::start(&folder, "first").await;
    let before = send(&first.app, order("k")).await;
    assert_eq!(
        (before.status, before.text()),
        (StatusCode::CREATED, "order 1 of the first process")
    );
    first.stop().await;

    let second = Process::start(&folder, "second").await;
    let after = send(&second.app, order("k")).await;
    assert!(after.is_replayed());
    assert_eq!((after.status, &after.body), (before.status, &before.body));
    assert_eq!(second.calls.load(Ordering::SeqCst), 0);
    let other = send(&second.app, order("another")).await;
    assert_eq!(other.text(), "order 1 of the second process");
    second.stop().await;
}
