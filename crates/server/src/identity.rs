//! The identity of the server's store, in a header of every answer.

use axum::Router;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::map_response;
use axum::response::Response;
use clinch::backend::StoreIdentity;

const HEADER: HeaderName = HeaderName::from_static("clinch-store");

/// Every answer carries `Clinch-Store: ID; kind=KIND`.
pub(crate) fn with_header(router: Router, store: Option<&StoreIdentity>) -> Router {
    let text = store.map(|store| format!("{}; kind={}", store.id, store.kind));
    let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) else {
        return router;
    };
    router.layer(map_response(move |mut response: Response| {
        let value = value.clone();
        async move {
            response.headers_mut().insert(HEADER, value);
            response
        }
    }))
}
