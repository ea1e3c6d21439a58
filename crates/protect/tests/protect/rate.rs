//! The rate limiter.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::SplitMix;
use clinch_core::ports::{Clock, RateLimiter, Reason, Rejection, Room};
use clinch_memory::ManualClock;
use clinch_protect::{PERMITS_MAX, PauseOnly, Rate, RateConfig};

use crate::support::{ms, now, secs};

fn rate(permits: u32, per: Duration, burst: u32, wait_max: Duration) -> (Rate, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let config = RateConfig {
        burst: Some(burst),
        wait_max,
        ..RateConfig::new(permits, per)
    };
    let rate = Rate::new(config, clock.clone()).expect("valid");
    (rate, clock)
}

/// The largest number of sends in any stretch of `length`.
fn most_within(sends: &[Duration], length: Duration) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (last, at) in sends.iter().enumerate() {
        while *at - sends[first] >= length {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

#[test]
fn no_stretch_holds_more_than_the_rate() {
    // Intervals that are no whole nanoseconds, and steps of a few: rounding would show.
    let cases = [
        (7, ms(1), 5),
        (3, secs(1), 1),
        (1_000, Duration::from_nanos(7_001), 40),
        (50, secs(1), 50),
    ];
    for (seed, (permits, per, burst)) in (0..).zip(cases) {
        let (rate, clock) = rate(permits, per, burst, per);
        let interval = (per.as_nanos() as u64 / u64::from(permits)).max(1);
        let mut rng = SplitMix::new(seed);
        let mut sends = Vec::new();
        for _ in 0..100_000 {
            // At times a quiet spell, in which the burst comes back.
            let spread = if rng.next_u64().is_multiple_of(500) {
                100
            } else {
                1
            };
            clock.advance(Duration::from_nanos(rng.next_u64() % (spread * interval)));
            if let Ok(wait) = now(rate.reserve()) {
                sends.push(clock.monotonic() + wait);
            }
        }
        assert!(sends.is_sorted());
        for k in 1..=3 {
            let most = most_within(&sends, per * k);
            assert_eq!(
                most,
                (permits * k) as usize,
                "{permits} in {per:?}, {k} times"
            );
        }
    }
}

#[test]
fn it_does_not_drift() {
    // A third of a second is no whole number of nanoseconds.
    let (rate, clock) = rate(3, secs(1), 1, secs(1));
    for place in 0..30_000_u128 {
        let wait = loop {
            match now(rate.reserve()) {
                Ok(wait) => break wait,
                Err(rejection) => clock.advance(rejection.after),
            }
        };
        // Rounded up from the exact moment, never from the moment before.
        let exact = (place * 1_000_000_000).div_ceil(3);
        assert_eq!((clock.monotonic() + wait).as_nanos(), exact);
    }
}

#[test]
fn every_caller_gets_a_moment_of_its_own() {
    let (rate, _) = rate(10, secs(1), 1, secs(60));
    let waits: BTreeSet<_> = (0..64)
        .map(|_| now(rate.reserve()).expect("a moment"))
        .collect();
    let expected: BTreeSet<_> = (0..64).map(|caller| ms(100 * caller)).collect();
    assert_eq!(waits, expected);
}

#[test]
fn a_rejection_reserves_nothing_and_says_exactly_when() {
    let (rate, clock) = rate(10, secs(1), 10, ms(100));
    (0..10).for_each(|_| assert!(now(rate.reserve()).is_ok()));
    let rejection = Rejection {
        reason: Reason::RateLimited,
        after: ms(900),
    };
    (0..1_000).for_each(|_| assert_eq!(now(rate.reserve()), Err(rejection)));
    clock.advance(ms(900) - Duration::from_nanos(1));
    assert!(now(rate.reserve()).is_err(), "a nanosecond early");
    clock.advance(Duration::from_nanos(1));
    assert_eq!(now(rate.reserve()), Ok(ms(100)));
}

#[test]
fn room_is_what_can_be_sent_now() {
    let (rate, clock) = rate(10, secs(1), 4, ms(100));
    for left in (0..=4).rev() {
        let room = Room {
            calls: left,
            reason: Some(Reason::RateLimited),
            again_in: (left == 0).then_some(ms(100)),
        };
        assert_eq!(rate.room(), room);
        let _ = now(rate.reserve());
    }
    assert_eq!(rate.room().again_in, Some(ms(200)), "one is reserved");
    clock.advance(ms(350));
    assert_eq!(rate.room().calls, 2);
    clock.advance(secs(60));
    assert_eq!(rate.room().calls, 4);
}

#[test]
fn nothing_is_sent_before_a_pause_ends_and_no_burst_after() {
    let (rate, clock) = rate(10, secs(1), 10, Duration::ZERO);
    now(rate.pause(secs(5)));
    let paused = Rejection {
        reason: Reason::Paused,
        after: secs(5),
    };
    assert_eq!(now(rate.reserve()), Err(paused));
    assert_eq!(rate.room().reason, Some(Reason::Paused));
    assert_eq!(rate.room().again_in, Some(secs(5)));
    clock.advance(secs(5) - Duration::from_nanos(1));
    assert!(rate.room().is_closed());
    assert!(now(rate.reserve()).is_err());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(rate.room().calls, 1);
    let sent = (0..1_001)
        .filter(|_| {
            let is_sent = now(rate.reserve()).is_ok();
            clock.advance(ms(1));
            is_sent
        })
        .count();
    assert_eq!(
        sent, 11,
        "one at its end and one at its end only, ten in each second"
    );
}

#[test]
fn a_shorter_pause_does_not_end_a_longer_one() {
    let (rate, clock) = rate(10, secs(1), 10, ms(100));
    let only = PauseOnly::new(clock.clone());
    let limiters: [&dyn RateLimiter; 2] = [&rate, &only];
    for limiter in limiters {
        now(limiter.pause(secs(5)));
        now(limiter.pause(secs(1)));
        now(limiter.pause(Duration::ZERO));
        assert_eq!(limiter.room().again_in, Some(secs(5)));
        assert_eq!(now(limiter.reserve()).expect_err("paused").after, secs(5));
        now(limiter.pause(secs(7)));
        assert_eq!(limiter.room().again_in, Some(secs(7)));
    }
}

#[test]
fn a_pause_of_nothing_spends_nothing() {
    let (rate, clock) = rate(10, secs(1), 10, ms(100));
    clock.advance(secs(5));
    now(rate.pause(Duration::ZERO));
    assert_eq!(rate.room().calls, 10);
}

#[test]
fn a_wait_within_the_bound_may_reach_over_the_end_of_a_pause() {
    let (rate, _) = rate(10, secs(1), 10, ms(100));
    now(rate.pause(ms(60)));
    assert_eq!(now(rate.reserve()), Ok(ms(60)));
    let rejection = now(rate.reserve()).expect_err("160 ms");
    assert_eq!(rejection.reason, Reason::Paused);
    assert_eq!(rejection.after, ms(60));
}

#[test]
fn without_a_rate_there_are_pauses_only() {
    let clock = Arc::new(ManualClock::default());
    let only = PauseOnly::new(clock.clone());
    (0..1_000).for_each(|_| assert_eq!(now(only.reserve()), Ok(Duration::ZERO)));
    assert_eq!(only.room(), Room::UNBOUNDED);
    now(only.pause(secs(1)));
    let paused = now(only.reserve()).expect_err("paused");
    assert_eq!((paused.reason, paused.after), (Reason::Paused, secs(1)));
    clock.advance(secs(1));
    assert_eq!(only.room(), Room::UNBOUNDED);
    assert_eq!(now(only.reserve()), Ok(Duration::ZERO));
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let (rate, clock) = rate(PERMITS_MAX, secs(366 * 86_400), u32::MAX, Duration::MAX);
    clock.advance(Duration::MAX / 4);
    now(rate.pause(Duration::MAX));
    assert!(rate.room().is_closed());
    assert!(now(rate.reserve()).is_ok());
    let _ = rate.room();
}

#[test]
fn a_rate_of_nothing_is_refused() {
    let valid = |permits, per| RateConfig::new(permits, per).validate().is_ok();
    assert!(valid(1, Duration::from_nanos(1)));
    assert!(!valid(0, secs(1)));
    assert!(!valid(1, Duration::ZERO));
    assert!(!valid(2, Duration::from_nanos(1)));
    assert!(!valid(1, secs(367 * 86_400)));
    let config = RateConfig {
        burst: Some(0),
        ..RateConfig::new(1, secs(1))
    };
    assert!(config.validate().is_err());
}
