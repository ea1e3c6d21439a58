//! Dead letters as alerts: the first of a domain and code at once, then one sum an interval.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::ports::{AlertNote, Clock};
use tokio::sync::Notify;

/// Pairs of domain and code that are summed up apart; further pairs share one.
const PAIRS_MAX: usize = 64;

type Pair = (Option<String>, Option<String>);

/// The dead letters of the current intervals.
pub(crate) struct LetterAlerts {
    clock: Arc<dyn Clock>,
    interval: Duration,
    pairs: Mutex<BTreeMap<Pair, Sum>>,
    /// Told when a dead letter waits to be summed up.
    waiting: Notify,
}

struct Sum {
    since: Duration,
    /// The last dead letter that was not sent, and how many there are.
    last: Option<AlertNote>,
}

impl LetterAlerts {
    pub(crate) fn new(clock: Arc<dyn Clock>, interval: Duration) -> Self {
        Self {
            clock,
            interval,
            pairs: Mutex::default(),
            waiting: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Pair, Sum>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this dead letter is sent itself. If not, the next sum includes it.
    pub(crate) fn is_first(&self, note: &AlertNote) -> bool {
        let now = self.clock.monotonic();
        let mut pair = (note.domain.clone(), note.failure_code.clone());
        let mut pairs = self.lock();
        // Quiet pairs make room.
        if pairs.len() >= PAIRS_MAX {
            let interval = self.interval;
            pairs.retain(|_, sum| sum.last.is_some() || now.saturating_sub(sum.since) < interval);
        }
        if pairs.len() >= PAIRS_MAX && !pairs.contains_key(&pair) {
            pair = (None, None);
        }
        let Some(sum) = pairs.get_mut(&pair) else {
            let (since, last) = (now, None);
            pairs.insert(pair, Sum { since, last });
            return true;
        };
        if sum.last.is_none() && now.saturating_sub(sum.since) >= self.interval {
            sum.since = now;
            return true;
        }
        let count = sum.last.as_ref().map_or(0, |last| last.count) + note.count;
        sum.last = Some(AlertNote {
            count,
            message: format!(
                "{count} more operations FAILED; `clinch dlq ls` lists the dead letters"
            ),
            ..note.clone()
        });
        drop(pairs);
        self.waiting.notify_one();
        false
    }

    /// Waits for the end of an interval with unsent dead letters; returns a sum for each.
    pub(crate) async fn next_sums(&self) -> Vec<AlertNote> {
        loop {
            let due = self
                .lock()
                .values()
                .filter(|sum| sum.last.is_some())
                .map(|sum| sum.since)
                .min();
            let Some(since) = due else {
                self.waiting.notified().await;
                continue;
            };
            let end = since.saturating_add(self.interval);
            let left = end.saturating_sub(self.clock.monotonic());
            if !left.is_zero() {
                self.clock.sleep(left).await;
            }
            let sums = self.take(false);
            if !sums.is_empty() {
                return sums;
            }
        }
    }

    /// Everything that is unsent: the server stops.
    pub(crate) fn rest(&self) -> Vec<AlertNote> {
        self.take(true)
    }

    fn take(&self, all: bool) -> Vec<AlertNote> {
        let now = self.clock.monotonic();
        let mut sums = Vec::new();
        for sum in self.lock().values_mut() {
            if sum.last.is_some() && (all || now.saturating_sub(sum.since) >= self.interval) {
                sum.since = now;
                sums.extend(sum.last.take());
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use clinch_core::ports::Severity;
    use clinch_system::SystemClock;

    use super::*;

    fn letter(domain: &str, code: &str) -> AlertNote {
        AlertNote {
            domain: Some(domain.to_owned()),
            failure_code: Some(code.to_owned()),
            ..AlertNote::new(Severity::Warning, "dead_letter", "an operation FAILED")
        }
    }

    fn alerts(interval: Duration) -> LetterAlerts {
        LetterAlerts::new(Arc::new(SystemClock::new()), interval)
    }

    #[tokio::test]
    async fn core_15_the_first_dead_letter_is_sent_and_the_others_are_one_sum() {
        let alerts = alerts(Duration::from_millis(1));
        assert!(alerts.is_first(&letter("pay", "http_402")));
        assert!(alerts.is_first(&letter("pay", "http_422")), "another code");
        let mut summed = 0;
        for _ in 0..1_000 {
            summed += u64::from(!alerts.is_first(&letter("pay", "http_402")));
        }
        // The interval is short, so that some of them may be a first one of a later interval.
        if summed > 0 {
            let sums = alerts.next_sums().await;
            let [sum] = sums.as_slice() else {
                panic!("{sums:?}")
            };
            assert_eq!(sum.count, summed);
            assert_eq!(sum.failure_code.as_deref(), Some("http_402"));
        }
        assert!(alerts.rest().is_empty(), "each is counted once");
    }

    #[test]
    fn core_15_sums_are_bounded_and_none_is_lost_at_the_end() {
        let alerts = alerts(Duration::from_secs(3_600));
        let mut sent = 0;
        for number in 0..10_000 {
            sent += u64::from(alerts.is_first(&letter(&format!("d{number}"), "http_402")));
        }
        assert!(sent <= PAIRS_MAX as u64 + 1, "{sent}");
        let rest: u64 = alerts.rest().iter().map(|sum| sum.count).sum();
        assert_eq!(sent + rest, 10_000);
    }
}
