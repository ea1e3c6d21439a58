//! Checks the machine's clock. Leases and deadlines tolerate a wrong clock; people who read times
//! do not.

use jiff::{SignedDuration, Timestamp};

use super::{Finding, Subject};
use crate::clock;
use crate::store::StoreConfig;

/// 2026-01-01: before this release.
const NOT_BEFORE: i64 = 1_767_225_600;
/// Usual difference between the clocks of two machines.
const AHEAD_MAX: SignedDuration = SignedDuration::from_secs(60);

pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let now = clock::now();
    let to_do = "set the machine's clock, by NTP";
    if now.as_second() < NOT_BEFORE {
        let what = format!("the clock says {now}, which is before this release");
        return vec![Finding::fail(what, to_do)];
    }
    let store = StoreConfig::of(&subject.config).ok();
    let written = store
        .as_ref()
        .and_then(|store| std::fs::metadata(store.file().ok()?).ok()?.modified().ok())
        .and_then(|at| Timestamp::try_from(at).ok());
    let is_ahead = |at: Timestamp| at.duration_since(now) > AHEAD_MAX;
    match written.filter(|at| is_ahead(*at)) {
        Some(at) => {
            let what = format!("the database was written at {at}, and the clock says {now}");
            vec![Finding::warn(what, to_do)]
        }
        None => vec![Finding::ok(format!("the clock says {now}"))],
    }
}
