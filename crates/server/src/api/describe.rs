//! Adds to the OpenAPI document every error of every route, and [examples].
//!
//! A route names the codes of its own errors under `4XX`. Here each code gets its status, and the
//! errors of authentication and of reading a body are added to the routes that can answer them. The
//! document then lists every error that a caller can meet, except a bug of the server.

mod examples;

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

use examples::Examples;

/// Every error code of the server and its status.
const CODES: [(&str, u16); 18] = [
    ("invalid_command", 400),
    ("invalid_request", 400),
    ("unknown_route", 400),
    ("unauthenticated", 401),
    ("forbidden", 403),
    ("not_found", 404),
    ("request_timeout", 408),
    ("terminal", 409),
    ("ambiguous_id", 409),
    ("not_held", 409),
    ("not_waiting", 409),
    ("stale_fence", 409),
    ("payload_too_large", 413),
    ("unsupported_media_type", 415),
    ("idempotency_mismatch", 422),
    ("shed", 429),
    ("internal", 500),
    ("unavailable", 503),
];

/// The status under which a route names its own codes.
const OWN: &str = "4XX";

/// The examples of the server's own routes.
const EXAMPLES: &str = include_str!("examples.json");

/// The whole document: with the errors of every route, and with examples, those of the
/// applications included.
pub(super) fn document(openapi: OpenApi, applications: &[&str]) -> Value {
    let mut document = serde_json::to_value(spelled_out(openapi)).unwrap_or_default();
    let mut examples = Examples::read(EXAMPLES);
    for application in applications.iter().filter(|text| !text.is_empty()) {
        examples.extend(Examples::read(application));
    }
    examples.put_into(&mut document);
    document
}

/// Writes out the errors of every route.
fn spelled_out(mut openapi: OpenApi) -> OpenApi {
    for (path, item) in &mut openapi.paths.paths {
        let methods = [
            &mut item.get,
            &mut item.post,
            &mut item.put,
            &mut item.delete,
        ];
        for operation in methods.into_iter().flatten() {
            spell_out(path, operation);
        }
    }
    openapi
}

fn spell_out(path: &str, operation: &mut Operation) {
    let mut codes = own(operation);
    codes.push("forbidden".to_owned());
    if path.starts_with("/v1/") {
        codes.push("unavailable".to_owned());
    }
    if path.starts_with("/v1/") || path == "/metrics" {
        codes.push("unauthenticated".to_owned());
    }
    if path.contains('{') {
        codes.push("invalid_request".to_owned());
    }
    if operation.request_body.is_some() {
        let refused = ["invalid_request", "request_timeout", "payload_too_large"];
        codes.extend(refused.map(str::to_owned));
        codes.push("unsupported_media_type".to_owned());
    }
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for (code, status) in CODES {
        if codes.iter().any(|known| known == code) {
            by_status.entry(status).or_default().push(code);
        }
    }
    let responses = &mut operation.responses.responses;
    for (status, codes) in by_status {
        responses.insert(status.to_string(), problem(&codes.join(", ")).into());
    }
}

/// The codes that the route names, taken from its description.
fn own(operation: &mut Operation) -> Vec<String> {
    let named = operation.responses.responses.remove(OWN);
    let Some(RefOr::T(response)) = named else {
        return Vec::new();
    };
    let codes = response.description.split(", ");
    codes.map(str::to_owned).collect()
}

fn problem(codes: &str) -> Response {
    let schema = Ref::from_schema_name("ProblemDocument");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description(codes)
        .content("application/problem+json", content)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_a_route_names_is_known() {
        let (_, openapi) = super::super::described().split_for_parts();
        for (path, mut item) in openapi.paths.paths {
            for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
                for code in own(operation) {
                    let is_known = CODES.iter().any(|(known, _)| *known == code);
                    assert!(is_known, "{path}: {code}");
                }
            }
        }
    }
}
