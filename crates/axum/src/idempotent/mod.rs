//! Makes an existing service idempotent.

mod exchange;
mod inner;
mod service;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderName, header};
use axum::response::Response;
use clinch::types::{Builder, OpId};
use clinch::{Call, Clinch, Refusal, Retry, Route};
use tower_layer::Layer;
use tower_service::Service;

use crate::Problem;
use crate::answer::Form;
use crate::statuses::Shown;
use exchange::{Kept, StoredRequest, StoredResponse};
use inner::Inner;
pub use service::IdempotentService;

/// How long a caller waits who names no wait.
const BUDGET: Duration = Duration::from_secs(10);
/// The longest wait that a caller may ask for.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The longest call of the inner service: its effect is unknown after that.
const CALL_MAX: Duration = Duration::from_secs(30);
/// How long an attempt waits that finds no inner service yet: this process is still starting.
const NOT_MOUNTED: Duration = Duration::from_millis(200);

/// The largest request body: with its headers, and as base64, it fits a payload.
const BODY_MAX: usize = 128 * 1024;
/// The largest response body that is kept: as base64 it fits a stored result.
const KEPT_MAX: usize = 1024 * 1024;

/// Headers that say how one message travels: the server writes them anew for every response.
const FRAMING: [HeaderName; 3] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
];

type Whose = Arc<dyn Fn(&Parts) -> Result<String, Problem> + Send + Sync>;

/// Makes an existing service idempotent: a request with an `Idempotency-Key` becomes an operation,
/// the service is its executor, and the service's response is its result. The same key gives the
/// same response again without another call, also from another process and after a restart.
///
/// ```
/// use axum::Router;
/// use axum::http::StatusCode;
/// use axum::routing::post;
/// use clinch::{Backend, Clinch};
/// use clinch_axum::{Idempotent, Problem, Statuses};
/// use tower_layer::Layer as _;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// // Whose key it is: two users may choose the same one. A middleware outside checked who it is.
/// let orders = Idempotent::new("shop", "orders", |request| {
///     let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
///     let missing = || Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", "sign in first");
///     user.map(str::to_owned).ok_or_else(missing)
/// });
/// let clinch = orders.register(Clinch::builder().backend(Backend::memory())).build()?;
///
/// // The service as it was, and the layer around it.
/// let create = post(|| async { (StatusCode::CREATED, "order 7") });
/// let service = Router::new().route("/orders", create);
/// let service = orders.layer(&clinch, "/operations").layer(service);
/// let app: Router = Statuses::new("/operations")
///     .idempotent(&orders)
///     .into_router(&clinch)
///     .fallback_service(service);
/// # let _ = app;
/// # Ok(())
/// # }
/// ```
///
/// | request | what happens |
/// | --- | --- |
/// | GET, HEAD, OPTIONS, TRACE, CONNECT | passes through |
/// | POST, PATCH without a key | 400; passes through after [`Idempotent::optional`] |
/// | PUT, DELETE and others without a key | passes through |
/// | with a key | one operation: see below |
/// | the same key again | the same response, with `Idempotency-Replayed: true` |
/// | the same key with another method, path, query, body or kept header | 422 |
/// | the service takes longer than the budget | 202 with the status URL, see [`Statuses`](crate::Statuses) |
/// | the body is too large | 413 |
///
/// | the service answers | the operation |
/// | --- | --- |
/// | 2xx, 3xx, 4xx | COMPLETED: this response is kept, with its status, kept headers and body |
/// | 425, 429 | tried again: the service says that it did nothing |
/// | 408, 5xx, a panic, no answer in time, a body that breaks off | the effect is unknown: what follows is up to the route's safety |
///
/// A route may not be repeated unless it says so. After a crash in the middle of a call, or a 500,
/// such an operation is held for an operator or for a probe, and its caller sees 202. If the
/// service recognizes a repeat by its `idempotency-key` header, which the layer sets to a key that
/// is the same for every attempt, say so with `.route(|route| route.keyed(…))`; if a repeat is
/// harmless, with `.route(|route| route.natural())`.
///
/// What it cannot do:
///
/// - **Make the effects of the service and its response one commit.** After a crash between the
///   two, the effect is unknown. A service that writes to its own database is safe only if it
///   recognizes the key there.
/// - **Stream.** Both bodies are read to their end, up to a size, before they go on; trailers and
///   upgrades are lost.
/// - **Carry what is not part of the stored request.** The service gets method, path, query, kept
///   headers and the body, and an [`Execution`]. Extensions that an outer layer set are gone, and
///   so are the peer's address, cookies and `Authorization`, unless they are kept. So
///   authentication belongs outside of the layer, and what it found out belongs into `whose`.
/// - **Send headers that are not kept**, such as `set-cookie`: the first response has them no more
///   than the second.
/// - **Wrap the routes of a router one by one.** The service that is wrapped is found again after a
///   restart, so there is exactly one: wrap a whole [`Router`](axum::Router) as above.
///
/// Every process that runs handlers must wrap the same service. Requests are stored: with a
/// [`Sealer`](clinch::ports::Sealer) they are sealed.
#[derive(Clone)]
pub struct Idempotent {
    route: Route<StoredRequest, StoredResponse>,
    settings: Settings,
    inner: Arc<OnceLock<Inner>>,
}

