//! A week: Monday to Sunday, in UTC.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::InvalidText;

const DAY_SECONDS: i64 = 24 * 60 * 60;
/// 1970-01-01 was a Thursday: its week began three days earlier.
const MONDAY_SHIFT: i64 = 3;
/// The week of 0001-01-01. Earlier dates count here: a year has four digits.
const FIRST: i64 = -102_737;
/// The last week that begins in the year 9999.
const LAST: i64 = 418_985;

/// A week, shown as the date of its Monday: `2026-11-16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Week(i64);

impl Week {
    /// The week of a time in seconds since 1970. Times before year 1 and after 9999 count in the
    /// first and the last week.
    pub fn of_seconds(seconds: i64) -> Self {
        let days = seconds.div_euclid(DAY_SECONDS);
        Self((days + MONDAY_SHIFT).div_euclid(7).clamp(FIRST, LAST))
    }

    /// The week that many weeks later, or earlier if negative.
    #[must_use]
    pub fn plus(self, weeks: i64) -> Self {
        Self(self.0.saturating_add(weeks).clamp(FIRST, LAST))
    }
}

impl fmt::Display for Week {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (self.0 * 7 - MONDAY_SHIFT) * DAY_SECONDS;
        let at = jiff::Timestamp::from_second(seconds).map_err(|_| fmt::Error)?;
        write!(f, "{}", at.strftime("%Y-%m-%d"))
    }
}

impl FromStr for Week {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let wrong = || InvalidText("a week is a date such as 2026-11-16".to_owned());
        let date: jiff::civil::Date = text.parse().map_err(|_| wrong())?;
        let zoned = date
            .to_zoned(jiff::tz::TimeZone::UTC)
            .map_err(|_| wrong())?;
        Ok(Self::of_seconds(zoned.timestamp().as_second()))
    }
}

impl Serialize for Week {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Week {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn week(time: &str) -> String {
        let at: jiff::Timestamp = time.parse().expect("a time");
        Week::of_seconds(at.as_second()).to_string()
    }

    #[test]
    fn a_week_begins_on_monday_at_midnight_utc() {
        let cases = [
            ("2026-11-16T00:00:00Z", "2026-11-16"),
            ("2026-11-15T23:59:59Z", "2026-11-09"),
            ("2026-11-22T23:59:59Z", "2026-11-16"),
            // The same moment, written elsewhere on earth.
            ("2026-11-16T01:00:00+02:00", "2026-11-09"),
            ("1970-01-01T00:00:00Z", "1969-12-29"),
            ("2099-12-31T00:00:00Z", "2099-12-28"),
            ("2024-02-29T12:00:00Z", "2024-02-26"),
            ("9999-12-30T00:00:00Z", "9999-12-27"),
        ];
        for (time, monday) in cases {
            assert_eq!(week(time), monday, "{time}");
        }
    }

    #[test]
    fn a_week_is_read_as_it_is_written() {
        for seconds in [i64::MIN, -62_135_596_800, -1, 0, 1_700_000_000, i64::MAX] {
            let week = Week::of_seconds(seconds);
            assert_eq!(week.to_string().parse::<Week>().ok(), Some(week));
        }
        let week: Week = "2026-11-18".parse().expect("a date");
        assert_eq!(week.to_string(), "2026-11-16");
        assert_eq!(week.plus(-1).to_string(), "2026-11-09");
        assert_eq!(week.plus(7).to_string(), "2027-01-04");
        assert!("last week".parse::<Week>().is_err());
    }
}
