//! Serves the status URLs.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clinch::types::{Failure, Handle, OpId};
use clinch::{Clinch, Route};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::Form;
use crate::headers::preferred;
use crate::{Idempotent, Problem};

/// The longest wait for an end that a status request may ask for.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A router for `GET {path}/{op_id}`: the same answer as the request itself, now. With `Prefer:
/// wait=N` it waits up to N seconds for the end, 60 at most.
///
/// It answers for the routes that it was given; for every other operation of the store the answer
/// is 404. An operation's id is hard to guess but no secret: if several parties use the service,
/// say with [`Statuses::route_if`] who may see what.
///
/// ```
/// use clinch::{Backend, Clinch, Route};
/// use clinch_axum::Statuses;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> clinch::Result<()> {
/// let charge: Route<u64, String> = Route::new("payments", "charge");
/// let clinch = Clinch::builder().backend(Backend::memory()).remote(&charge).build()?;
/// let router: axum::Router = Statuses::new("/operations").route(&charge).into_router(&clinch);
/// # let _ = router;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Statuses {
    form: Form,
    shown: Vec<Arc<Shown>>,
}

/// Whether the sender of a request may see operations of this business object.
pub(crate) type May = Arc<dyn Fn(&Parts, &str) -> bool + Send + Sync>;

type Waited<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;
/// Waits for the operation's end and shows it.
pub(crate) type Show =
    dyn for<'a> Fn(&'a Clinch, OpId, Duration, &'a Form) -> Waited<'a> + Send + Sync;

/// A route whose operations are shown.
pub(crate) struct Shown {
    pub(crate) domain: String,
    pub(crate) event_type: String,
    pub(crate) may: May,
    pub(crate) show: Box<Show>,
}

impl Statuses {
    /// No routes yet. `path` is the path as callers see it, such as `/operations`.
    pub fn new(path: &str) -> Self {
        Self {
            form: Form::new(path),
            shown: Vec::new(),
        }
    }

    /// Answers for operations of this route, to everybody.
    #[must_use]
    pub fn route<I: 'static, O>(self, route: &Route<I, O>) -> Self
    where
        O: Serialize + DeserializeOwned + 'static,
    {
        self.route_if(route, |_, _| true)
    }

    /// Answers for operations of this route if `may` says so: it gets the request and the
    /// operation's business key. Otherwise the answer is 404, as for an operation that does not
    /// exist.
    #[must_use]
    pub fn route_if<I: 'static, O>(
        self,
        route: &Route<I, O>,
        may: impl Fn(&Parts, &str) -> bool + Send + Sync + 'static,
    ) -> Self
    where
        O: Serialize + DeserializeOwned + 'static,
    {
        self.typed(route, Arc::new(may), |form, found| {
            form.answer(found).into_response()
        })
    }

    /// Answers for the requests of this layer: with the response that was kept, to the caller whose
    /// request it was.
    #[must_use]
    pub fn idempotent(mut self, idempotent: &Idempotent) -> Self {
        self.shown.push(Arc::new(idempotent.shown()));
        self
    }

    pub(crate) fn typed<I: 'static, O: DeserializeOwned + 'static>(
        mut self,
        route: &Route<I, O>,
        may: May,
        answer: impl Fn(&Form, clinch::Result<Handle<O>>) -> Response + Send + Sync + 'static,
    ) -> Self {
        self.shown.push(Arc::new(Shown::new(route, may, answer)));
        self
    }

    /// Sets the `Retry-After` of a 202.
    #[must_use]
    pub fn ask_again(mut self, after: Duration) -> Self {
        self.form.ask_again = after;
        self
    }

    /// Chooses the status of a FAILED operation by its failure.
    #[must_use]
    pub fn failed_as(mut self, status: fn(&Failure) -> StatusCode) -> Self {
        self.form.failed = status;
        self
    }

    /// The router.
    pub fn into_router<S: Clone + Send + Sync + 'static>(self, clinch: &Clinch) -> Router<S> {
        let path = format!("{}/{{op_id}}", self.form.statuses);
        let (this, clinch) = (Arc::new(self), clinch.clone());
        let look = move |Path(op_id): Path<String>, request: Request| {
            let (this, clinch) = (this.clone(), clinch.clone());
            async move {
                let (parts, _) = request.into_parts();
                let found = this.find(&clinch, &op_id, &parts).await;
                found.unwrap_or_else(IntoResponse::into_response)
            }
        };
        Router::new().route(&path, get(look))
    }

    async fn find(&self, clinch: &Clinch, op_id: &str, parts: &Parts) -> Result<Response, Problem> {
        let op_id: OpId = op_id.parse().map_err(|_| Problem::not_found())?;
        let keys = clinch.orchestrator().status(op_id).await?.operation.keys;
        let shows = |shown: &&Arc<Shown>| {
            shown.domain == keys.domain.as_str() && shown.event_type == keys.event_type.as_str()
        };
        let shown = self.shown.iter().find(shows);
        let shown = shown.filter(|shown| (shown.may)(parts, keys.biz_key.as_str()));
        let shown = shown.ok_or_else(Problem::not_found)?;
        let wait = preferred(&parts.headers).unwrap_or_default().min(WAIT_MAX);
        Ok((shown.show)(clinch, op_id, wait, &self.form).await)
    }
}

impl Shown {
    pub(crate) fn new<I: 'static, O: DeserializeOwned + 'static>(
        route: &Route<I, O>,
        may: May,
        answer: impl Fn(&Form, clinch::Result<Handle<O>>) -> Response + Send + Sync + 'static,
    ) -> Self {
        let (route, answer) = (route.clone(), Arc::new(answer));
        let (domain, event_type) = (route.domain().to_owned(), route.event_type().to_owned());
        let show: Box<Show> = Box::new(move |clinch, op_id, wait, form| {
            let (route, answer) = (route.clone(), answer.clone());
            Box::pin(async move { answer(form, clinch.wait(&route, op_id, wait).await) })
        });
        Self {
            domain,
            event_type,
            may,
            show,
        }
    }
}