#[derive(Clone)]
pub(crate) struct Settings {
    whose: Whose,
    is_optional: bool,
    budget: Duration,
    wait_max: Duration,
    body_max: usize,
    request_headers: Vec<HeaderName>,
    kept: Kept,
}

/// The operation that a request of the inner service belongs to: an extension of that request.
///
/// ```
/// use axum::Extension;
/// use clinch_axum::Execution;
///
/// async fn create_order(Extension(execution): Extension<Execution>) -> String {
///     format!("an order of {}, under {}", execution.whose, execution.key)
/// }
/// # let _ = create_order;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The operation.
    pub op_id: OpId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Whose request it is, as the layer's function said. No header can forge it.
    pub whose: String,
    /// The same for every attempt, and different for two users with the same `Idempotency-Key`. The
    /// `idempotency-key` header of the request has it too.
    pub key: String,
}

impl Idempotent {
    /// The requests become operations of this domain and event type. `whose` says to whom a
    /// request's key belongs: a user or tenant, as the service knows them, never just what a caller
    /// claims.
    pub fn new(
        domain: &str,
        event_type: &str,
        whose: impl Fn(&Parts) -> Result<String, Problem> + Send + Sync + 'static,
    ) -> Self {
        let route = Route::new(domain, event_type).timeout(CALL_MAX);
        let names =
            |names: &[&'static str]| names.iter().copied().map(HeaderName::from_static).collect();
        Self {
            route,
            settings: Settings {
                whose: Arc::new(whose),
                is_optional: false,
                budget: BUDGET,
                wait_max: WAIT_MAX,
                body_max: BODY_MAX,
                request_headers: names(&["content-encoding", "content-type"]),
                kept: Kept {
                    bytes_max: KEPT_MAX,
                    headers: names(&[
                        "cache-control",
                        "content-encoding",
                        "content-language",
                        "content-type",
                        "etag",
                        "location",
                    ]),
                },
            },
            inner: Arc::default(),
        }
    }

    /// Changes the policies of the route: safety, retries, timeout, deadline, order. Order is by
    /// `whose`.
    #[must_use]
    pub fn route(
        mut self,
        change: impl FnOnce(
            Route<StoredRequest, StoredResponse>,
        ) -> Route<StoredRequest, StoredResponse>,
    ) -> Self {
        self.route = change(self.route);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// POST and PATCH requests without a key pass through instead of 400.
    #[must_use]
    pub fn optional(self) -> Self {
        self.with(|settings| settings.is_optional = true)
    }

    /// Sets how long a caller waits who names no wait. Default: 10 s.
    #[must_use]
    pub fn budget(self, budget: Duration) -> Self {
        self.with(|settings| settings.budget = budget)
    }

    /// Sets the longest wait that a caller may ask for with `Prefer: wait=N`. Default: 60 s.
    #[must_use]
    pub fn wait_max(self, longest: Duration) -> Self {
        self.with(|settings| settings.wait_max = longest)
    }

    /// Keeps a further header of requests: the service gets it, and it counts for "is it the same
    /// request?". Default: `content-type` and `content-encoding`.
    #[must_use]
    pub fn request_header(self, name: HeaderName) -> Self {
        self.with(|settings| settings.request_headers.push(name))
    }

    /// Keeps a further header of responses. Default: `content-type`, `content-encoding`,
    /// `content-language`, `location`, `etag` and `cache-control`. `connection`, `content-length` and
    /// `transfer-encoding` are never kept.
    #[must_use]
    pub fn response_header(self, name: HeaderName) -> Self {
        self.with(|settings| {
            if !FRAMING.contains(&name) {
                settings.kept.headers.push(name);
            }
        })
    }

    /// Sets the largest request body. Default and maximum: 128 KiB. Larger content belongs into a
    /// storage.
    #[must_use]
    pub fn body_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.body_max = bytes.min(BODY_MAX))
    }

