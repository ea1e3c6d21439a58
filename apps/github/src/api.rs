//! The collector's HTTP API: `/v1/github/…`.
//!
//! The server that mounts it authenticates the requests. Every answer is JSON, and every error an
//! RFC 9457 problem document.

mod comparison;
mod cost;
mod data;
mod documents;
mod overview;
mod problem;
mod read;
mod runs;
mod statistics;
mod switch;
mod tokens;

use std::time::Duration;

use axum::Router;
use axum::routing::any;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Collector;

/// Examples for the description of the routes: documents, parameters and problems.
pub const EXAMPLES: &str = include_str!("api/examples.json");

/// The routes of a server without a collector, which are not described: every request gets an
/// explanation.
pub fn absent() -> (Router, OpenApi) {
    let nothing = || async {
        let detail = "this server has no collector: its configuration has no [github] section";
        problem::Problem::not_found(detail)
    };
    let router = Router::new()
        .route("/v1/github", any(nothing))
        .route("/v1/github/{*rest}", any(nothing));
    (router, OpenApi::default())
}

/// Every route, and its description. A body that takes longer than `body_timeout` is refused.
pub fn api(collector: Collector, body_timeout: Duration) -> (Router, OpenApi) {
    let (router, openapi) = OpenApiRouter::new()
        .routes(routes!(runs::start, runs::list))
        .routes(routes!(runs::get))
        .routes(routes!(runs::jobs))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::retry))
        .routes(routes!(data::cursors))
        .routes(routes!(data::tokens))
        .routes(routes!(overview::overview))
        .routes(routes!(switch::get, switch::post))
        .routes(routes!(statistics::statistics))
        .routes(routes!(comparison::comparison))
        .routes(routes!(data::documents))
        .routes(routes!(data::forget))
        .routes(routes!(tokens::list, tokens::add))
        .routes(routes!(tokens::remove))
        .split_for_parts();
    let api = read::Api {
        collector,
        body_timeout,
    };
    (router.with_state(api), openapi)
}
