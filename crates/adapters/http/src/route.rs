//! The HTTP part of a `[[route]]` of the configuration.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// Default maximum size of an answer that is stored whole, in bytes.
pub const RESPONSE_BYTES_MAX: usize = 256 * 1024;

/// What to call, and how to interpret its answers. Checked when an executor is built from it.
///
/// The keys of `[[route]]` that belong to the engine or to the guards (`safety`, `retry`,
/// `timeout`, `breaker` and others) are not here: the code that reads the configuration handles
/// them.
///
/// `Debug` shows the names of headers but not their values, and no query.
///
/// ```
/// use clinch_http::{HttpMethod, HttpRoute};
///
/// let route = HttpRoute {
///     url: "https://psp.example/v1/charges".to_owned(),
///     txn_id: Some("json:/id".to_owned()),
///     ..HttpRoute::default()
/// };
/// assert_eq!(route.method, HttpMethod::Post);
/// assert_eq!(route.idempotency_header, "Idempotency-Key");
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HttpRoute {
    /// Where to send it. Path and query may hold `{biz_key}`, `{op_id}`, `{outbound_key}` and
    /// `{payload.field}`; the values are percent-encoded.
    pub url: String,
    /// How to send it.
    pub method: HttpMethod,
    /// Headers to add. Values may hold the placeholders of the URL, and secrets:
    /// `${env:NAME}`, `${file:PATH}`.
    pub headers: BTreeMap<String, String>,
    /// The header that carries the stable outbound key.
    pub idempotency_header: String,
    /// Statuses that mean "already done": they count as Ok.
    pub duplicate_status: Vec<u16>,
    /// The provider answers 503 only if it did not apply the call.
    pub unavailable_is_clean: bool,
    /// How to ask the provider what became of a call.
    pub probe: Option<ProbeRoute>,
    /// Where the provider's own transaction id is in an answer: `json:/id` or `header:X-Txn-Id`.
    pub txn_id: Option<String>,
    /// Allows calls to private and loopback addresses.
    pub allow_private: bool,
    /// Maximum size of an answer that is stored whole, in bytes.
    pub response_max: usize,
}

impl Default for HttpRoute {
    fn default() -> Self {
        Self {
            url: String::new(),
            method: HttpMethod::Post,
            headers: BTreeMap::new(),
            idempotency_header: "Idempotency-Key".to_owned(),
            duplicate_status: Vec::new(),
            unavailable_is_clean: false,
            probe: None,
            txn_id: None,
            allow_private: false,
            response_max: RESPONSE_BYTES_MAX,
        }
    }
}

impl fmt::Debug for HttpRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.keys().collect();
        f.debug_struct("HttpRoute")
            .field("url", &without_query(&self.url))
            .field("method", &self.method)
            .field("headers", &names)
            .field("idempotency_header", &self.idempotency_header)
            .field("duplicate_status", &self.duplicate_status)
            .field("unavailable_is_clean", &self.unavailable_is_clean)
            .field("probe", &self.probe)
            .field("txn_id", &self.txn_id)
            .field("allow_private", &self.allow_private)
            .field("response_max", &self.response_max)
            .finish()
    }
}

/// A method that a route may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// The payload's top-level members become the query.
    Get,
    /// The payload is the body.
    #[default]
    Post,
    /// The payload is the body.
    Put,
    /// The payload is the body.
    Patch,
    /// The payload is the body.
    Delete,
}

/// How to ask the provider what became of a call: a GET without a body, with the route's headers
/// but without the idempotency key.
///
/// `not_found_final_after` and `inconclusive_max` of the configuration belong to the engine.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ProbeRoute {
    /// The URL to ask, with the placeholders of a route's URL.
    pub url: String,
    /// Where the answer names the call: `json:/key` or `header:Name`. The value must be the
    /// outbound key or the op_id, or there is no verdict.
    #[serde(rename = "match")]
    pub matches: String,
    /// Statuses that mean "it was applied".
    pub succeeded: Vec<u16>,
    /// Statuses that mean "it was refused".
    pub failed: Vec<u16>,
    /// Statuses that mean "there is no such call".
    pub not_found: Vec<u16>,
    /// Where the answer tells the state of the call, for example `json:/status`. For providers that
    /// answer with the same status for a refused or pending call as for an applied one. Read only
    /// if the status is one of `succeeded`.
    pub state: Option<String>,
    /// The values that mean "it was applied". Values in neither this list nor `failed_states` give
    /// no verdict.
    pub succeeded_states: Vec<String>,
    /// The values that mean "it was refused".
    pub failed_states: Vec<String>,
}

impl fmt::Debug for ProbeRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbeRoute")
            .field("url", &without_query(&self.url))
            .field("match", &self.matches)
            .field("succeeded", &self.succeeded)
            .field("failed", &self.failed)
            .field("not_found", &self.not_found)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Hides the query, which may carry a key, and any user name.
fn without_query(url: &str) -> &str {
    match url.split_once('?') {
        _ if url.contains('@') => "(not shown)",
        Some((before, _)) => before,
        None => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_16_debug_shows_no_value_that_may_be_secret() {
        let probe = ProbeRoute {
            url: "https://psp.example/find?token=canary".to_owned(),
            ..ProbeRoute::default()
        };
        let mut route = HttpRoute {
            url: "https://psp.example/v1?token=canary".to_owned(),
            headers: [("authorization".to_owned(), "Bearer canary".to_owned())].into(),
            probe: Some(probe),
            ..HttpRoute::default()
        };
        let shown = format!("{route:?} {route:#?}");
        assert!(shown.contains("https://psp.example/v1") && shown.contains("authorization"));
        assert!(!shown.contains("canary"), "{shown}");
        route.url = "https://canary@psp.example/".to_owned();
        assert!(!format!("{route:?}").contains("canary"));
    }

    #[test]
    fn the_names_are_those_of_the_configuration() {
        let text = r#"{"name": "charge", "url": "https://psp.example/v1/charges", "method": "PUT",
            "headers": {"authorization": "Bearer ${env:PSP_KEY}"}, "duplicate_status": [409],
            "unavailable_is_clean": true, "txn_id": "json:/id", "allow_private": true,
            "probe": {"url": "https://psp.example/v1/charges?key={outbound_key}", "match": "json:/key",
                "succeeded": [200], "failed": [], "not_found": [404], "inconclusive_max": 10}}"#;
        let route: HttpRoute = serde_json::from_str(text).expect("as documented");
        assert_eq!(route.method, HttpMethod::Put);
        assert_eq!(route.duplicate_status, [409]);
        assert_eq!(route.probe.expect("a probe").matches, "json:/key");
        assert!(serde_json::from_str::<HttpRoute>(r#"{"method":"post"}"#).is_err());
    }
}
