//! A checked route. Later errors can only come from an operation or a provider.

use clinch_core::Invalid;
use hyper::header::{self, HeaderName};

use crate::client::Endpoint;
use crate::egress::Egress;
use crate::route::{HttpMethod, HttpRoute, ProbeRoute};
use crate::secrets::Secrets;
use crate::selector::Selector;
use crate::target::Target;
use crate::template::{HeaderTemplate, UrlTemplate};

/// Maximum size of an answer that a route may store: it must still fit one record of the spill
/// file, where bytes are written as hex.
const RESPONSE_BYTES_LIMIT: usize = 2 * 1024 * 1024;

/// Headers that the connection or the executor sets.
const OURS: [HeaderName; 10] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::ACCEPT_ENCODING,
    TRACEPARENT,
];
pub(crate) const OP_ID: HeaderName = HeaderName::from_static("x-clinch-op-id");
pub(crate) const ATTEMPT: HeaderName = HeaderName::from_static("x-clinch-attempt");
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Statuses that say nothing about a call: not authorized, too slow, too many requests.
const SAY_NOTHING: [u16; 6] = [401, 403, 407, 408, 425, 429];

/// Everything that a call needs besides the operation.
pub(crate) struct Plan {
    pub endpoint: Endpoint,
    pub url: UrlTemplate,
    pub method: HttpMethod,
    pub headers: Vec<(HeaderName, HeaderTemplate)>,
    pub idempotency_header: HeaderName,
    pub txn_id: Option<Selector>,
    pub response_max: usize,
    pub probe: Option<ProbePlan>,
}

/// Everything that a probe needs besides the operation and the route.
pub(crate) struct ProbePlan {
    pub endpoint: Endpoint,
    pub url: UrlTemplate,
    pub matches: Selector,
    pub succeeded: Vec<u16>,
    pub failed: Vec<u16>,
    pub not_found: Vec<u16>,
    pub state: Option<Selector>,
    pub succeeded_states: Vec<String>,
    pub failed_states: Vec<String>,
}

impl Plan {
    pub(crate) fn new(
        route: &HttpRoute,
        egress: Egress,
        secrets: &dyn Secrets,
    ) -> Result<Self, Invalid> {
        let (endpoint, url) = endpoint(&route.url, egress, route.allow_private, "url")?;
        let idempotency_header = header_name(&route.idempotency_header, "idempotency_header")?;
        let mut headers = Vec::with_capacity(route.headers.len());
        for (name, value) in &route.headers {
            let name = header_name(name, "headers")?;
            if name == idempotency_header {
                let problem = format!("set {name}, which carries the outbound key");
                return Err(Invalid::new("headers", problem));
            }
            if headers.iter().any(|(known, _)| *known == name) {
                return Err(Invalid::new("headers", format!("set {name} twice")));
            }
            headers.push((name, HeaderTemplate::new(value, secrets)?));
        }
        let mapped = |code: &u16| (300..=499).contains(code) && !SAY_NOTHING.contains(code);
        if !route.duplicate_status.iter().all(mapped) {
            let problem = "may hold statuses from 300 to 499, except 401, 403, 407, 408, 425 and 429, which say nothing about the call";
            return Err(Invalid::new("duplicate_status", problem));
        }
        if !(1..=RESPONSE_BYTES_LIMIT).contains(&route.response_max) {
            let problem = format!("must be between 1 and {RESPONSE_BYTES_LIMIT} bytes");
            return Err(Invalid::new("response_max", problem));
        }
        let probe = route.probe.as_ref();
        let probe = probe.map(|probe| ProbePlan::new(probe, egress, route.allow_private));
        let txn_id = route.txn_id.as_deref();
        let txn_id = txn_id.map(|text| Selector::new(text, "txn_id"));
        Ok(Self {
            endpoint,
            url,
            method: route.method,
            headers,
            idempotency_header,
            txn_id: txn_id.transpose()?,
            response_max: route.response_max,
            probe: probe.transpose()?,
        })
    }
}

impl ProbePlan {
    fn new(route: &ProbeRoute, egress: Egress, allow_private: bool) -> Result<Self, Invalid> {
        let (endpoint, url) = endpoint(&route.url, egress, allow_private, "probe.url")?;
        if route.matches.is_empty() {
            let problem =
                "is missing: without it an answer about another call would settle this one";
            return Err(Invalid::new("probe.match", problem));
        }
        check_verdicts(route)?;
        let has_states = !(route.succeeded_states.is_empty() && route.failed_states.is_empty());
        let state = route.state.as_deref();
        let state = state.map(|text| Selector::new(text, "probe.state"));
        let state = state.transpose()?;
        if state.is_some() && route.succeeded_states.is_empty() || state.is_none() && has_states {
            let problem = "must be set together with probe.succeeded_states";
            return Err(Invalid::new("probe.state", problem));
        }
        let both = |state| route.failed_states.contains(state);
        if route.succeeded_states.iter().any(both) {
            let problem = "must not also be among probe.failed_states";
            return Err(Invalid::new("probe.succeeded_states", problem));
        }
        Ok(Self {
            endpoint,
            url,
            matches: Selector::new(&route.matches, "probe.match")?,
            succeeded: route.succeeded.clone(),
            failed: route.failed.clone(),
            not_found: route.not_found.clone(),
            state,
            succeeded_states: route.succeeded_states.clone(),
            failed_states: route.failed_states.clone(),
        })
    }
}

/// Each status has one meaning, and only statuses that a provider gives deliberately are allowed.
fn check_verdicts(route: &ProbeRoute) -> Result<(), Invalid> {
    let lists = [
        ("probe.succeeded", &route.succeeded),
        ("probe.failed", &route.failed),
        ("probe.not_found", &route.not_found),
    ];
    let mut seen: Vec<u16> = Vec::new();
    for (field, list) in lists {
        for code in list {
            let speaks = matches!(code, 200..=299 | 400..=499) && !SAY_NOTHING.contains(code);
            if !speaks {
                let problem = format!("holds {code}, which says nothing about a call");
                return Err(Invalid::new(field, problem));
            }
            if seen.contains(code) {
                let problem = format!("holds {code}, which has a meaning already");
                return Err(Invalid::new(field, problem));
            }
            seen.push(*code);
        }
    }
    if seen.is_empty() {
        let problem = "is empty, and so are the others: no answer could be a verdict";
        return Err(Invalid::new("probe.succeeded", problem));
    }
    Ok(())
}

fn endpoint(
    url: &str,
    egress: Egress,
    allow_private: bool,
    field: &'static str,
) -> Result<(Endpoint, UrlTemplate), Invalid> {
    if url.is_empty() {
        return Err(Invalid::new(field, "is missing"));
    }
    let (target, rest) = Target::split(url, field)?;
    let reach = egress.reach(&target, allow_private, field)?;
    Ok((Endpoint { target, reach }, UrlTemplate::new(rest, field)?))
}

fn header_name(text: &str, field: &'static str) -> Result<HeaderName, Invalid> {
    let name: HeaderName = text.parse().map_err(|_| {
        let shown: String = text.chars().take(64).collect();
        Invalid::new(field, format!("must hold names of headers, not {shown:?}"))
    })?;
    if OURS.contains(&name) || name == OP_ID || name == ATTEMPT {
        let problem = format!("must not set {name}, which the executor sets itself");
        return Err(Invalid::new(field, problem));
    }
    Ok(name)
}
