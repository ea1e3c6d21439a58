//! The last hour of this process in one-minute buckets, for `GET /v1/overview`.
//!
//! A [`Meter`] that the engine reports to, by domain. Nothing is read from the store and there is
//! no timer: a bucket begins with the first report or reading of its minute.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::Timestamp;
use clinch_core::ports::{Clock, Meter, MetricLabels};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::write_time;

/// Minutes that are kept.
pub(crate) const MINUTES: usize = 60;
/// Domains that are counted apart; the reports of others are counted together, without a domain.
const DOMAINS_MAX: usize = 256;
const MINUTE_MS: i64 = 60_000;

/// Steps per doubling of a duration: a percentile is at most 9 % too high.
const STEPS: f64 = 8.0;
/// Durations below this are one step: no operation is faster.
const SHORTEST: Duration = Duration::from_micros(100);

/// The last 60 minutes of this process, the oldest first. The last minute is not over yet.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct HistoryDocument {
    /// The beginning of the first minute.
    pub(crate) from: String,
    /// One entry for each minute, the oldest first.
    pub(crate) minutes: Vec<MinuteDocument>,
    /// Over the whole time.
    pub(crate) end_to_end: PercentilesDocument,
    /// Over the whole time.
    pub(crate) calls: PercentilesDocument,
}

/// One minute of this process.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct MinuteDocument {
    /// Operations that were accepted.
    pub(crate) accepted: u64,
    /// Calls that the provider confirmed.
    pub(crate) completed: u64,
    /// Operations that ended FAILED other than by cancel; for a key with a restriction: calls that
    /// the provider refused.
    pub(crate) failed: u64,
    /// Calls that are to be repeated.
    pub(crate) retried: u64,
    /// From accept to the end of an operation.
    pub(crate) end_to_end: PercentilesDocument,
    /// Calls to providers.
    pub(crate) calls: PercentilesDocument,
}

/// Percentiles of durations, at most 9 % too high; null: nothing was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct PercentilesDocument {
    /// How many durations were measured.
    pub(crate) count: u64,
    /// Half of them took no longer, in milliseconds.
    pub(crate) p50_ms: Option<u64>,
    /// 95 % of them took no longer, in milliseconds.
    pub(crate) p95_ms: Option<u64>,
    /// 99 % of them took no longer, in milliseconds.
    pub(crate) p99_ms: Option<u64>,
}

/// Cheap to clone; clones share the same buckets.
#[derive(Clone)]
pub(crate) struct History(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    /// The wall clock and the monotonic clock at the start: the minutes of a clock that is set
    /// later do not jump.
    start: (Timestamp, Duration),
    domains: Mutex<BTreeMap<String, Ring>>,
}

#[derive(Default)]
struct Ring {
    /// By minute modulo [`MINUTES`].
    buckets: Vec<(i64, Bucket)>,
}

#[derive(Debug, Clone, Default)]
struct Bucket {
    accepted: u64,
    completed: u64,
    refused: u64,
    dead: u64,
    retried: u64,
    end_to_end: Durations,
    calls: Durations,
}

/// How many durations fell into each step. At most 256 steps cover every duration.
#[derive(Debug, Clone, Default)]
struct Durations(BTreeMap<u8, u64>);

impl Durations {
    fn add(&mut self, value: Duration) {
        *self.0.entry(step(value)).or_default() += 1;
    }

    fn merge(&mut self, other: &Self) {
        for (step, count) in &other.0 {
            *self.0.entry(*step).or_default() += count;
        }
    }

    fn percentiles(&self) -> PercentilesDocument {
        let count: u64 = self.0.values().sum();
        let at = |hundredths: u64| {
            let rank = (count * hundredths).div_ceil(100).max(1);
            let mut seen = 0;
            let found = self.0.iter().find(|(_, count)| {
                seen += **count;
                seen >= rank
            });
            found.map(|(step, _)| upper_ms(*step))
        };
        PercentilesDocument {
            count,
            p50_ms: at(50),
            p95_ms: at(95),
            p99_ms: at(99),
        }
    }
}

