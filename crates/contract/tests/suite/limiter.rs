//! The area `limiter::` bites: limiters that are wrong in one way each, and the case that must
//! notice (COL-8).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch_contract::{
    BoxFuture, LimiterControl, LimiterFactory, LimiterSubject, check_limiter, limiter_cases,
};
use clinch_core::ports::{Clock, RateLimiter, Reason, Rejection, Room};
use clinch_core::{Error, ErrorKind, Result};
use clinch_memory::ManualClock;
use clinch_protect::RateConfig;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    EachNodeHasItsOwnRate,
    SpacingIsAll,
    BurstIsTheRate,
    WaitsWithoutEnd,
    RejectionsTakeAPlace,
    RoomIsAlwaysOpen,
    PausesStayAtHome,
    TheLastPauseWins,
    ThePauseFillsTheBucket,
    NewNodesKnowNoPause,
    PausesCannotBeEnded,
    OneRateForAll,
    TakesAnything,
}

/// Every flaw with the case that must notice it.
const FLAWS: [(Flaw, &str); 13] = [
    (Flaw::EachNodeHasItsOwnRate, "nodes_share_one_rate_exactly"),
    (Flaw::SpacingIsAll, "no_stretch_has_more_than_the_rate"),
    (Flaw::BurstIsTheRate, "a_burst_of_one_spaces_calls"),
    (
        Flaw::WaitsWithoutEnd,
        "a_wait_is_bounded_and_a_rejection_reserves_nothing",
    ),
    (
        Flaw::RejectionsTakeAPlace,
        "a_wait_is_bounded_and_a_rejection_reserves_nothing",
    ),
    (Flaw::RoomIsAlwaysOpen, "a_used_up_rate_closes_the_room"),
    (Flaw::PausesStayAtHome, "a_pause_closes_every_node_by_push"),
    (
        Flaw::TheLastPauseWins,
        "a_shorter_pause_does_not_end_a_longer_one",
    ),
    (
        Flaw::ThePauseFillsTheBucket,
        "after_a_pause_the_burst_is_spent",
    ),
    (
        Flaw::NewNodesKnowNoPause,
        "a_node_that_starts_learns_of_the_pause",
    ),
    (
        Flaw::PausesCannotBeEnded,
        "the_end_of_a_pause_by_hand_opens_every_node",
    ),
    (Flaw::OneRateForAll, "destinations_have_rates_of_their_own"),
    (
        Flaw::TakesAnything,
        "a_rate_of_nothing_and_a_bad_name_are_refused",
    ),
];

/// What nodes share of a destination.
#[derive(Default)]
struct Bucket {
    arrival: Duration,
    moments: Vec<Duration>,
    paused_until: Duration,
}

type Shared = Arc<Mutex<Bucket>>;

struct World {
    flaw: Flaw,
    clock: Arc<ManualClock>,
    buckets: Mutex<HashMap<String, Shared>>,
}

struct Node {
    flaw: Flaw,
    clock: Arc<ManualClock>,
    bucket: Shared,
    /// Pauses before this node was there.
    deaf_to: Duration,
    rate: Option<RateConfig>,
}

