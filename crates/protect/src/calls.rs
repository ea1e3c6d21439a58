//! The last calls of this process to one destination, for operators: counts of the last minutes and
//! the reason of the last failure. Bounded, without a timer, and without payloads.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Clock, Permit, Verdict};

use crate::sync::{Mutex, lock};

/// The time that [`RecentCalls`] covers: long enough to show a trend, short enough to show an end.
pub const RECENT: Duration = Duration::from_secs(5 * 60);

/// One bucket a minute; the oldest is forgotten as a whole.
const BUCKET: Duration = Duration::from_secs(60);
const BUCKETS: usize = 5;

/// Characters of a reason that are kept: one line of a terminal.
const REASON_CHARS_MAX: usize = 120;

/// A call that counted against its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    /// `timeout`, `effect_unknown`, `not_applied`, or `reported` by a remote worker or a probe.
    pub code: &'static str,
    /// The reason that the executor gave, on one line and cut. Never a payload.
    pub message: String,
    /// How long ago the call ended.
    pub ago: Duration,
}

/// Calls of the last [`RECENT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecentCalls {
    /// Calls that ended.
    pub calls: u64,
    /// Calls that counted against the destination.
    pub failed: u64,
}

/// Cheap to clone; clones share the same calls.
#[derive(Clone)]
pub(crate) struct Calls {
    clock: Arc<dyn Clock>,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    buckets: [(u64, RecentCalls); BUCKETS],
    failure: Option<(&'static str, String, Duration)>,
    paused: Option<Pause>,
}

#[derive(Clone, Copy)]
struct Pause {
    since: Duration,
    until: Duration,
}

impl Calls {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let log = Arc::new(Mutex::new(Log::default()));
        Self { clock, log }
    }

    /// Notes the end of a call.
    pub(crate) fn note(&self, reason: Option<(&'static str, &str)>) {
        let now = self.clock.monotonic();
        let minute = minute(now);
        let mut log = lock(&self.log);
        let (at, calls) = &mut log.buckets[place(minute)];
        if *at != minute {
            *at = minute;
            *calls = RecentCalls::default();
        }
        calls.calls += 1;
        calls.failed += u64::from(reason.is_some());
        if let Some((code, text)) = reason {
            log.failure = Some((code, one_line(text), now));
        }
    }

    /// Notes a pause that the provider asked for. A pause that continues an earlier one began with
    /// that one.
    pub(crate) fn note_pause(&self, lasting: Duration) {
        let now = self.clock.monotonic();
        let mut log = lock(&self.log);
        let running = log.paused.filter(|pause| now < pause.until);
        let end = now.saturating_add(lasting);
        log.paused = Some(Pause {
            since: running.map_or(now, |pause| pause.since),
            until: running.map_or(end, |pause| pause.until.max(end)),
        });
    }

    /// How long ago the current pause was noted.
    pub(crate) fn paused_since(&self) -> Option<Duration> {
        let now = self.clock.monotonic();
        let paused = lock(&self.log).paused?;
        Some(now.saturating_sub(paused.since))
    }

    pub(crate) fn read(&self) -> (Option<CallFailure>, RecentCalls) {
        let now = self.clock.monotonic();
        let oldest = (minute(now) + 1).saturating_sub(BUCKETS as u64);
        let log = lock(&self.log);
        let mut recent = RecentCalls::default();
        for (_, calls) in log.buckets.iter().filter(|(at, _)| *at >= oldest) {
            recent.calls += calls.calls;
            recent.failed += calls.failed;
        }
        let failure = log.failure.as_ref();
        let failure = failure.map(|(code, message, at)| CallFailure {
            code,
            message: message.clone(),
            ago: now.saturating_sub(*at),
        });
        (failure, recent)
    }
}

fn minute(now: Duration) -> u64 {
    now.as_secs() / BUCKET.as_secs()
}

fn place(minute: u64) -> usize {
    usize::try_from(minute % BUCKETS as u64).unwrap_or_default()
}

/// The text without line breaks and other control characters, cut.
fn one_line(text: &str) -> String {
    let chars = text.chars().take(REASON_CHARS_MAX);
    let plain = chars.map(|c| if c.is_control() { ' ' } else { c });
    plain.collect()
}

/// Counts a call that no executor of this process makes: a probe, or a remote worker's attempt.
pub(crate) struct Counted {
    calls: Calls,
    has_reported: bool,
}

impl Counted {
    pub(crate) fn new(calls: Calls) -> Self {
        Self {
            calls,
            has_reported: false,
        }
    }
}

impl Permit for Counted {
    fn report(mut self: Box<Self>, verdict: Verdict) {
        self.has_reported = true;
        match verdict {
            Verdict::Ignored => {}
            Verdict::Answered { .. } => self.calls.note(None),
            Verdict::Failed { .. } => {
                let text = "a remote worker or a probe reported a failed call";
                self.calls.note(Some(("reported", text)));
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.has_reported {
            let text = "a remote worker or a probe did not report in time";
            self.calls.note(Some(("timeout", text)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_and_cut() {
        assert_eq!(one_line("http 503\r\nretry"), "http 503  retry");
        assert_eq!(one_line(&"é".repeat(500)).chars().count(), REASON_CHARS_MAX);
    }
}