fn step(value: Duration) -> u8 {
    let ratio = value.as_secs_f64() / SHORTEST.as_secs_f64();
    // `as` saturates: a duration beyond every step is in the last one.
    (ratio.max(1.0).log2() * STEPS).ceil() as u8
}

fn upper_ms(step: u8) -> u64 {
    let ms = SHORTEST.as_secs_f64() * 1_000.0 * (f64::from(step) / STEPS).exp2();
    ms.ceil() as u64
}

impl Bucket {
    fn merge(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.completed += other.completed;
        self.refused += other.refused;
        self.dead += other.dead;
        self.retried += other.retried;
        self.end_to_end.merge(&other.end_to_end);
        self.calls.merge(&other.calls);
    }
}

impl Ring {
    fn bucket(&mut self, minute: i64) -> &mut Bucket {
        if self.buckets.is_empty() {
            self.buckets = vec![(i64::MIN, Bucket::default()); MINUTES];
        }
        let place = usize::try_from(minute.rem_euclid(MINUTES as i64)).unwrap_or_default();
        let (at, bucket) = &mut self.buckets[place];
        if *at != minute {
            *at = minute;
            *bucket = Bucket::default();
        }
        bucket
    }
}

impl History {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let start = (clock.now(), clock.monotonic());
        Self(Arc::new(Inner {
            clock,
            start,
            domains: Mutex::default(),
        }))
    }

    fn domains(&self) -> MutexGuard<'_, BTreeMap<String, Ring>> {
        let domains = self.0.domains.lock();
        domains.unwrap_or_else(PoisonError::into_inner)
    }

    /// How long this process has run.
    pub(crate) fn uptime(&self) -> Duration {
        let (_, began) = self.0.start;
        self.0.clock.monotonic().saturating_sub(began)
    }

    fn minute(&self) -> i64 {
        let (start, _) = self.0.start;
        (start + self.uptime()).as_millis().div_euclid(MINUTE_MS)
    }

    fn note(&self, labels: MetricLabels<'_>, change: impl FnOnce(&mut Bucket)) {
        let minute = self.minute();
        let domain = labels.iter().find(|(name, _)| *name == "domain");
        let domain = domain.map_or("", |(_, domain)| domain);
        let mut domains = self.domains();
        let is_full = domains.len() >= DOMAINS_MAX && !domains.contains_key(domain);
        let domain = if is_full { "" } else { domain };
        let ring = match domains.get_mut(domain) {
            Some(ring) => ring,
            None => domains.entry(domain.to_owned()).or_default(),
        };
        change(ring.bucket(minute));
    }

    /// The last hour of the domains that `shows` selects; `None`: of all, and of reports without a
    /// domain.
    pub(crate) fn read(&self, shows: Option<&dyn Fn(&str) -> bool>) -> HistoryDocument {
        let last = self.minute();
        let first = last - MINUTES as i64 + 1;
        let mut minutes = vec![Bucket::default(); MINUTES];
        let domains = self.domains();
        for (_, ring) in domains.iter().filter(|(domain, _)| match shows {
            Some(shows) => !domain.is_empty() && shows(domain),
            None => true,
        }) {
            for (at, bucket) in &ring.buckets {
                let place = usize::try_from(at.saturating_sub(first)).ok();
                if let Some(minute) = place.and_then(|place| minutes.get_mut(place)) {
                    minute.merge(bucket);
                }
            }
        }
        drop(domains);
        let mut all = Bucket::default();
        minutes.iter().for_each(|minute| all.merge(minute));
        let failed = |minute: &Bucket| match shows {
            Some(_) => minute.dead.max(minute.refused),
            None => minute.dead,
        };
        let document = |minute: &Bucket| MinuteDocument {
            accepted: minute.accepted,
            completed: minute.completed,
            failed: failed(minute),
            retried: minute.retried,
            end_to_end: minute.end_to_end.percentiles(),
            calls: minute.calls.percentiles(),
        };
        HistoryDocument {
            from: write_time(Timestamp::from_millis(first * MINUTE_MS)),
            minutes: minutes.iter().map(document).collect(),
            end_to_end: all.end_to_end.percentiles(),
            calls: all.calls.percentiles(),
        }
    }
}

