//! Times of changes, as GitHub writes them.

use clinch::types::Timestamp;

use crate::items::Row;
use crate::model::PageJob;
use crate::records::Cursor;
use crate::streams::Walk;

/// A time that much earlier, in GitHub's form.
pub(crate) fn earlier(at: &str, by: std::time::Duration) -> Option<String> {
    let at: jiff::Timestamp = at.parse().ok()?;
    let at = at
        .checked_sub(jiff::SignedDuration::try_from(by).ok()?)
        .ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The time that a list that is newest first is read back to: the last run knows what is older. `None`:
/// all of it is read.
pub(crate) fn known_until(job: &PageJob, cursor: Option<&Cursor>) -> Option<String> {
    let Walk::Newest(later) = job.kind.stream().walk else {
        return None;
    };
    earlier(cursor?.last_timestamp.as_ref()?, later)
}

/// The time of the latest change of these items. One in the future would hide everything until then.
pub(super) fn latest_past(rows: &[Row], now: Timestamp) -> Option<String> {
    let now = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let times = rows.iter().filter_map(|row| row.changed_at.as_ref());
    times.filter(|at| **at <= now).max().cloned()
}

/// A date in the future, such as that of a commit made with a wrong clock, would hide everything
/// until then.
pub(super) fn past(latest: Option<String>, now: Timestamp) -> Option<String> {
    let now = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    latest.map(|latest| latest.min(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_github_writes_them() {
        assert_eq!(
            earlier("2026-01-01T00:00:00Z", std::time::Duration::from_secs(1)).as_deref(),
            Some("2025-12-31T23:59:59Z")
        );
        assert_eq!(earlier("soon", std::time::Duration::ZERO), None);
    }
}
