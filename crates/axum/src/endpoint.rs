//! A route, its handler and its HTTP endpoint in one place.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{self, MethodFilter, MethodRouter};
use clinch::types::{Builder, Classify, Failure, Probed};
use clinch::{Call, Clinch, Done, Route};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::Form;
use crate::headers::preferred;
use crate::statuses::May;
use crate::{IdempotencyKey, Problem, Statuses};

/// How long a caller waits who names no wait.
const BUDGET: Duration = Duration::from_secs(3);
/// The longest wait that a caller may ask for.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// What a request is about: the business object, and the input of the call. A pair, or a `Result`
/// of one.
///
/// ```
/// use axum::http::StatusCode;
/// use clinch_axum::{Problem, Target};
///
/// fn of_order(order: u32) -> Result<(String, u32), Problem> {
///     let detail = "there is no such order";
///     let unknown = || Problem::new(StatusCode::NOT_FOUND, "unknown_order", detail);
///     (order > 0).then(|| (format!("order-{order}"), order)).ok_or_else(unknown)
/// }
/// assert_eq!(of_order(7).target().expect("an order").0, "order-7");
/// ```
pub trait Target<I> {
    /// The business object and the input, or the refusal of the request.
    fn target(self) -> Result<(String, I), Problem>;
}

impl<I, K: Into<String>> Target<I> for (K, I) {
    fn target(self) -> Result<(String, I), Problem> {
        Ok((self.0.into(), self.1))
    }
}

impl<I, K: Into<String>> Target<I> for Result<(K, I), Problem> {
    fn target(self) -> Result<(String, I), Problem> {
        self.map(|(biz_key, input)| (biz_key.into(), input))
    }
}

/// One HTTP endpoint whose requests become operations of a route. The request needs an
/// `Idempotency-Key` header; the answer is an [`Answer`](crate::Answer) within a budget, or within
/// the caller's `Prefer: wait=N`.
///
/// `read` takes axum's extractors, one or a tuple of them, and says what the request is about:
///
/// ```
/// use axum::Json;
/// use axum::extract::Path;
/// use clinch::{Call, Retry, Route};
/// use clinch_axum::Endpoint;
///
/// let charge: Route<u64, String> = Route::new("payments", "charge");
/// let read = |(Path(order), Json(cents)): (Path<String>, Json<u64>)| (order, cents);
/// let endpoint = Endpoint::post("/orders/{order}/charge", charge, read)
///     .handle(|call: Call<u64>| async move { Ok::<_, Retry>(format!("charged {}", call.input)) });
/// # let _ = endpoint;
/// ```
///
/// Without a handler the route is [`remote`](Builder::remote): other processes make its calls.
pub struct Endpoint<I, O> {
    path: String,
    route: Route<I, O>,
    read: Read<I>,
    method: MethodFilter,
    register: Vec<Register>,
    has_handler: bool,
    may: May,
    budget: Duration,
    wait_max: Duration,
    completed: StatusCode,
    failed: Option<fn(&Failure) -> StatusCode>,
}

type Register = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;
type Reading<I> = std::pin::Pin<Box<dyn Future<Output = Result<(String, I), Response>> + Send>>;
type Read<I> = Arc<dyn Fn(Request) -> Reading<I> + Send + Sync>;