    /// Sets the largest response body that is kept. Default and maximum: 1 MiB. A longer response
    /// is answered with 500 `response_too_large`, once and ever after: the service was called and
    /// is not called again.
    #[must_use]
    pub fn kept_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.kept.bytes_max = bytes.min(KEPT_MAX))
    }

    /// Registers the route and its handler.
    #[must_use]
    pub fn register(&self, builder: Builder) -> Builder {
        let (inner, kept) = (self.inner.clone(), self.settings.kept.clone());
        builder.handle(&self.route, move |call: Call<StoredRequest>| {
            let (inner, kept) = (inner.clone(), kept.clone());
            async move {
                let Some(inner) = inner.get() else {
                    let retry = Retry::not_called("the service is not mounted yet");
                    return Err(Refusal::from(retry.after(NOT_MOUNTED)));
                };
                let execution = Execution {
                    op_id: call.op_id(),
                    attempt: call.attempt(),
                    whose: call.biz_key().to_owned(),
                    key: call.key().to_owned(),
                };
                let request = call.input.rebuilt(execution)?;
                kept.outcome(inner.call(request).await).await
            }
        })
    }

    /// The layer. `statuses` is the path of [`Statuses`](crate::Statuses), as callers see it.
    pub fn layer(&self, clinch: &Clinch, statuses: &str) -> IdempotentLayer {
        IdempotentLayer {
            idempotent: self.clone(),
            clinch: clinch.clone(),
            form: Form::new(statuses),
        }
    }

    /// The kept responses at their status URLs, each to the one whose request it was.
    pub(crate) fn shown(&self) -> Shown {
        let whose = self.settings.whose.clone();
        let may =
            move |parts: &Parts, biz_key: &str| whose(parts).is_ok_and(|whose| whose == biz_key);
        Shown::new(&self.route, Arc::new(may), |form, found| {
            form.shown(found, StoredResponse::rebuilt)
        })
    }
}

/// The layer of an [`Idempotent`], for one service.
#[derive(Clone)]
pub struct IdempotentLayer {
    idempotent: Idempotent,
    clinch: Clinch,
    form: Form,
}

impl<S> Layer<S> for IdempotentLayer
where
    S: Service<Request<Body>, Response = Response, Error = std::convert::Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    type Service = IdempotentService<S>;

    /// # Panics
    ///
    /// If the layer already wraps a service: after a restart nobody could tell which of the two an
    /// operation belongs to. `Router::layer` wraps every route alone; wrap the whole router
    /// instead.
    #[expect(
        clippy::panic,
        reason = "a router that is put together wrongly stops at its start, as with axum itself"
    )]
    fn layer(&self, service: S) -> IdempotentService<S> {
        if self
            .idempotent
            .inner
            .set(Inner::new(service.clone()))
            .is_err()
        {
            panic!(
                "an Idempotent wraps one service, and this one wraps a service already; instead of \
                 `router.layer(layer)` write `Layer::layer(&layer, router)`, and make an Idempotent \
                 of its own for every further router"
            );
        }
        let Self {
            idempotent,
            clinch,
            form,
        } = self.clone();
        IdempotentService::new(service, clinch, idempotent, form)
    }
}
