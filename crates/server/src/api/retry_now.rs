//! Ending the delay before an operation's next attempt.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use clinch_core::protocol::Why;

use super::app::{Answer, Shared, json};
use super::body::{self, INVALID_REQUEST};
use super::caller::Caller;
use super::document::OperationDocument;
use super::operations::{ReasonDocument, illegal, not_about_the_state};
use super::problem::{Problem, ProblemDocument};

/// End the wait of an operation.
///
/// Ends a backoff, a provider's Retry-After, or a `run_at` in the future. An operation that is
/// running, held or ended is refused with 409 `not_waiting`.
#[utoipa::path(post, path = "/v1/operations/{op_id}/retry-now", tag = "operations", operation_id = "retry_operation_now",
    params(("op_id" = String, Path)),
    request_body = Option<ReasonDocument>,
    responses(
        (status = 200, body = OperationDocument, description = "The operation is due. Pauses, breakers, the order of keys and the limit of attempts still decide when it is called"),
        (status = "4XX", body = ProblemDocument, description = "not_found, ambiguous_id, not_waiting"),
    ))]
pub(crate) async fn retry_now(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let id = app.op_id(&caller, &id).await?;
    let (parts, body) = request.into_parts();
    let text = app.optional_body(&parts.headers, body).await?;
    let ReasonDocument { reason } = body::read(&text, INVALID_REQUEST)?;
    app.visible(&caller, id).await?;
    let (by, reason) = (caller.actor(), reason.unwrap_or_default());
    let refused = match app.orchestrator().retry_now(id, &by, &reason).await? {
        Ok(_) => return json(StatusCode::OK, &app.show(id).await?),
        Err(refused) => refused,
    };
    let detail = match illegal(&refused) {
        // What was wanted holds already.
        Some(Why::AlreadyDue) => return json(StatusCode::OK, &app.show(id).await?),
        Some(Why::Live) => "an attempt is running",
        Some(Why::Held) => {
            "the operation is held, because a call may have been applied: resolve it"
        }
        Some(Why::Terminal) => "the operation has ended; a failed one can be redriven",
        Some(Why::DeadlinePassed) => "the deadline of the operation has passed",
        _ => return Err(not_about_the_state(id, &refused)),
    };
    Err(Problem::conflict("not_waiting", detail).op_id(id))
}
