//! Tells a page that something changed; the page then reads itself again.

use axum::extract::State;
use axum::response::Response;

use super::gate::Visitor;
use crate::api::{Problem, Shared, actions};

/// The event stream of the API, for a visitor's session.
pub(super) async fn events(
    State(app): State<Shared>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    actions::pings(State(app), visitor.caller).await
}
