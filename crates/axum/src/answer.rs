//! The response for an operation's handle.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use clinch::types::{Failure, Handle, OpId, Settled, Status};
use serde::Serialize;
use serde_json::json;

use crate::Problem;
use crate::problem::{seconds, status_of};

/// Says that the answer is that of an earlier request with the same key. The server of Clinch sends
/// it too.
pub(crate) const REPLAYED: &str = "idempotency-replayed";

/// How often a caller should ask for the status, unless the endpoint says otherwise.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// The answer to a request that became an operation.
///
/// | the operation | answer |
/// | --- | --- |
/// | COMPLETED | 200 (or [`Answer::completed_as`]); the body is the result |
/// | FAILED, the provider refused | 422, a problem document with `code`, `effect` and `op_id` |
/// | FAILED, somebody canceled it | 409, the same |
/// | FAILED for another reason, or the effect is unknown | 502, the same |
/// | not settled | 202 with `Location`, `Retry-After` and `{"op_id", "state", "status_url"}` |
/// | COMPLETED, but its result is of another version, or pruned | 410, a problem document |
/// | refused by [`Clinch::start`](clinch::Clinch::start) | see [`Problem`] |
///
/// A replay carries the header `Idempotency-Replayed: true`.
///
/// ```
/// use std::time::Duration;
/// use axum::extract::{Path, State};
/// use clinch::{Clinch, Route};
/// use clinch_axum::{Answer, IdempotencyKey, PreferWait};
///
/// #[derive(Clone)]
/// struct Shop {
///     clinch: Clinch,
///     cancel: Route<String, u64>,
/// }
///
/// async fn cancel(
///     State(shop): State<Shop>,
///     Path(payment): Path<String>,
///     key: IdempotencyKey,
///     wait: PreferWait<30>,
/// ) -> Answer<u64> {
///     let request = shop.cancel.request(&payment, key.as_str(), &payment);
///     let budget = wait.or(Duration::from_secs(3));
///     Answer::new(shop.clinch.start(request, budget).await, "/operations")
/// }
/// # let _ = cancel;
/// ```
#[derive(Debug)]
pub struct Answer<O> {
    result: clinch::Result<Handle<O>>,
    form: Form,
}

/// How an endpoint answers.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    /// The path below which [`Statuses`](crate::Statuses) answers.
    pub(crate) statuses: Arc<str>,
    pub(crate) ask_again: Duration,
    pub(crate) completed: StatusCode,
    pub(crate) failed: fn(&Failure) -> StatusCode,
}

impl Form {
    pub(crate) fn new(statuses: &str) -> Self {
        Self {
            statuses: Arc::from(statuses.trim_end_matches('/')),
            ask_again: ASK_AGAIN,
            completed: StatusCode::OK,
            failed: status_of,
        }
    }

    pub(crate) fn answer<O>(&self, result: clinch::Result<Handle<O>>) -> Answer<O> {
        Answer {
            result,
            form: self.clone(),
        }
    }

    /// Everything but a readable result.
    pub(crate) fn unsettled(&self, op_id: OpId, state: Status) -> Response {
        let url = format!("{}/{op_id}", self.statuses);
        let body = json!({"op_id": op_id, "state": state.as_str(), "status_url": url});
        let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, seconds(self.ask_again));
        if let Ok(url) = HeaderValue::from_str(&url) {
            headers.insert(header::LOCATION, url);
        }
        response
    }

    /// The response for a handle; `completed` makes that of a readable result.
    pub(crate) fn shown<O>(
        &self,
        result: clinch::Result<Handle<O>>,
        completed: impl FnOnce(&O) -> Response,
    ) -> Response {
        let handle = match result {
            Ok(handle) => handle,
            Err(error) => return Problem::from(error).into_response(),
        };
        let op_id = handle.op_id();
        let mut response = match handle.settled() {
            Some(Settled::Completed(done)) => completed(&done.value),
            Some(Settled::Failed(failure)) => {
                Problem::failed(op_id, failure, (self.failed)(failure)).into_response()
            }
            Some(Settled::OtherResult { .. }) => {
                let detail =
                    "the operation is COMPLETED; its result is of another version of this service";
                Problem::gone(op_id, Status::Completed, "result_unreadable", detail).into_response()
            }
            Some(Settled::Pruned(state)) => {
                let detail = "the operation ended long ago; only its state is kept";
                Problem::gone(op_id, *state, "pruned", detail).into_response()
            }
            None => self.unsettled(op_id, handle.status()),
        };
        if handle.replayed() {
            let headers = response.headers_mut();
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

impl<O> Answer<O> {
    /// The answer to a request. `statuses` is the path of [`Statuses`](crate::Statuses), as callers
    /// see it.
    pub fn new(result: clinch::Result<Handle<O>>, statuses: &str) -> Self {
        Form::new(statuses).answer(result)
    }

    /// Sets the status of a COMPLETED operation, for example 201.
    #[must_use]
    pub fn completed_as(mut self, status: StatusCode) -> Self {
        self.form.completed = status;
        self
    }

    /// Chooses the status of a FAILED operation by its failure.
    #[must_use]
    pub fn failed_as(mut self, status: fn(&Failure) -> StatusCode) -> Self {
        self.form.failed = status;
        self
    }

    /// Sets the `Retry-After` of a 202.
    #[must_use]
    pub fn ask_again(mut self, after: Duration) -> Self {
        self.form.ask_again = after;
        self
    }
}

impl<O: Serialize> IntoResponse for Answer<O> {
    fn into_response(self) -> Response {
        let Self { result, form } = self;
        let completed = form.completed;
        form.shown(result, |value| (completed, Json(value)).into_response())
    }
}
