//! Durations and times as people type them.

use std::time::Duration;

use jiff::Timestamp;

use crate::clock;

/// `200ms`, `5s`, `10m`, `2h`, `7d`; a bare `0`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let wrong = || "a duration is a whole number and a unit, such as 200ms, 5s, 10m, 2h or 7d";
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" if number == 0 => 1,
        _ => return Err(wrong().to_owned()),
    };
    let millis = number.checked_mul(millis).ok_or("that is too long")?;
    Ok(Duration::from_millis(millis))
}

/// Whole seconds, rounded up: `Prefer: wait` has no fractions.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// A time: RFC 3339, or a distance from now. The flag determines its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// `2026-11-15T08:00:00Z`.
    At(Timestamp),
    /// `10m`.
    Away(Duration),
}

impl Moment {
    /// Parses either form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(duration) = parse(text) {
            return Ok(Self::Away(duration));
        }
        text.parse().map(Self::At).map_err(|_| {
            "a time is RFC 3339, such as 2026-11-15T08:00:00Z, or a distance such as 10m".to_owned()
        })
    }

    /// A distance counts back from now.
    pub(crate) fn ago(self) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::Away(distance) => clock::before(distance),
        }
    }

    /// A distance counts forward from now.
    pub(crate) fn ahead(self) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::Away(distance) => clock::after(distance),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(parse("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7_200)));
        assert_eq!(parse("7d"), Ok(Duration::from_secs(604_800)));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        for wrong in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "5 s",
            "5S",
            "٣s",
            "99999999999999999d",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(whole_seconds(Duration::ZERO), 0);
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(3)), 3);
    }

    #[test]
    fn moments_are_rfc_3339_or_a_distance() {
        let at = Moment::parse("2026-11-15T08:00:00+01:00").unwrap();
        assert_eq!(at.ago().to_string(), "2026-11-15T07:00:00Z");
        let away = Moment::parse("10m").unwrap();
        assert!(away.ago() < away.ahead());
        assert!(Moment::parse("yesterday").is_err());
    }
}
