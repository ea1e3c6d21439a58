//! Times for people: the time of day, or the day if it is another one. In UTC, as in logs and JSON.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The shortest time that is rewritten: `2026-11-17T14:03:09Z`.
const SHORTEST: usize = 20;
/// The longest: `2026-11-17T14:03:09.123456789Z`.
const LONGEST: usize = 30;

/// The text with its RFC 3339 times as clock times: `14:03:09` for today, `Nov 17 14:03` otherwise.
pub(crate) fn short(text: &str, now: Timestamp) -> String {
    let mut words = text.split(' ').map(|word| {
        // A comma or a bracket may follow a time.
        let end = word.find('Z').map_or(word.len(), |at| at + 1);
        let (time, rest) = word.split_at(end);
        match read(time) {
            Some(at) => format!("{}{rest}", clock(at, now)),
            None => word.to_owned(),
        }
    });
    let mut short = words.next().unwrap_or_default();
    words.for_each(|word| {
        short.push(' ');
        short.push_str(&word);
    });
    short
}

/// `14:03:09` for today, `Nov 17 14:03` otherwise.
pub(crate) fn clock(at: Timestamp, now: Timestamp) -> String {
    let (at, now) = (at.to_zoned(TimeZone::UTC), now.to_zoned(TimeZone::UTC));
    let format = match at.date() == now.date() {
        true => "%H:%M:%S",
        false => "%b %-d %H:%M",
    };
    at.strftime(format).to_string()
}

/// Reads an RFC 3339 time in UTC.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    let is_time = (SHORTEST..=LONGEST).contains(&text.len()) && text.ends_with('Z');
    is_time.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn today_is_a_time_and_another_day_a_date() {
        let now: Timestamp = "2026-11-17T20:00:00Z".parse().unwrap();
        assert_eq!(short("2026-11-17T14:03:09.120Z", now), "14:03:09");
        assert_eq!(short("2026-11-03T14:03:09.120Z", now), "Nov 3 14:03");
        assert_eq!(
            short("paused until 2026-11-17T14:03:09Z", now),
            "paused until 14:03:09"
        );
        assert_eq!(short("order Z 17", now), "order Z 17");
        assert_eq!(short("", now), "");
    }
}
