//! Values of a document that count as missing if they are not of the expected type.
//!
//! Each value is read in one pass over its text: statistics read every document that changed.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::week::Week;

/// A value, or nothing if it is missing or of another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// What JSON values a type is read from: by default from none.
pub(super) trait Value: Sized {
    fn of_text(_: &str) -> Option<Self> {
        None
    }

    fn of_number(_: u64) -> Option<Self> {
        None
    }

    fn of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Option<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// Reads the fields of an object.
pub(super) fn fields<'de, A, T>(object: A) -> Result<Option<T>, A::Error>
where
    A: MapAccess<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(MapAccessDeserializer::new(object)).map(Some)
}

impl Value for u64 {
    fn of_number(number: u64) -> Option<Self> {
        Some(number)
    }
}

impl Value for String {
    fn of_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl<'de, T: Value> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData)).map(Self)
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: Value> Visitor<'de> for Reader<T> {
    type Value = Option<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<T>, E> {
        Ok(T::of_text(text))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<T>, E> {
        Ok(T::of_number(number))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Option<T>, A::Error> {
        T::of_object(object)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<T>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }
}

/// A time in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time(i64);

impl Value for Time {
    fn of_text(text: &str) -> Option<Self> {
        let usual = || Some(Self(seconds(text)?));
        let other = || Some(Self(text.parse::<jiff::Timestamp>().ok()?.as_second()));
        usual().or_else(other)
    }
}

impl Time {
    pub(super) fn week(self) -> Week {
        Week::of_seconds(self.0)
    }

    /// Minutes from an earlier time; `None`: it is not earlier.
    pub(super) fn minutes_since(self, earlier: Self) -> Option<u64> {
        let seconds = self.0.checked_sub(earlier.0)?;
        u64::try_from(seconds).ok().map(|seconds| seconds / 60)
    }
}

/// Reads `2026-11-18T08:00:00Z`, the form that GitHub writes, several times as fast as the general
/// parser; `None`: another form, or no date.
fn seconds(text: &str) -> Option<i64> {
    let text: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let signs = [
        (4, b'-'),
        (7, b'-'),
        (10, b'T'),
        (13, b':'),
        (16, b':'),
        (19, b'Z'),
    ];
    if signs.iter().any(|(at, sign)| text.get(*at) != Some(sign)) {
        return None;
    }
    let number = |from: usize, digits: usize| {
        text.get(from..from + digits)?
            .iter()
            .try_fold(0_i64, |number, byte| {
                let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
                Some(number * 10 + digit)
            })
    };
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    // Days that only some months have, and leap seconds, are left to the general parser.
    let is_usual = (1..=12).contains(&month) && (1..=28).contains(&day);
    if !is_usual || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Years begin in March, so that a leap day is the last of its year.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - DAYS_TO_1970;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days from the first of March of the year 0 to the first of January 1970.
const DAYS_TO_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_general_parser() {
        // Every 101,111 seconds: some 37,000 times over 119 years, of every month and hour.
        for number in 0..37_000 {
            let at = jiff::Timestamp::from_second(-300_000_000 + number * 101_111).expect("a time");
            let text = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            assert_eq!(Time::of_text(&text), Some(Time(at.as_second())), "{text}");
        }
        for text in [
            "0001-01-01T00:00:00Z",
            "1600-02-28T23:59:59Z",
            "9999-12-28T23:59:59Z",
        ] {
            let at: jiff::Timestamp = text.parse().expect("a time");
            assert_eq!(seconds(text), Some(at.as_second()), "{text}");
        }
        assert_eq!(Time::of_text("1970-01-01T00:00:00Z"), Some(Time(0)));
        assert_eq!(Time::of_text("1970-01-01T09:00:00+09:00"), Some(Time(0)));
        assert_eq!(Time::of_text("1970-01-01T00:00:01.500Z"), Some(Time(1)));
    }

    #[test]
    fn no_time_is_read_from_other_text() {
        for text in [
            "",
            "soon",
            "2026-13-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-0\u{e9}T00:00:00Z",
            "+026-01-01T00:00:00Z",
        ] {
            assert_eq!(Time::of_text(text), None, "{text}");
        }
    }

    #[test]
    fn values_of_other_types_count_as_missing() {
        let number = |text| serde_json::from_str::<Lenient<u64>>(text).expect("JSON").0;
        assert_eq!(number("7"), Some(7));
        for other in [
            "-7",
            "7.5",
            "\"7\"",
            "null",
            "true",
            "[7,[8]]",
            "{\"7\":{\"a\":7}}",
        ] {
            assert_eq!(number(other), None, "{other}");
        }
        let text = |text| {
            serde_json::from_str::<Lenient<String>>(text)
                .expect("JSON")
                .0
        };
        assert_eq!(text("\"a\\n\""), Some("a\n".to_owned()));
        assert_eq!(text("7"), None);
    }
}