#[async_trait]
impl LimiterControl for World {
    async fn node(
        &self,
        destination: &str,
        rate: Option<&RateConfig>,
    ) -> Result<Arc<dyn RateLimiter>> {
        let is_bad = |rate: &RateConfig| rate.permits == 0 || rate.burst == Some(0);
        let is_bad = destination.is_empty() || destination.len() > 256 || rate.is_some_and(is_bad);
        if is_bad && self.flaw != Flaw::TakesAnything {
            return Err(Error::new(ErrorKind::Invalid, "no rate"));
        }
        let mut buckets = self.buckets.lock().expect("no panic");
        let number = buckets.len();
        let name = match self.flaw {
            Flaw::EachNodeHasItsOwnRate => format!("{destination}-{number}"),
            Flaw::OneRateForAll => String::new(),
            _ => destination.to_owned(),
        };
        let bucket = buckets.entry(name).or_default().clone();
        let is_deaf = self.flaw == Flaw::NewNodesKnowNoPause;
        let paused_until = bucket.lock().expect("no panic").paused_until;
        let home = match self.flaw {
            Flaw::PausesStayAtHome => Shared::default(),
            _ => bucket,
        };
        Ok(Arc::new(Node {
            flaw: self.flaw,
            clock: self.clock.clone(),
            bucket: home,
            deaf_to: if is_deaf {
                paused_until
            } else {
                Duration::ZERO
            },
            rate: rate.cloned(),
        }))
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

impl Node {
    fn paused(&self, bucket: &Bucket) -> Option<Duration> {
        let until = bucket.paused_until;
        let left = until.saturating_sub(self.clock.monotonic());
        (!left.is_zero() && until > self.deaf_to).then_some(left)
    }

    /// How long the next call waits, and for its spacing alone.
    fn wait(&self, rate: &RateConfig, bucket: &Bucket) -> (Duration, Duration) {
        let now = self.clock.monotonic();
        let spaced = bucket.arrival.saturating_sub(tolerance(self.flaw, rate));
        let spaced = spaced.saturating_sub(now);
        let before = bucket.moments.iter().rev().nth(rate.permits as usize - 1);
        let window = before.map_or(Duration::ZERO, |at| (*at + rate.per).saturating_sub(now));
        match self.flaw {
            Flaw::SpacingIsAll => (spaced, spaced),
            _ => (spaced.max(window), spaced),
        }
    }
}

fn spacing(rate: &RateConfig) -> Duration {
    rate.per / rate.permits
}

fn tolerance(flaw: Flaw, rate: &RateConfig) -> Duration {
    let burst = rate.burst.filter(|_| flaw != Flaw::BurstIsTheRate);
    spacing(rate) * (burst.unwrap_or(rate.permits) - 1)
}

#[async_trait]
impl RateLimiter for Node {
    async fn reserve(&self) -> Result<Duration, Rejection> {
        let mut bucket = self.bucket.lock().expect("no panic");
        let rejected = |reason, after| Err(Rejection { reason, after });
        if let Some(left) = self.paused(&bucket) {
            return rejected(Reason::Paused, left);
        }
        let Some(rate) = &self.rate else {
            return Ok(Duration::ZERO);
        };
        let (wait, spaced) = self.wait(rate, &bucket);
        let is_late = wait > rate.wait_max && self.flaw != Flaw::WaitsWithoutEnd;
        if is_late && self.flaw != Flaw::RejectionsTakeAPlace {
            return rejected(Reason::RateLimited, wait - rate.wait_max);
        }
        let now = self.clock.monotonic();
        let from = if wait > spaced { now + wait } else { now };
        bucket.arrival = bucket.arrival.max(from) + spacing(rate);
        bucket.moments.push(now + wait);
        match is_late {
            true => rejected(Reason::RateLimited, wait - rate.wait_max),
            false => Ok(wait),
        }
    }

    async fn pause(&self, lasting: Duration) {
        if lasting.is_zero() {
            return;
        }
        let mut bucket = self.bucket.lock().expect("no panic");
        let until = self.clock.monotonic() + lasting;
        bucket.paused_until = match self.flaw {
            Flaw::TheLastPauseWins => until,
            _ => bucket.paused_until.max(until),
        };
        let spent = self.rate.as_ref().map(|rate| tolerance(self.flaw, rate));
        if self.flaw != Flaw::ThePauseFillsTheBucket {
            let spent = bucket.paused_until + spent.unwrap_or_default();
            bucket.arrival = bucket.arrival.max(spent);
        }
    }

    async fn resume(&self) -> bool {
        let mut bucket = self.bucket.lock().expect("no panic");
        let now = self.clock.monotonic();
        if self.flaw != Flaw::PausesCannotBeEnded && bucket.paused_until > now {
            bucket.paused_until = now;
            let spent = self.rate.as_ref().map(|rate| tolerance(self.flaw, rate));
            bucket.arrival = bucket.arrival.min(now + spent.unwrap_or_default());
        }
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn room(&self) -> Room {
        let bucket = self.bucket.lock().expect("no panic");
        let closed = |reason, again_in| Room {
            calls: 0,
            reason: Some(reason),
            again_in: Some(again_in),
        };
        if let Some(left) = self.paused(&bucket) {
            return closed(Reason::Paused, left);
        }
        match &self.rate {
            Some(rate) if self.flaw != Flaw::RoomIsAlwaysOpen => {
                let (wait, _) = self.wait(rate, &bucket);
                match wait.is_zero() {
                    true => Room::UNBOUNDED,
                    false => closed(Reason::RateLimited, wait),
                }
            }
            _ => Room::UNBOUNDED,
        }
    }
}

fn factory(flaw: Flaw) -> LimiterFactory {
    Arc::new(move || -> BoxFuture<Result<LimiterSubject, String>> {
        Box::pin(async move {
            Ok(Arc::new(World {
                flaw,
                clock: Arc::new(ManualClock::default()),
                buckets: Mutex::default(),
            }) as LimiterSubject)
        })
    })
}

/// Cases that fail on it.
fn failed(flaw: Flaw) -> Vec<&'static str> {
    let factory = factory(flaw);
    let failed = limiter_cases().into_iter();
    let failed = failed.filter(|case| check_limiter(case, &factory).is_err());
    failed.map(|case| case.name).collect()
}

#[test]
fn col_8_a_limiter_that_is_right_passes() {
    assert_eq!(failed(Flaw::None), [""; 0]);
}

#[test]
fn col_8_a_limiter_that_is_wrong_in_one_way_is_noticed() {
    for (flaw, case) in FLAWS {
        let failed = failed(flaw);
        let name = format!("limiter::{case}");
        assert!(failed.contains(&name.as_str()), "{flaw:?}: {failed:?}");
    }
}