impl<I, O> Endpoint<I, O>
where
    I: Serialize + DeserializeOwned + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    /// An endpoint for `POST`.
    pub fn post<E, M, T, F>(path: &str, route: Route<I, O>, read: F) -> Self
    where
        E: FromRequest<(), M> + Send + 'static,
        M: 'static,
        T: Target<I>,
        F: Fn(E) -> T + Clone + Send + Sync + 'static,
    {
        Self::on(MethodFilter::POST, path, route, read)
    }

    /// An endpoint for other methods.
    pub fn on<E, M, T, F>(method: MethodFilter, path: &str, route: Route<I, O>, read: F) -> Self
    where
        E: FromRequest<(), M> + Send + 'static,
        M: 'static,
        T: Target<I>,
        F: Fn(E) -> T + Clone + Send + Sync + 'static,
    {
        let read: Read<I> = Arc::new(move |request| {
            let read = read.clone();
            Box::pin(async move {
                let extracted = E::from_request(request, &()).await;
                let extracted = extracted.map_err(IntoResponse::into_response)?;
                read(extracted)
                    .target()
                    .map_err(IntoResponse::into_response)
            })
        });
        Self {
            path: path.to_owned(),
            route,
            read,
            method,
            register: Vec::new(),
            has_handler: false,
            may: Arc::new(|_, _| true),
            budget: BUDGET,
            wait_max: WAIT_MAX,
            completed: StatusCode::OK,
            failed: None,
        }
    }

    /// Sets the function that makes the calls: see [`Builder::handle`].
    #[must_use]
    pub fn handle<F, Fut, R, E>(mut self, handler: F) -> Self
    where
        F: Fn(Call<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Done<O>> + Send + 'static,
        E: Classify + Send + 'static,
    {
        let (route, handler) = (self.route.clone(), Arc::new(handler));
        self.has_handler = true;
        self.registered(move |builder| {
            let handler = handler.clone();
            builder.handle(&route, move |call| handler(call))
        })
    }

    /// Sets the function that asks what became of a call: see [`Builder::probe`].
    #[must_use]
    pub fn probe<F, Fut, E>(self, probe: F) -> Self
    where
        F: Fn(Call<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Probed<O>, E>> + Send + 'static,
        E: Send + 'static,
    {
        let (route, probe) = (self.route.clone(), Arc::new(probe));
        self.registered(move |builder| {
            let probe = probe.clone();
            builder.probe(&route, move |call| probe(call))
        })
    }

    fn registered(mut self, one: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        self.register.push(Arc::new(one));
        self
    }

    /// Sets how long a caller waits who names no wait. Default: 3 s.
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the longest wait that a caller may ask for. Default: 30 s.
    #[must_use]
    pub fn wait_max(mut self, longest: Duration) -> Self {
        self.wait_max = longest;
        self
    }

    /// Sets the status of a COMPLETED operation, for example 201.
    #[must_use]
    pub fn completed_as(mut self, status: StatusCode) -> Self {
        self.completed = status;
        self
    }

    /// Chooses the status of a FAILED operation by its failure.
    #[must_use]
    pub fn failed_as(mut self, status: fn(&Failure) -> StatusCode) -> Self {
        self.failed = Some(status);
        self
    }

    /// Says who may see an operation at its status URL, by the request and the operation's business
    /// key. Default: everybody who knows its id.
    #[must_use]
    pub fn visible(mut self, may: impl Fn(&Parts, &str) -> bool + Send + Sync + 'static) -> Self {
        self.may = Arc::new(may);
        self
    }

    fn form(&self, form: &Form) -> Form {
        Form {
            completed: self.completed,
            failed: self.failed.unwrap_or(form.failed),
            ..form.clone()
        }
    }

    async fn start(&self, clinch: &Clinch, form: &Form, request: Request) -> Response {
        let key = match IdempotencyKey::of(request.headers()) {
            Ok(key) => key,
            Err(problem) => return problem.into_response(),
        };
        let wait = preferred(request.headers()).unwrap_or(self.budget);
        let trace = request.headers().get("traceparent").cloned();
        let (biz_key, input) = match (self.read)(request).await {
            Ok(target) => target,
            Err(response) => return response,
        };
        let mut request = self.route.request(biz_key, key.as_str(), &input);
        if let Some(trace) = trace.as_ref().and_then(|trace| trace.to_str().ok()) {
            request = request.trace(trace);
        }
        let result = clinch.start(request, wait.min(self.wait_max)).await;
        self.form(form).answer(result).into_response()
    }
}

/// An endpoint without its types.
trait Mount: Send + Sync {
    fn path(&self) -> &str;
    fn register(&self, builder: Builder) -> Builder;
    fn mounted(self: Arc<Self>, clinch: Clinch, form: Form) -> MethodRouter;
    fn statuses(self: Arc<Self>, statuses: Statuses) -> Statuses;
}

impl<I, O> Mount for Endpoint<I, O>
where
    I: Serialize + DeserializeOwned + Send + 'static,
    O: Serialize + DeserializeOwned + Send + 'static,
{
    fn path(&self) -> &str {
        &self.path
    }

    fn register(&self, builder: Builder) -> Builder {
        let builder = match self.has_handler {
            true => builder,
            false => builder.remote(&self.route),
        };
        self.register
            .iter()
            .fold(builder, |builder, one| one(builder))
    }

    fn mounted(self: Arc<Self>, clinch: Clinch, form: Form) -> MethodRouter {
        let method = self.method;
        routing::on(method, move |request: Request| {
            let (this, clinch, form) = (self.clone(), clinch.clone(), form.clone());
            async move { this.start(&clinch, &form, request).await }
        })
    }

    fn statuses(self: Arc<Self>, statuses: Statuses) -> Statuses {
        let (route, may) = (self.route.clone(), self.may.clone());
        statuses.typed(&route, may, move |form, found| {
            self.form(form).answer(found).into_response()
        })
    }
}

/// The endpoints of a service, with a status URL for each of their operations.
///
/// The example of the [crate](crate) shows one. In a test, register the handlers with the builder
/// of `clinch::testing`, and take the router of its engine:
///
/// ```
/// use axum::extract::Path;
/// use clinch::{Call, Clinch, Retry, Route, testing};
/// use clinch_axum::{Api, Endpoint};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// let greet: Route<String, String> = Route::new("demo", "greet").natural();
/// let read = |Path(name): Path<String>| (name.clone(), name);
/// let endpoint = Endpoint::post("/greet/{name}", greet, read)
///     .handle(|call: Call<String>| async move { Ok::<_, Retry>(format!("Hello {}", call.input)) });
/// let api = Api::new("/operations").endpoint(endpoint);
///
/// let test = testing::start(api.register(Clinch::builder()))?;
/// let router = api.router(&test.clinch);
/// # let _ = router;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Api {
    endpoints: Vec<Arc<dyn Mount>>,
    statuses: Statuses,
    form: Form,
}

