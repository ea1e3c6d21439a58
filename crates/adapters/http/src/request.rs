//! Converts an operation into a request.

use clinch_core::Envelope;
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use serde_json::Value;

use crate::cause::Sent;
use crate::client::Outgoing;
use crate::plan::{ATTEMPT, OP_ID, Plan, ProbePlan, TRACEPARENT};
use crate::route::HttpMethod;
use crate::template::{Values, scalar, sensitive};
use crate::trace::Spans;

const AGENT: &str = concat!("clinch/", env!("CARGO_PKG_VERSION"));

impl Plan {
    /// The request of an attempt. The error says why the operation does not fit this route, without
    /// showing its content.
    pub(crate) fn request(
        &self,
        envelope: &Envelope,
        values: &Values<'_>,
        spans: &Spans,
    ) -> Result<Outgoing, String> {
        let payload = envelope.command.payload.as_bytes();
        let (query, body) = match self.method {
            HttpMethod::Get => (self.query(values.payload())?, Bytes::new()),
            // There is nothing to send.
            _ if payload == b"null" => (Vec::new(), Bytes::new()),
            _ => (Vec::new(), Bytes::copy_from_slice(payload)),
        };
        let mut headers = self.headers(envelope, values, spans)?;
        if body.is_empty() {
            headers.remove(CONTENT_TYPE);
        }
        let key = sensitive(envelope.outbound_key.as_str())
            .ok_or("the outbound key holds characters that no header can carry")?;
        headers.insert(self.idempotency_header.clone(), key);
        headers.insert(ATTEMPT, HeaderValue::from(envelope.attempt));
        Ok(Outgoing {
            method: self.method.into(),
            path: self.url.fill(values, &query)?,
            headers,
            body,
        })
    }

    /// The request of a probe.
    pub(crate) fn question(
        &self,
        probe: &ProbePlan,
        envelope: &Envelope,
        values: &Values<'_>,
        spans: &Spans,
    ) -> Result<Outgoing, String> {
        let mut headers = self.headers(envelope, values, spans)?;
        headers.remove(CONTENT_TYPE);
        Ok(Outgoing {
            method: Method::GET,
            path: probe.url.fill(values, &[])?,
            headers,
            body: Bytes::new(),
        })
    }

    /// The payload's members as query parameters, except those that the URL names itself.
    fn query(&self, payload: &Value) -> Result<Vec<(String, String)>, String> {
        let members = match payload {
            Value::Object(members) => members,
            Value::Null => return Ok(Vec::new()),
            _ => return Err("a GET needs an object as its payload, to send as a query".into()),
        };
        let mut query = Vec::with_capacity(members.len());
        for (name, value) in members {
            if value.is_null() || self.url.names_member(name) {
                continue;
            }
            let value = scalar(value).ok_or(
                "a GET sends its payload as a query, which holds no objects and no arrays",
            )?;
            query.push((name.clone(), value));
        }
        Ok(query)
    }

    fn headers(
        &self,
        envelope: &Envelope,
        values: &Values<'_>,
        spans: &Spans,
    ) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        let mut set = |name: HeaderName, value| headers.insert(name, value);
        set(USER_AGENT, HeaderValue::from_static(AGENT));
        set(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let any = "application/json, */*;q=0.1";
        set(ACCEPT, HeaderValue::from_static(any));
        set(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, template) in &self.headers {
            set(name.clone(), template.fill(values)?);
        }
        if let Ok(op_id) = HeaderValue::from_str(&envelope.op_id.to_string()) {
            set(OP_ID, op_id);
        }
        let trace = envelope.trace.as_deref();
        let child = trace.and_then(|parent| spans.child(parent));
        if let Some(Ok(child)) = child.map(|child| HeaderValue::from_str(&child)) {
            set(TRACEPARENT, child);
        }
        Ok(headers)
    }
}

impl From<HttpMethod> for Method {
    fn from(method: HttpMethod) -> Self {
        match method {
            HttpMethod::Get => Self::GET,
            HttpMethod::Post => Self::POST,
            HttpMethod::Put => Self::PUT,
            HttpMethod::Patch => Self::PATCH,
            HttpMethod::Delete => Self::DELETE,
        }
    }
}

/// Everything that a request carries. None of it may appear in a failure.
pub(crate) fn sent(outgoing: &Outgoing, envelope: &Envelope, values: &Values<'_>) -> Sent {
    let mut sent = Sent::default();
    let keys = &envelope.command.keys;
    sent.values.push(outgoing.path.clone());
    sent.values.push(keys.biz_key.as_str().to_owned());
    sent.values.push(keys.idem_key.as_str().to_owned());
    let headers = outgoing.headers.values();
    // A header value is often a scheme and a secret.
    let words = headers.filter_map(|value| value.to_str().ok());
    let words = words.flat_map(|text| text.split(' ')).map(str::to_owned);
    sent.values.extend(words);
    sent.add(values.payload());
    sent
}
