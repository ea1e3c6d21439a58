//! The content of an operation: as the caller sees it ([`Payload`]) and as adapters see it
//! ([`Sealed`]). Neither type shows its content in `Debug` or in its errors.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json;
use crate::names::Invalid;

/// Default maximum size of a payload, in bytes. Rows stay so small that a batch of claims fits
/// memory many times over. Larger content belongs in a blob store, with its address in the payload.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// A JSON value, as its canonical text (RFC 8785).
///
/// - Two payloads are equal exactly if their JSON values are: member order, white space and
///   spelling (`1`, `1.0`) do not matter.
/// - Accepts what [`json::parse`] accepts: no duplicate members, no integer past 2^53 − 1.
/// - Cheap to clone. `Debug` shows the length only.
/// - serde: the JSON value itself. Deserialization enforces [`PAYLOAD_BYTES_MAX`] and the
///   strictness of `parse`. That needs the raw text, so it works only with serde_json, and not
///   inside types that serde buffers (`untagged`, `flatten`, `tag = "…"`).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload(Arc<str>);

impl Payload {
    /// Parses JSON text.
    ///
    /// `bytes_max` bounds the text as given, before it is parsed, and its canonical form,
    /// which can be longer (`1e9`).
    pub fn parse(text: &str, bytes_max: usize) -> Result<Self, Invalid> {
        check_length(text.len(), "", bytes_max)?;
        Self::accept(text, bytes_max)
    }

    /// Converts any value that serializes to JSON. `bytes_max` bounds the canonical form.
    ///
    /// Integers past 2^53 − 1 are refused, as in text; send them as strings. serde_json writes a
    /// float that is not finite as `null`, so it becomes `null` here.
    pub fn from_value(
        value: &(impl Serialize + ?Sized),
        bytes_max: usize,
    ) -> Result<Self, Invalid> {
        // The error of a foreign `Serialize` may quote the content.
        let text = serde_json::to_string(value)
            .map_err(|_| invalid("cannot be written as JSON".to_owned()))?;
        Self::accept(&text, bytes_max)
    }

    /// The part of a provider's answer that is stored, whatever the answer is and however long.
    ///
    /// - JSON that [`Payload::parse`] accepts is kept as it is; an empty text is `null`.
    /// - Everything else becomes `{"body": "<text>"}`: other types, and JSON that two readers could
    ///   understand differently.
    /// - Text past `bytes_max`, or text that was `cut_off` before, becomes `{"body": "<the
    ///   beginning>", "truncated": true}`, even if it was JSON.
    pub fn of_answer(text: &str, cut_off: bool, bytes_max: usize) -> Self {
        if text.is_empty() && !cut_off {
            return Self::null();
        }
        if !cut_off && let Ok(payload) = Self::parse(text, bytes_max) {
            return payload;
        }
        let (text, is_cut) = cut(text, bytes_max);
        let value = match cut_off || is_cut {
            true => serde_json::json!({"body": text, "truncated": true}),
            false => serde_json::json!({ "body": text }),
        };
        // Room for the member names.
        Self::from_value(&value, bytes_max.saturating_add(64)).unwrap_or_else(|_| Self::null())
    }

    /// The payload `null`.
    pub fn null() -> Self {
        Self(Arc::from("null"))
    }

    fn accept(text: &str, bytes_max: usize) -> Result<Self, Invalid> {
        let value = json::parse(text)
            .map_err(|error| invalid(format!("is not JSON that can be accepted: {error}")))?;
        let text = json::canonical(&value);
        check_length(text.len(), " in canonical form", bytes_max)?;
        Ok(Self(Arc::from(text)))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The canonical text in UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Decodes the payload as a `T`. The error names the type and the byte offset, but shows no
    /// content.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
        // Decodes from the value, not from the text: serde_json's parser has a lower depth limit
        // and may round doubles differently.
        serde_json::from_value(self.value()).map_err(|_| {
            let place = match serde_json::from_str::<T>(&self.0) {
                Err(error) => format!(" near byte {} of its canonical form", error.column()),
                Ok(_) => String::new(),
            };
            invalid(format!(
                "does not decode as {}{place}",
                std::any::type_name::<T>()
            ))
        })
    }

    /// The payload as a JSON value. Whole numbers are integers there, however they were written.
    pub fn value(&self) -> Value {
        match json::parse(&self.0) {
            Ok(value) => value,
            // Better to stop than to act on a value that was never sent.
            Err(error) => unreachable!("canonical text is always accepted: {error}"),
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A `serde_json::Value` would already have lost duplicate members.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get(), PAYLOAD_BYTES_MAX).map_err(D::Error::custom)
    }
}

fn invalid(problem: String) -> Invalid {
    Invalid::new("payload", problem)
}

/// The longest prefix that takes at most `bytes_max` bytes as a JSON string.
fn cut(text: &str, bytes_max: usize) -> (&str, bool) {
    let mut used = 0;
    for (at, letter) in text.char_indices() {
        used += match letter {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            _ => letter.len_utf8(),
        };
        if used > bytes_max {
            return (&text[..at], true);
        }
    }
    (text, false)
}

fn check_length(got: usize, form: &str, bytes_max: usize) -> Result<(), Invalid> {
    if got <= bytes_max {
        return Ok(());
    }
    Err(invalid(format!(
        "is {got} bytes long{form}; at most {bytes_max} are allowed"
    )))
}

/// Bytes as adapters store and move them: the sealer's output for a payload, a result or a
/// checkpoint. Adapters can see only their length and whether two are equal.
///
/// Cheap to clone. `Debug` shows only the length, since the default sealer changes nothing.
/// serde: a string of lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Sealed(Arc<[u8]>);

