//! Applications in the server's process.

use std::sync::Arc;

use axum::Router;
use utoipa::openapi::OpenApi;

use crate::panel::Panel;

/// An application's part of the HTTP API, behind the server's guard.
///
/// - The routes under `/v1/{domain}` belong to the domain: the caller's key must cover all of it. Any
///   other route needs a key without a restriction.
/// - `GET` needs the scope `read`, every other method `operate`.
/// - The answer to a `GET` under `/v1/{domain}` may be as long as a page, and counts as one in
///   `server.in_flight_max` until its length is known.
pub struct Application {
    /// The domain of its operations.
    pub domain: &'static str,
    /// Its routes.
    pub router: Router,
    /// The OpenAPI description of its routes. The server writes out the error codes that a route
    /// names under `4XX`, if it has them too; the application describes its own codes by status.
    pub described: OpenApi,
    /// Examples for the description, as JSON: `schemas` has whole documents by schema and name, from
    /// which the examples of fields, bodies and answers are taken; `parameters` has a description
    /// and an example by name, `problems` the detail of a problem by code, `answers` which documents
    /// an answer shows. Empty: none.
    pub examples: &'static str,
    /// Its pages in the console, if it has any.
    pub panel: Option<Arc<dyn Panel>>,
}

/// The application that a path belongs to: one of these domains.
pub(crate) fn domain_of(path: &str, domains: &[&'static str]) -> Option<&'static str> {
    let rest = path.strip_prefix("/v1/")?;
    let first = rest.split('/').next()?;
    domains.iter().copied().find(|domain| *domain == first)
}
