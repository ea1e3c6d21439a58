//! Schedules: cron expressions of five fields, in UTC.

use clinch::types::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan};

use crate::model::{InvalidText, login};

/// The longest gap between two times of an expression: the 29th of February around a century year
/// that is not a leap year.
const YEARS_MAX: i16 = 9;

/// A user and the times of the user's runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Login of the user.
    pub login: String,
    /// The times.
    pub cron: Cron,
}

impl Schedule {
    /// Parses both.
    pub fn new(user: &str, cron: &str) -> Result<Self, InvalidText> {
        Ok(Self {
            login: login(user)?,
            cron: Cron::new(cron)?,
        })
    }
}

/// Minute, hour, day of month, month, day of week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// The allowed values of a field, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// The field allows every value.
    is_any: bool,
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits >> value & 1 == 1)
    }

    fn read(
        name: &str,
        text: &str,
        low: u32,
        high: u32,
        names: &[&str],
    ) -> Result<Self, InvalidText> {
        let wrong = || {
            let message = format!(
                "cron: {text:?} is not a valid {name}; use {low}-{high}, *, lists, ranges and steps"
            );
            InvalidText(message)
        };
        let number = |text: &str| {
            let named = names.iter().position(|one| one.eq_ignore_ascii_case(text));
            let named = named
                .and_then(|at| u32::try_from(at).ok())
                .map(|at| at + low);
            let value = named.or_else(|| text.parse().ok());
            value
                .filter(|value| (low..=high).contains(value))
                .ok_or_else(wrong)
        };
        let mut bits = 0_u64;
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, step.parse().map_err(|_| wrong())?),
                None => (part, 1_usize),
            };
            let (from, to) = match range.split_once('-') {
                _ if range == "*" => (low, high),
                Some((from, to)) => (number(from)?, number(to)?),
                None if part.contains('/') => (number(range)?, high),
                None => (number(range)?, number(range)?),
            };
            if from > to || step == 0 {
                return Err(wrong());
            }
            for value in (from..=to).step_by(step) {
                bits |= 1 << value;
            }
        }
        Ok(Self {
            bits,
            is_any: text.starts_with('*'),
        })
    }
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Cron {
    /// Parses an expression; refuses one that never matches.
    pub fn new(text: &str) -> Result<Self, InvalidText> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            let message = "cron takes five fields: minute, hour, day of month, month, day of week";
            return Err(InvalidText(message.to_owned()));
        };
        let mut weekdays = Field::read("day of week", weekdays, 0, 7, &WEEKDAYS)?;
        if weekdays.has(7) {
            weekdays.bits |= 1;
        }
        let cron = Self {
            minutes: Field::read("minute", minutes, 0, 59, &[])?,
            hours: Field::read("hour", hours, 0, 23, &[])?,
            days: Field::read("day of month", days, 1, 31, &[])?,
            months: Field::read("month", months, 1, 12, &MONTHS)?,
            weekdays,
        };
        match cron.next_after(Timestamp::from_millis(0)) {
            Some(_) => Ok(cron),
            None => Err(InvalidText(format!("cron: {text:?} never matches"))),
        }
    }

    /// The first matching minute after `after`.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let start = jiff::Timestamp::from_millisecond(after.as_millis()).ok()?;
        let start = start.to_zoned(TimeZone::UTC).datetime();
        let last_year = start.year().checked_add(YEARS_MAX)?;
        let minute = start.with().second(0).subsec_nanosecond(0).build().ok()?;
        let mut at = minute.checked_add(1.minute()).ok()?;
        while at.year() <= last_year {
            match self.skip(&at) {
                None => {
                    let at = at.to_zoned(TimeZone::UTC).ok()?.timestamp();
                    return Some(Timestamp::from_millis(at.as_millisecond()));
                }
                Some((whole, step)) => at = whole.checked_add(step).ok()?,
            }
        }
        None
    }

    /// The start of the period around `at` that holds no matching minute, and its length; `None`:
    /// `at` matches.
    fn skip(&self, at: &DateTime) -> Option<(DateTime, Span)> {
        if !self.months.has(at.month()) {
            return Some((
                at.date().first_of_month().to_datetime(Default::default()),
                1.month(),
            ));
        }
        if !self.has_day(at) {
            return Some((at.date().to_datetime(Default::default()), 1.day()));
        }
        if !self.hours.has(at.hour()) {
            let hour = at.with().minute(0).build().unwrap_or(*at);
            return Some((hour, 1.hour()));
        }
        (!self.minutes.has(at.minute())).then(|| (*at, 1.minute()))
    }

    /// If both day of month and day of week are restricted, either may match.
    fn has_day(&self, at: &DateTime) -> bool {
        let of_month = self.days.has(at.day());
        let of_week = self.weekdays.has(at.weekday().to_sunday_zero_offset());
        if self.days.is_any || self.weekdays.is_any {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let at: jiff::Timestamp = text.parse().expect("a time");
        Timestamp::from_millis(at.as_millisecond())
    }

    fn next(cron: &str, after: &str) -> Option<Timestamp> {
        Cron::new(cron)
            .expect("an expression")
            .next_after(at(after))
    }

    #[test]
    fn the_next_time_is_the_first_after() {
        let cases = [
            ("0 3 * * *", "2026-11-15T02:59:59Z", "2026-11-15T03:00:00Z"),
            ("0 3 * * *", "2026-11-15T03:00:00Z", "2026-11-16T03:00:00Z"),
            (
                "*/15 * * * *",
                "2026-11-15T03:07:00Z",
                "2026-11-15T03:15:00Z",
            ),
            (
                "5,35 8-10 * * mon-fri",
                "2026-11-15T00:00:00Z",
                "2026-11-16T08:05:00Z",
            ),
            (
                "0 0 1 jan *",
                "2026-11-15T00:00:00Z",
                "2027-01-01T00:00:00Z",
            ),
            ("0 0 29 2 *", "2026-11-15T00:00:00Z", "2028-02-29T00:00:00Z"),
            // Both days are restricted: either matches.
            ("0 0 13 * 5", "2026-11-14T00:00:00Z", "2026-11-20T00:00:00Z"),
            ("0 0 * * 7", "2026-11-14T12:00:00Z", "2026-11-15T00:00:00Z"),
            (
                "30 4 31 * *",
                "2026-11-15T00:00:00Z",
                "2026-12-31T04:30:00Z",
            ),
        ];
        for (cron, after, expected) in cases {
            assert_eq!(
                next(cron, after),
                Some(at(expected)),
                "{cron} after {after}"
            );
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for cron in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "5-1 * * * *",
            "*/0 * * * *",
            "x * * * *",
            "0 0 30 2 *",
            "1, * * * *",
        ] {
            assert!(Cron::new(cron).is_err(), "{cron}");
        }
    }
}