impl Meter for History {
    fn add(&self, counter: &'static str, labels: MetricLabels<'_>, count: u64) {
        let pick: fn(&mut Bucket) -> &mut u64 = match counter {
            "orchestrator.accept.count" => |bucket| &mut bucket.accepted,
            "orchestrator.pump.outcome.ok.count" => |bucket| &mut bucket.completed,
            "orchestrator.pump.outcome.fail.count" => |bucket| &mut bucket.refused,
            "orchestrator.dlq.count" => |bucket| &mut bucket.dead,
            "orchestrator.pump.outcome.retry.count" => |bucket| &mut bucket.retried,
            _ => return,
        };
        self.note(labels, |bucket| *pick(bucket) += count);
    }

    fn record(&self, histogram: &'static str, labels: MetricLabels<'_>, value: Duration) {
        let pick: fn(&mut Bucket) -> &mut Durations = match histogram {
            "orchestrator.end_to_end.duration" => |bucket| &mut bucket.end_to_end,
            "orchestrator.execute.duration" => |bucket| &mut bucket.calls,
            _ => return,
        };
        self.note(labels, |bucket| pick(bucket).add(value));
    }

    fn set(&self, _gauge: &'static str, _labels: MetricLabels<'_>, _value: f64) {}
}

#[cfg(test)]
mod tests {
    use clinch_memory::ManualClock;

    use super::*;

    const PAY: MetricLabels<'static> = &[("domain", "pay")];

    #[test]
    fn a_percentile_is_at_most_nine_percent_too_high() {
        let mut durations = Durations::default();
        for ms in 1..=1_000 {
            durations.add(Duration::from_millis(ms));
        }
        let found = durations.percentiles();
        for (expected, found) in [
            (500, found.p50_ms),
            (950, found.p95_ms),
            (990, found.p99_ms),
        ] {
            let found = found.expect("measured");
            assert!(found >= expected, "{found} for {expected}");
            assert!(
                found as f64 <= expected as f64 * 1.1,
                "{found} for {expected}"
            );
        }
        assert_eq!(step(Duration::MAX), u8::MAX);
    }

    #[test]
    fn a_minute_is_counted_once_and_forgotten_after_an_hour() {
        let clock = Arc::new(ManualClock::default());
        let history = History::new(clock.clone());
        history.add("orchestrator.accept.count", PAY, 3);
        history.record("orchestrator.execute.duration", PAY, Duration::from_secs(1));
        let read = history.read(None);
        assert_eq!(read.minutes.len(), MINUTES);
        assert_eq!(read.minutes[MINUTES - 1].accepted, 3);
        assert_eq!(read.calls.count, 1);
        clock.advance(Duration::from_secs(59 * 60));
        assert_eq!(history.read(None).minutes[0].accepted, 3);
        clock.advance(Duration::from_secs(60));
        let read = history.read(None);
        assert!(read.minutes.iter().all(|minute| minute.accepted == 0));
        assert_eq!(read.calls.count, 0);
    }

    #[test]
    fn core_16_a_restricted_key_reads_the_history_of_its_domains_only() {
        let history = History::new(Arc::new(ManualClock::default()));
        history.add("orchestrator.accept.count", PAY, 3);
        history.add("orchestrator.accept.count", &[("domain", "ship")], 5);
        history.add("orchestrator.dlq.count", &[], 7);
        let accepted = |read: HistoryDocument| read.minutes[MINUTES - 1].accepted;
        assert_eq!(accepted(history.read(Some(&|domain| domain == "pay"))), 3);
        assert_eq!(accepted(history.read(None)), 8);
        assert_eq!(history.read(None).minutes[MINUTES - 1].failed, 7);
    }

    #[test]
    fn domains_beyond_the_bound_are_counted_together() {
        let history = History::new(Arc::new(ManualClock::default()));
        for number in 0..DOMAINS_MAX + 50 {
            let domain = format!("d{number}");
            let labels = [("domain", domain.as_str())];
            history.add("orchestrator.accept.count", &labels, 1);
        }
        assert!(history.domains().len() <= DOMAINS_MAX + 1);
        let read = history.read(None);
        assert_eq!(read.minutes[MINUTES - 1].accepted, DOMAINS_MAX as u64 + 50);
    }
}
