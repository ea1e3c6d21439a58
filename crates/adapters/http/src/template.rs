//! Templates for URLs and headers: `{biz_key}`, `{op_id}`, `{outbound_key}` and `{payload.field}`;
//! in header values also `${env:NAME}` and `${file:PATH}`.
//!
//! A value that comes with an operation is data. In a URL it is percent-encoded, so that it can
//! neither end its path segment nor add a parameter. A value that servers might take for structure
//! after decoding (`..`) is refused, and the call is not made.

use std::sync::OnceLock;

use clinch_core::{Envelope, Invalid};
use hyper::header::HeaderValue;
use serde_json::Value;

use crate::nearest::nearest;
use crate::secrets::{Secrets, resolve};

/// Maximum length of a URL, in bytes: what servers commonly accept.
pub(crate) const URL_BYTES_MAX: usize = 8 * 1024;

const KNOWN: [&str; 4] = ["biz_key", "op_id", "outbound_key", "payload.field"];

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    BizKey,
    OpId,
    OutboundKey,
    Payload(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(Source),
}

/// The values for a template. The payload is parsed only if a template needs it.
pub(crate) struct Values<'e> {
    envelope: &'e Envelope,
    payload: OnceLock<Value>,
}

impl<'e> Values<'e> {
    pub(crate) fn new(envelope: &'e Envelope) -> Self {
        let payload = OnceLock::new();
        Self { envelope, payload }
    }

    pub(crate) fn payload(&self) -> &Value {
        let parse = || self.envelope.command.payload.value();
        self.payload.get_or_init(parse)
    }

    /// The error names the placeholder, not its value.
    fn get(&self, source: &Source) -> Result<String, String> {
        let path = match source {
            Source::BizKey => return Ok(self.envelope.command.keys.biz_key.as_str().to_owned()),
            Source::OpId => return Ok(self.envelope.op_id.to_string()),
            Source::OutboundKey => return Ok(self.envelope.outbound_key.as_str().to_owned()),
            Source::Payload(path) => path,
        };
        let found = path
            .iter()
            .try_fold(self.payload(), |value, name| match value {
                Value::Object(members) => members.get(name),
                Value::Array(items) => items.get(name.parse::<usize>().ok()?),
                _ => None,
            });
        found.and_then(scalar).ok_or_else(|| {
            let path = path.join(".");
            format!("the payload has no text, number or boolean at {path}, which the route needs")
        })
    }
}

/// A text, number or boolean as text.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Splits at placeholders. `secrets` is `None` where secrets are not allowed.
fn pieces(
    text: &str,
    field: &'static str,
    secrets: Option<&dyn Secrets>,
) -> Result<Vec<Piece>, Invalid> {
    let refuse = |problem: String| Invalid::new(field, problem);
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let is_secret = rest[..at].ends_with('$');
        let before = &rest[..at - usize::from(is_secret)];
        let inside = &rest[at + 1..];
        let Some(end) = inside.find('}') else {
            return Err(refuse("has a '{' without its '}'".to_owned()));
        };
        let name = &inside[..end];
        pieces.push(Piece::Text(before.to_owned()));
        pieces.push(match (is_secret, secrets) {
            (true, Some(secrets)) => Piece::Text(resolve(name, secrets).map_err(refuse)?),
            (true, None) => {
                let problem = "must not hold a secret: URLs get logged; put it in a header";
                return Err(refuse(problem.to_owned()));
            }
            (false, _) => Piece::Value(source(name).map_err(refuse)?),
        });
        rest = &inside[end + 1..];
    }
    pieces.push(Piece::Text(rest.to_owned()));
    pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
    Ok(pieces)
}

fn source(name: &str) -> Result<Source, String> {
    match name {
        "biz_key" => return Ok(Source::BizKey),
        "op_id" => return Ok(Source::OpId),
        "outbound_key" => return Ok(Source::OutboundKey),
        _ => {}
    }
    if let Some(path) = name.strip_prefix("payload.") {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        if path.iter().all(|step| !step.is_empty()) {
            return Ok(Source::Payload(path));
        }
    }
    let meant = match name.starts_with("payload") {
        true => "payload.field",
        false => nearest(name, &KNOWN).unwrap_or("biz_key"),
    };
    Err(format!(
        "has the unknown placeholder {{{name}}}; did you mean {{{meant}}}?"
    ))
}

/// Path and query of a URL.
#[derive(Debug, Clone)]
pub(crate) struct UrlTemplate {
    path: Vec<Piece>,
    query: Option<Vec<Piece>>,
    /// The decoded names of the query parameters that the URL spells out.
    parameters: Vec<String>,
}

