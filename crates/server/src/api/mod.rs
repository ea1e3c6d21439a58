//! The HTTP API, version 1. Each module is a group of routes; every answer is JSON, and every error
//! is an RFC 9457 problem document.

mod access;
mod app;
mod batches;
mod body;
mod caller;
mod changes;
mod commands;
mod dead_letters;
mod describe;
mod destinations;
mod document;
mod domains;
mod events;
mod guard;
mod hold;
mod in_flight;
mod leases;
mod ledger;
mod operations;
mod outcomes;
mod overview;
mod problem;
mod query;
mod retention;
mod retry_now;
mod submit;
mod system;
pub(crate) mod time;
mod values;
mod wait;
mod watch;

use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::FutureExt;
use serde_json::Value;
use utoipa::openapi::{InfoBuilder, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use app::{Answer, App, Shared, secs};
pub(crate) use caller::Caller;
pub(crate) use destinations::DestinationDocument;
pub(crate) use document::HoldDocument;
pub(crate) use domains::DomainDocument;
pub(crate) use events::Hub;
pub(crate) use guard::{Authenticator, check_host, drop_refused};
pub(crate) use hold::hold_of;
pub(crate) use in_flight::InFlight;
pub(crate) use operations::find as find_operations;
pub(crate) use overview::{NodeDocument, OverviewDocument, Severity, Warning};
pub(crate) use problem::Problem;
pub(crate) use system::Readiness;
pub(crate) use time::{read as read_time, write as write_time};

use crate::application::Application;
use crate::console;

/// Handlers that the console calls with the forms of its pages.
pub(crate) mod actions {
    pub(crate) use super::dead_letters::{dismiss, list as dead_letters, redrive, reopen};
    pub(crate) use super::destinations::{open, reset};
    pub(crate) use super::domains::{pause, resume};
    pub(crate) use super::events::pings;
    pub(crate) use super::operations::{cancel, resolve};
    pub(crate) use super::retry_now::retry_now;
}

fn described() -> OpenApiRouter<Shared> {
    let info = InfoBuilder::new()
        .title("Clinch")
        .version("1")
        .description(Some(
            "Makes every call to a system you do not control end exactly one way.",
        ))
        .build();
    OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info).build())
        .routes(routes!(submit::submit, operations::list))
        .routes(routes!(submit::bulk))
        .routes(routes!(operations::get))
        .routes(routes!(ledger::attempts))
        .routes(routes!(operations::cancel))
        .routes(routes!(operations::resolve))
        .routes(routes!(retry_now::retry_now))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::redrive))
        .routes(routes!(dead_letters::dismiss))
        .routes(routes!(dead_letters::reopen))
        .routes(routes!(dead_letters::get))
        .routes(routes!(domains::list))
        .routes(routes!(domains::pause))
        .routes(routes!(domains::resume))
        .routes(routes!(destinations::list))
        .routes(routes!(destinations::reset))
        .routes(routes!(destinations::open))
        .routes(routes!(overview::overview))
        .routes(routes!(events::events))
        .routes(routes!(leases::lease))
        .routes(routes!(leases::heartbeat))
        .routes(routes!(leases::release))
        .routes(routes!(leases::checkpoint))
        .routes(routes!(leases::outcome))
        .routes(routes!(batches::open, batches::list))
        .routes(routes!(batches::get))
        .routes(routes!(batches::add))
        .routes(routes!(batches::seal))
        .routes(routes!(retention::get))
        .routes(routes!(retention::confirm))
        .routes(routes!(system::healthz))
        .routes(routes!(system::readyz))
        .routes(routes!(system::metrics))
}

/// The description of the API, OpenAPI 3.1.
pub fn openapi() -> Value {
    describe::document(described().into_openapi(), &[])
}

/// Every route, those of the applications included, behind the guard.
pub(crate) fn router(app: Shared, applications: Vec<Application>) -> Router {
    let (router, mut openapi) = described().split_for_parts();
    let mut router = router.with_state(app.clone());
    let mut examples = Vec::new();
    for application in applications {
        router = router.merge(application.router);
        openapi.merge(application.described);
        examples.push(application.examples);
    }
    let openapi = describe::document(openapi, &examples);
    // Serialized once.
    let openapi = Bytes::from(serde_json::to_vec(&openapi).unwrap_or_default());
    let described = move || {
        let openapi = openapi.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], openapi) }
    };
    router
        .layer(from_fn_with_state(app.clone(), in_flight::bound))
        .route("/openapi.json", get(described))
        .fallback(async || Problem::not_found("there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            Problem::new(
                status,
                "method_not_allowed",
                "this path does not support this method; see the Allow header",
            )
        })
        .layer(from_fn_with_state(app.clone(), guard::check))
        .layer(from_fn(complete_answers))
        .merge(console::router(app))
}

/// A caller gets a complete answer even if the handler panics. The panic message is not logged: it
/// may quote a payload.
async fn complete_answers(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let Ok(response) = answered else {
        tracing::error!(target: "clinch", %method, "a handler panicked");
        return Problem::internal().into_response();
    };
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let is_problem = content_type.is_some_and(|value| value == "application/problem+json");
    if response.status().is_client_error() && !is_problem {
        // Axum refused the request before a handler ran.
        return Problem::request("the request cannot be read").into_response();
    }
    response
}
