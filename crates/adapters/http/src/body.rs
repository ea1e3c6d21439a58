//! Converts an answer's body into a payload.

use clinch_core::Payload;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

/// The part of a body that was read.
#[derive(Debug)]
pub(crate) struct Body {
    pub bytes: Vec<u8>,
    /// The body was longer than the limit.
    pub truncated: bool,
}

/// Reads up to `bytes_max`, and does not wait for the rest.
///
/// An error means that the body ended before its length, its last chunk or its stream did.
pub(crate) async fn read(body: &mut Incoming, bytes_max: usize) -> Result<Body, hyper::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        let room = bytes_max - bytes.len();
        if data.len() > room {
            bytes.extend(data.iter().take(room));
            return Ok(Body {
                bytes,
                truncated: true,
            });
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Body {
        bytes,
        truncated: false,
    })
}

impl Body {
    /// The body as JSON, if it is JSON: for looking up values, not for storing.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.bytes)
            .ok()
            .filter(|_| !self.truncated)
    }

    /// The payload to store. Bytes that are not UTF-8 become U+FFFD.
    pub(crate) fn payload(&self, bytes_max: usize) -> Payload {
        let text = String::from_utf8_lossy(&self.bytes);
        Payload::of_answer(&text, self.truncated, bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(bytes: &[u8], truncated: bool, max: usize) -> String {
        let bytes = bytes.to_vec();
        Body { bytes, truncated }.payload(max).as_str().to_owned()
    }

    #[test]
    fn bodies_become_payloads_of_bounded_size() {
        assert_eq!(stored(br#"{"b":1.0,"a":2}"#, false, 99), r#"{"a":2,"b":1}"#);
        assert_eq!(stored(b"", false, 99), "null");
        assert_eq!(stored(b"paid", false, 99), r#"{"body":"paid"}"#);
        assert_eq!(stored(b"\xff!", false, 99), "{\"body\":\"\u{fffd}!\"}");
        let large = br#"{"id":12345678901234567890}"#;
        assert_eq!(
            stored(large, false, 99),
            r#"{"body":"{\"id\":12345678901234567890}"}"#
        );
        assert_eq!(
            stored(b"[1,2", true, 4),
            r#"{"body":"[1,2","truncated":true}"#
        );
        assert_eq!(stored(b"", true, 0), r#"{"body":"","truncated":true}"#);
        // Escapes count as what they take.
        assert_eq!(stored(b"\0\0x", false, 13), r#"{"body":"\u0000\u0000x"}"#);
        assert_eq!(
            stored(b"\0\0x", false, 12),
            r#"{"body":"\u0000\u0000","truncated":true}"#
        );
        assert!(stored(&[0; 5_000], false, 5_000).len() <= 5_064);
        assert!(stored(&[b'"'; 5_000], true, 5_000).len() <= 5_064);
    }
}