impl Sealed {
    /// Wraps bytes that a sealer made, or that were stored as such.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::from(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::hash::to_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Sealed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        crate::hash::from_hex(&text)
            .map(Self::new)
            .ok_or_else(|| D::Error::custom("sealed bytes are not lower-case hexadecimal"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::DEPTH_MAX;

    fn payload(text: &str) -> Result<Payload, Invalid> {
        Payload::parse(text, PAYLOAD_BYTES_MAX)
    }

    #[test]
    fn payload_limits_both_forms_and_tells_the_limit() {
        assert_eq!(payload(" [ 1.0 ] ").expect("valid").as_str(), "[1]");
        assert_eq!(Payload::parse("[1]", 3).expect("fits").as_bytes(), b"[1]");
        let long = Payload::parse("[ 1]", 3).expect_err("over-long as given");
        assert_eq!(
            long.to_string(),
            "payload is 4 bytes long; at most 3 are allowed"
        );
        let grown = Payload::parse("1e9", 3).expect_err("over-long once canonical");
        assert_eq!(
            grown.to_string(),
            "payload is 10 bytes long in canonical form; at most 3 are allowed"
        );
        assert!(Payload::from_value("four", 6).is_ok());
        assert!(Payload::from_value("four", 5).is_err());
    }

    #[test]
    fn payload_moves_between_text_value_and_type() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Charge {
            cents: u64,
            rate: f64,
            note: Option<String>,
        }
        let charge = Charge {
            cents: 1200,
            rate: 2.0,
            note: None,
        };
        let payload = Payload::from_value(&charge, PAYLOAD_BYTES_MAX).expect("serialises");
        assert_eq!(payload.as_str(), r#"{"cents":1200,"note":null,"rate":2}"#);
        assert_eq!(payload.to::<Charge>().expect("decodes"), charge);
        assert_eq!(
            payload.value(),
            json!({"cents": 1200, "note": null, "rate": 2})
        );
        assert_eq!(Payload::null().value(), Value::Null);
        assert_eq!(Payload::null().as_str(), "null");

        let big = Payload::from_value(&u64::MAX, PAYLOAD_BYTES_MAX).expect_err("not exact");
        assert!(big.problem.contains("integer outside"), "{big}");
        let pairs = [((1, 2), 3)].into_iter().collect();
        let keyed: std::collections::BTreeMap<(u8, u8), u8> = pairs;
        assert!(Payload::from_value(&keyed, PAYLOAD_BYTES_MAX).is_err());
    }

    #[test]
    fn payload_of_full_depth_decodes_and_round_trips() {
        let text = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        let payload = payload(&text).expect("as deep as may be");
        assert!(payload.to::<Value>().is_ok());
        let stored = serde_json::to_string(&payload).expect("serialises");
        assert_eq!(
            serde_json::from_str::<Payload>(&stored).expect("reads"),
            payload
        );
    }

    #[test]
    fn payload_is_the_json_value_in_serde_and_stays_strict() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Envelope {
            payload: Payload,
        }
        let read: Envelope =
            serde_json::from_str(r#"{"payload": {"b": 1.0, "a": [ ]}}"#).expect("ok");
        assert_eq!(read.payload.as_str(), r#"{"a":[],"b":1}"#);
        let written = serde_json::to_string(&read).expect("serialises");
        assert_eq!(written, r#"{"payload":{"a":[],"b":1}}"#);
        let value = serde_json::to_value(&read).expect("serialises");
        assert_eq!(
            serde_json::from_value::<Envelope>(value).expect("reads"),
            read
        );

        let twice = serde_json::from_str::<Envelope>(r#"{"payload":{"a":1,"a":2}}"#);
        assert!(twice.expect_err("no").to_string().contains("duplicate"));
        let long = format!(r#"{{"payload":"{}"}}"#, "x".repeat(PAYLOAD_BYTES_MAX));
        let error = serde_json::from_str::<Envelope>(&long).expect_err("too long");
        assert!(error.to_string().contains("at most 262144 are allowed"));
    }

    #[test]
    fn payload_and_sealed_never_show_their_content() {
        let secret = payload(r#"{"hunter2":"hunter2"}"#).expect("valid");
        assert_eq!(format!("{secret:?}"), "Payload(21 bytes)");
        assert_eq!(format!("{secret:#?}"), "Payload(21 bytes)");
        let sealed = Sealed::new(b"hunter2".to_vec());
        assert_eq!(format!("{sealed:?}"), "Sealed(7 bytes)");

        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wanted {
            #[serde(rename = "hunter2")]
            _field: u8,
        }
        let error = secret.to::<Wanted>().expect_err("a string is no number");
        assert!(error.problem.contains("Wanted near byte 20"), "{error}");
        let other = payload(r#"{"hunter2":1,"hunter2-b":1}"#).expect("valid");
        let mut errors = vec![error, other.to::<Wanted>().expect_err("unknown field")];
        for text in [
            r#"{"hunter2":1,"hunter2":2}"#,
            r#"["hunter2" hunter2"#,
            r#""hunter2\z""#,
            "hunter2",
        ] {
            errors.push(payload(text).expect_err(text));
        }
        for error in errors {
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn sealed_is_hex_in_serde() {
        let sealed = Sealed::new(vec![0, 15, 160, 255]);
        assert_eq!((sealed.len(), sealed.is_empty()), (4, false));
        let text = serde_json::to_string(&sealed).expect("serialises");
        assert_eq!(text, "\"000fa0ff\"");
        assert_eq!(
            serde_json::from_str::<Sealed>(&text).expect("reads"),
            sealed
        );
        for bad in ["\"0\"", "\"0G\"", "\"FF\"", "\"é\"", "1"] {
            assert!(serde_json::from_str::<Sealed>(bad).is_err(), "{bad}");
        }
        assert!(Sealed::new(Vec::new()).is_empty());
    }
}
