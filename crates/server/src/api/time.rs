//! Timestamps as text.

use clinch_core::Timestamp;

/// `2026-11-15T08:00:00.123Z`
pub(crate) fn write(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(at.as_millis());
    let at = at.unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Reads an RFC 3339 timestamp, to the millisecond.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_millis(at.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_and_read() {
        let at = Timestamp::from_millis(1_794_729_600_120);
        assert_eq!(write(at), "2026-11-15T08:00:00.120Z");
        assert_eq!(read(&write(at)), Some(at));
        assert_eq!(read("2026-11-15T09:00:00.12+01:00"), Some(at));
        assert_eq!(read("yesterday"), None);
    }
}