impl Api {
    /// No endpoints yet. `statuses` is the path of the status URLs as callers see it, such as
    /// `/operations`.
    pub fn new(statuses: &str) -> Self {
        Self {
            endpoints: Vec::new(),
            statuses: Statuses::new(statuses),
            form: Form::new(statuses),
        }
    }

    /// Adds an endpoint.
    #[must_use]
    pub fn endpoint<I, O>(mut self, endpoint: Endpoint<I, O>) -> Self
    where
        I: Serialize + DeserializeOwned + Send + 'static,
        O: Serialize + DeserializeOwned + Send + 'static,
    {
        let endpoint = Arc::new(endpoint);
        self.statuses = endpoint.clone().statuses(self.statuses);
        self.endpoints.push(endpoint);
        self
    }

    /// Sets the `Retry-After` of every 202. Default: 2 s.
    #[must_use]
    pub fn ask_again(mut self, after: Duration) -> Self {
        self.statuses = self.statuses.ask_again(after);
        self.form.ask_again = after;
        self
    }

    /// Registers the routes and handlers of all endpoints.
    #[must_use]
    pub fn register(&self, builder: Builder) -> Builder {
        let endpoints = self.endpoints.iter();
        endpoints.fold(builder, |builder, endpoint| endpoint.register(builder))
    }

    /// The endpoints and the status URLs.
    pub fn router(&self, clinch: &Clinch) -> Router {
        let statuses = self.statuses.clone().into_router(clinch);
        let endpoints = self.endpoints.iter();
        endpoints.fold(statuses, |router, endpoint| {
            let mounted = endpoint.clone().mounted(clinch.clone(), self.form.clone());
            router.route(endpoint.path(), mounted)
        })
    }

    /// Both at once. Runs nothing: see [`Clinch::run`].
    pub fn build(&self, builder: Builder) -> clinch::Result<(Clinch, Router)> {
        let clinch = self.register(builder).build()?;
        let router = self.router(&clinch);
        Ok((clinch, router))
    }
}
