//! Bodies as BSON and back. What BSON does not hold to the value stays text.

use mongodb::bson::{Bson, Document, doc};
use serde_json::{Number, Value};

/// Below the hundred levels that a server takes, with room for ours.
const DEPTH_MAX: usize = 90;

/// Bytes of a body as BSON: below the 16 MiB that a server takes. Short numbers in a list take
/// several times as much as their text.
const BSON_BYTES_MAX: usize = 12 * 1024 * 1024;

/// A body as it is stored: BSON, or else text.
#[derive(Debug, PartialEq)]
pub(crate) enum Body {
    Value(Bson),
    Text(String),
}

impl Body {
    pub(crate) fn new(text: &str) -> Self {
        let value = serde_json::from_str(text).ok();
        match value.as_ref().and_then(exact) {
            Some(bson) => Self::Value(bson),
            None => Self::Text(text.to_owned()),
        }
    }

    /// JSON text of the same value; `None`: something else wrote it.
    pub(crate) fn into_text(self) -> Option<String> {
        match self {
            Self::Value(bson) => Some(to_json(bson)?.to_string()),
            Self::Text(text) => Some(text),
        }
    }
}

/// BSON from which the same value comes back.
fn exact(value: &Value) -> Option<Bson> {
    let bson = to_bson(value, DEPTH_MAX)?;
    let whole = doc! { "body": bson };
    if whole.to_vec().ok()?.len() > BSON_BYTES_MAX {
        return None;
    }
    let bson = whole.into_iter().next()?.1;
    (to_json(bson.clone())? == *value).then_some(bson)
}

fn to_bson(value: &Value, depth: usize) -> Option<Bson> {
    let depth = depth.checked_sub(1)?;
    Some(match value {
        Value::Null => Bson::Null,
        Value::Bool(is) => Bson::Boolean(*is),
        Value::String(text) => Bson::String(text.clone()),
        Value::Number(number) => to_number(number)?,
        Value::Array(items) => {
            let items = items.iter().map(|item| to_bson(item, depth));
            Bson::Array(items.collect::<Option<_>>()?)
        }
        Value::Object(fields) => {
            let mut document = Document::new();
            for (name, value) in fields {
                // The server has a meaning of its own for these, or no place.
                if name.starts_with('$') || name.contains('\0') {
                    return None;
                }
                document.insert(name.clone(), to_bson(value, depth)?);
            }
            Bson::Document(document)
        }
    })
}

fn to_number(number: &Number) -> Option<Bson> {
    if let Some(whole) = number.as_i64() {
        let short = i32::try_from(whole).map(Bson::Int32);
        return Some(short.unwrap_or(Bson::Int64(whole)));
    }
    // A whole number that is larger would become another.
    (!number.is_u64()).then(|| number.as_f64().map(Bson::Double))?
}

fn to_json(bson: Bson) -> Option<Value> {
    Some(match bson {
        Bson::Null => Value::Null,
        Bson::Boolean(is) => Value::Bool(is),
        Bson::String(text) => Value::String(text),
        Bson::Int32(whole) => Value::from(whole),
        Bson::Int64(whole) => Value::from(whole),
        Bson::Double(number) => Value::Number(Number::from_f64(number)?),
        Bson::Array(items) => {
            let items = items.into_iter().map(to_json);
            Value::Array(items.collect::<Option<_>>()?)
        }
        Bson::Document(document) => {
            let fields = document.into_iter();
            let fields = fields.map(|(name, value)| Some((name, to_json(value)?)));
            Value::Object(fields.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<Value> {
        serde_json::from_str(text).ok()
    }

    #[test]
    fn a_body_comes_back_with_the_same_value() {
        for text in [
            "null",
            " { \"b\" : [1, -2.5, true, \"\\u00e9\"], \"a\" : {} } ",
            "9223372036854775807",
            "-2147483649",
            "1e300",
            "{\"\":{\"a.b\":\"\\u0000\"}}",
        ] {
            let body = Body::new(text);
            assert!(matches!(body, Body::Value(_)), "{text} is BSON");
            let back = body.into_text().as_deref().and_then(value);
            assert_eq!(back, value(text), "{text}");
        }
    }

    #[test]
    fn what_bson_cannot_hold_stays_text() {
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        let wide = format!("[{}1]", "1,".repeat(1_500_000));
        for text in [
            "18446744073709551615",
            "1e400",
            "{\"$oid\":\"5f\"}",
            "{\"a\":{\"$date\":1}}",
            "{\"a\\u0000\":1}",
            "not JSON",
            "",
            &deep,
            &wide,
        ] {
            let body = Body::new(text);
            assert!(matches!(body, Body::Text(_)), "{:.20} is text", text);
            assert_eq!(body.into_text().as_deref(), Some(text));
        }
    }
}
