//! Durations and sizes in readable units.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration such as `"200ms"`, `"5s"`, `"10m"`, `"24h"` or `"7d"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(pub Duration);

/// Milliseconds in each unit, the longest first.
const SPANS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Bytes in each unit, the largest first.
const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// A whole number and its unit.
fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

impl Span {
    /// A number of seconds.
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a duration; write \"200ms\", \"5s\", \"10m\", \"24h\" or \"7d\""
            )
        };
        let (number, unit) = split(text).ok_or_else(wrong)?;
        if number == 0 && unit.is_empty() {
            return Ok(Self::default());
        }
        let known = SPANS.iter().find(|(name, _)| *name == unit);
        let millis = known.and_then(|(_, millis)| number.checked_mul(*millis));
        Ok(Self(Duration::from_millis(millis.ok_or_else(wrong)?)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let fits = |(_, unit): &&(&str, u64)| millis != 0 && millis.is_multiple_of(*unit);
        match SPANS.iter().find(fits) {
            Some((name, unit)) => write!(f, "{}{name}", millis / unit),
            None => f.write_str("0s"),
        }
    }
}

/// A number of bytes such as `"256KiB"` or `1024`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is not a size; write \"256KiB\", \"16MiB\" or a number of bytes");
        let (number, unit) = split(text).ok_or_else(wrong)?;
        let unit = if unit.is_empty() { "B" } else { unit };
        let known = SIZES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let bytes = known.and_then(|(_, bytes)| number.checked_mul(*bytes));
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        Ok(Self(bytes.ok_or_else(wrong)?))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as u64;
        let fits = |(name, unit): &&(&str, u64)| {
            name.ends_with("iB") && bytes != 0 && bytes.is_multiple_of(*unit)
        };
        match SIZES.iter().find(fits) {
            Some((name, unit)) => write!(f, "{}{name}", bytes / unit),
            None => write!(f, "{bytes}B"),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => bytes.to_string().parse().map_err(D::Error::custom),
            Written::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

/// An empty text means none.
pub(super) mod optional_span {
    use super::{Deserialize, Deserializer, Serializer, Span};
    use serde::de::Error as _;

    pub(in super::super) fn serialize<S: Serializer>(
        span: &Option<Span>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match span {
            Some(span) => serializer.collect_str(span),
            None => serializer.serialize_str(""),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Span>, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_19_durations_and_sizes_are_read_and_written() {
        for (text, millis) in [
            ("200ms", 200),
            ("5s", 5_000),
            ("10m", 600_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
        ] {
            let span: Span = text.parse().expect(text);
            assert_eq!(span.0, Duration::from_millis(millis));
        }
        assert_eq!(Span::secs(86_400).to_string(), "1d");
        assert_eq!(Span::secs(90).to_string(), "90s");
        assert_eq!(Span::default().to_string(), "0s");
        for wrong in [
            "",
            "5",
            "s",
            "5 parsecs",
            "-1s",
            "1.5s",
            "99999999999999999d",
        ] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
        assert_eq!("256KiB".parse::<Size>(), Ok(Size(262_144)));
        assert_eq!("1024".parse::<Size>(), Ok(Size(1_024)));
        assert_eq!(Size(262_144).to_string(), "256KiB");
        assert_eq!(Size(1_000).to_string(), "1000B");
        assert!("256 potatoes".parse::<Size>().is_err());
    }
}
