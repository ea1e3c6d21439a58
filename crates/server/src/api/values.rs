//! Values of request bodies that JSON has no type of its own for.

use std::fmt;
use std::time::Duration;

use clinch_core::Timestamp;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

use super::time;
use crate::config::Span;

/// A duration: `"500ms"`, `"5s"`, or a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DurationValue(pub(crate) Duration);

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = DurationValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"500ms\" or \"5s\", or a number of seconds")
    }

    fn visit_u64<E: Error>(self, secs: u64) -> Result<Self::Value, E> {
        Ok(DurationValue(Duration::from_secs(secs)))
    }

    fn visit_f64<E: Error>(self, secs: f64) -> Result<Self::Value, E> {
        let duration = Duration::try_from_secs_f64(secs);
        duration
            .map(DurationValue)
            .map_err(|_| E::invalid_value(Unexpected::Float(secs), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let span: Result<Span, _> = text.parse();
        span.map(|span| DurationValue(span.0))
            .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for DurationValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }
}

/// An RFC 3339 timestamp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimeValue(pub(crate) Timestamp);

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = TimeValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a timestamp such as \"2026-11-15T08:00:00Z\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let time = time::read(text).map(TimeValue);
        time.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for TimeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TimeVisitor)
    }
}

/// A list whose items are still text: each is read, and refused, alone.
#[derive(Debug, Default)]
pub(crate) struct RawList<'a>(pub(crate) Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for RawList<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = RawList<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(RawList(items))
            }
        }
        deserializer.deserialize_seq(ListVisitor)
    }
}

/// An optional value that may be of the wrong type; the reader decides what follows from that.
///
/// Only for bodies that [`super::body`] reads: there a failed value leaves the next one readable.
#[derive(Debug)]
pub(crate) struct Lenient<T>(pub(crate) Result<Option<T>, String>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(Ok(None))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<T>::deserialize(deserializer);
        Ok(Self(value.map_err(|error| error.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_text_or_seconds() {
        for (text, millis) in [
            ("\"500ms\"", 500),
            ("30", 30_000),
            ("0.25", 250),
            ("1e1", 10_000),
        ] {
            let read: DurationValue = serde_json::from_str(text).expect(text);
            assert_eq!(read.0, Duration::from_millis(millis), "{text}");
        }
        for wrong in ["-1", "-0.5", "\"soon\"", "1e300", "true", "[1]"] {
            assert!(
                serde_json::from_str::<DurationValue>(wrong).is_err(),
                "{wrong}"
            );
        }
    }
}
