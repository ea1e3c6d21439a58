//! A request's path and query.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters that are escaped.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// The decoded path and query of a request.
pub(super) struct Target {
    pub(super) segments: Vec<String>,
    pub(super) query: Query,
}

impl Target {
    pub(super) fn parse(target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        Self {
            segments: segments.map(decode_path).collect(),
            query: Query::parse(query),
        }
    }
}

/// Parameters in the order in which they came.
#[derive(Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.map(|(k, v)| (decode(k), decode(v))).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut pairs = self.0.iter();
        let found = pairs.find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All parameters except `page` and `after`, followed by this one.
    pub(super) fn with(&self, name: &str, value: &str) -> String {
        let kept = self.0.iter();
        let kept = kept.filter(|(key, _)| key != "page" && key != "after");
        let mut text = String::from("?");
        for (key, value) in kept {
            text.push_str(&format!("{}={}&", encode(key), encode(value)));
        }
        text.push_str(&format!("{name}={}", encode(value)));
        text
    }
}

/// In a query, a plus is a space.
fn decode(text: &str) -> String {
    decode_path(&text.replace('+', " "))
}

fn decode_path(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}