impl UrlTemplate {
    /// `rest` is the part after the authority.
    pub(crate) fn new(rest: &str, field: &'static str) -> Result<Self, Invalid> {
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        let path = if path.is_empty() { "/" } else { path };
        let template = Self {
            path: pieces(path, field, None)?,
            query: query.map(|query| pieces(query, field, None)).transpose()?,
            parameters: query.map(parameter_names).unwrap_or_default(),
        };
        let texts = template.path.iter().chain(template.query.iter().flatten());
        for piece in texts {
            if let Piece::Text(text) = piece
                && let Some(bad) = text.chars().find(|c| "\"<>`{}|^".contains(*c))
            {
                return Err(Invalid::new(
                    field,
                    format!("contains {bad:?}; percent-encode it"),
                ));
            }
        }
        if has_dots(path) {
            return Err(Invalid::new(field, "must not have '.' or '..' in its path"));
        }
        Ok(template)
    }

    /// Path and query, with `more` parameters at the end.
    pub(crate) fn fill(
        &self,
        values: &Values<'_>,
        more: &[(String, String)],
    ) -> Result<String, String> {
        let mut url = String::new();
        for piece in &self.path {
            match piece {
                Piece::Text(text) => url.push_str(text),
                Piece::Value(source) => {
                    let value = values.get(source)?;
                    if value.is_empty() || has_dots(&value) {
                        return Err("a value in the URL's path is empty, '.' or '..'".into());
                    }
                    encode(&value, &mut url);
                }
            }
        }
        // A literal dot next to a value that is a dot.
        if has_dots(&url) {
            return Err("a value in the URL's path is empty, '.' or '..'".into());
        }
        let mut separator = '?';
        for piece in self.query.iter().flatten() {
            if separator == '?' {
                url.push('?');
                separator = '&';
            }
            match piece {
                Piece::Text(text) => url.push_str(text),
                Piece::Value(source) => encode(&values.get(source)?, &mut url),
            }
        }
        for (name, value) in more {
            url.push(separator);
            separator = '&';
            encode(name, &mut url);
            url.push('=');
            encode(value, &mut url);
        }
        if url.len() > URL_BYTES_MAX {
            return Err(format!(
                "the URL would be longer than {URL_BYTES_MAX} bytes"
            ));
        }
        Ok(url)
    }

    /// Whether the URL names this member of the payload, or has a query parameter of this name:
    /// then the member is not added to the query. Otherwise a caller could contradict a parameter
    /// that the route fixes.
    pub(crate) fn names_member(&self, name: &str) -> bool {
        let mut pieces = self.path.iter().chain(self.query.iter().flatten());
        let is_filled_in = pieces.any(|piece| {
            matches!(piece, Piece::Value(Source::Payload(path)) if path.first().is_some_and(|first| first == name))
        });
        is_filled_in || self.parameters.iter().any(|fixed| fixed == name)
    }
}

/// Whether a segment, split at any kind of slash, is `.` or `..`.
fn has_dots(path: &str) -> bool {
    let mut segments = path.split(['/', '\\']);
    segments.any(|segment| {
        let plain = segment.replace("%2e", ".").replace("%2E", ".");
        plain == "." || plain == ".."
    })
}

/// The decoded names of a query's parameters: servers decode `%66ixed` and `fixed` to one name.
fn parameter_names(query: &str) -> Vec<String> {
    let pairs = query.split('&');
    let names = pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    names.map(decode).collect()
}

/// Decodes percent escapes and `+`, as servers do with a query.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let escaped = hex.and_then(|two| u8::from_str_radix(two, 16).ok());
        rest = match (first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                after.get(2..).unwrap_or_default()
            }
            (b'+', _) => {
                bytes.push(b' ');
                after
            }
            _ => {
                bytes.push(*first);
                after
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Encodes everything except the unreserved characters of RFC 3986.
fn encode(value: &str, to: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            to.push(char::from(byte));
        } else {
            to.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// A header's value. Never shown, because any part may be a secret.
#[derive(Clone)]
pub(crate) struct HeaderTemplate(Vec<Piece>);

impl HeaderTemplate {
    pub(crate) fn new(text: &str, secrets: &dyn Secrets) -> Result<Self, Invalid> {
        let pieces = pieces(text, "headers", Some(secrets))?;
        let is_plain = |piece: &Piece| match piece {
            Piece::Text(text) => HeaderValue::from_str(text).is_ok() && text.is_ascii(),
            Piece::Value(_) => true,
        };
        if !pieces.iter().all(is_plain) {
            let problem = "have a value with characters that no header can carry";
            return Err(Invalid::new("headers", problem));
        }
        Ok(Self(pieces))
    }

    pub(crate) fn fill(&self, values: &Values<'_>) -> Result<HeaderValue, String> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Value(source) => text.push_str(&values.get(source)?),
            }
        }
        sensitive(&text).ok_or_else(|| {
            "a value for a header holds characters that no header can carry".to_owned()
        })
    }
}

/// A header value that `Debug` does not show and header compression does not index. `None` unless
/// it is printable ASCII.
pub(crate) fn sensitive(text: &str) -> Option<HeaderValue> {
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    let mut value = HeaderValue::from_str(text).ok().filter(|_| is_plain)?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
