//! Where a value is in an answer: `json:/id` (RFC 6901) or `header:X-Txn-Id`.

use clinch_core::Invalid;
use hyper::HeaderMap;
use hyper::header::HeaderName;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    Json(String),
    Header(HeaderName),
}

impl Selector {
    pub(crate) fn new(text: &str, field: &'static str) -> Result<Self, Invalid> {
        let found = match text.split_once(':') {
            Some(("json", path)) if path.starts_with('/') => Some(Self::Json(path.to_owned())),
            Some(("header", name)) => name.parse().ok().map(Self::Header),
            _ => None,
        };
        let problem = "must be json:/path or header:Name";
        found.ok_or_else(|| Invalid::new(field, problem))
    }

    /// The text or whole number at this place.
    pub(crate) fn pick(&self, headers: &HeaderMap, body: Option<&Value>) -> Option<String> {
        match self {
            Self::Header(name) => Some(headers.get(name)?.to_str().ok()?.to_owned()),
            Self::Json(path) => match body?.pointer(path)? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) if !number.is_f64() => Some(number.to_string()),
                _ => None,
            },
        }
        .filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_picked_from_body_and_header() {
        let mut headers = HeaderMap::new();
        headers.insert("x-txn-id", "tx_9".parse().expect("a value"));
        let body = json!({"id": 18_446_744_073_709_551_615_u64, "data": [{"a/b": "x"}], "f": 1.5, "e": ""});
        let pick = |text| {
            let selector = Selector::new(text, "txn_id").expect(text);
            selector.pick(&headers, Some(&body))
        };
        assert_eq!(pick("json:/id").as_deref(), Some("18446744073709551615"));
        assert_eq!(pick("json:/data/0/a~1b").as_deref(), Some("x"));
        assert_eq!(pick("header:X-Txn-Id").as_deref(), Some("tx_9"));
        for nothing in [
            "json:/f",
            "json:/e",
            "json:/none",
            "json:/data",
            "header:x-none",
        ] {
            assert_eq!(pick(nothing), None, "{nothing}");
        }
        for wrong in ["", "id", "json:id", "header:a b", "xml:/id"] {
            assert!(Selector::new(wrong, "txn_id").is_err(), "{wrong}");
        }
    }
}
