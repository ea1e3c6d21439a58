//! What the engine and people see of a destination.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{CircuitState, Gate, RateLimiter, Reason, Room, Unguarded};
use clinch_memory::ManualClock;
use clinch_protect::{
    BulkheadConfig, CircuitConfig, Destination, DestinationConfig, PauseOnly, RateConfig,
    RatioConfig,
};

use crate::support::{ms, now, secs, trip};

fn destination(config: DestinationConfig) -> (Destination, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let destination = Destination::new("psp", clock.clone(), config).expect("valid");
    (destination, clock)
}

fn all() -> DestinationConfig {
    DestinationConfig {
        concurrency: Some(BulkheadConfig {
            max_concurrent: 8,
            ..BulkheadConfig::default()
        }),
        rate: Some(RateConfig::new(5, secs(1))),
        ..DestinationConfig::default()
    }
}

#[test]
fn room_is_that_of_the_narrowest_guard() {
    let (destination, clock) = destination(all());
    assert_eq!(destination.room().calls, 5);
    assert_eq!(destination.room().reason, Some(Reason::RateLimited));
    let slots: Vec<_> = (0..5)
        .map(|_| now(destination.bulkhead().acquire()))
        .collect();
    assert_eq!(destination.room().calls, 3);
    assert_eq!(destination.room().reason, Some(Reason::BulkheadFull));
    drop(slots);
    trip(&destination);
    clock.advance(secs(30));
    assert_eq!(destination.room().calls, 3, "its trial");
    assert_eq!(destination.room().reason, Some(Reason::BreakerOpen));
}

#[test]
fn of_closed_guards_the_one_that_stays_closed_longest_is_named() {
    let (destination, clock) = destination(all());
    let _slots: Vec<_> = (0..8)
        .map(|_| now(destination.bulkhead().acquire()))
        .collect();
    let full = Room {
        calls: 0,
        reason: Some(Reason::BulkheadFull),
        again_in: None,
    };
    assert_eq!(destination.room(), full);
    now(destination.limiter().pause(secs(10)));
    let paused = Room {
        calls: 0,
        reason: Some(Reason::Paused),
        again_in: Some(secs(10)),
    };
    assert_eq!(destination.room(), paused);
    trip(&destination);
    let open = Room {
        reason: Some(Reason::BreakerOpen),
        again_in: Some(secs(30)),
        ..paused
    };
    assert_eq!(destination.room(), open);
    now(destination.limiter().pause(secs(60)));
    assert_eq!(destination.room().reason, Some(Reason::Paused));
    clock.advance(secs(30));
    assert_eq!(destination.room().again_in, Some(secs(30)));
}

#[test]
fn the_status_names_every_part() {
    let (destination, _) = destination(all());
    let status = destination.status();
    assert_eq!(status.name, "psp");
    assert_eq!(status.breaker, CircuitState::Closed);
    assert_eq!(
        (
            status.room.calls,
            status.concurrency.calls,
            status.rate.calls
        ),
        (5, 8, 5)
    );
    assert_eq!(status.paused, None);
    now(destination.limiter().pause(secs(9)));
    trip(&destination);
    let status = destination.status();
    assert_eq!(status.breaker, CircuitState::Open);
    assert_eq!(status.room.reason, Some(Reason::BreakerOpen));
    assert_eq!(status.paused, Some(secs(9)));
}

#[test]
fn used_up_is_not_paused() {
    let (destination, _) = destination(all());
    (0..5).for_each(|_| assert!(now(destination.limiter().reserve()).is_ok()));
    assert!(destination.status().rate.is_closed());
    assert_eq!(destination.status().paused, None);
}

#[test]
fn retries_are_delayed_by_the_budget() {
    let (destination, _) = destination(all());
    assert_eq!(destination.retry_delay(), ms(100));
    assert_eq!(destination.retry_delay(), ms(200));
}

#[test]
fn core_4_without_guards_only_retry_after_holds() {
    let (destination, _) = destination(DestinationConfig::NONE);
    assert_eq!(destination.room(), Room::UNBOUNDED);
    assert_eq!(destination.retry_delay(), Duration::ZERO);
    now(destination.limiter().pause(secs(1)));
    assert_eq!(destination.room().reason, Some(Reason::Paused));
}

#[test]
fn guards_of_ones_own_are_used() {
    let clock = Arc::new(ManualClock::default());
    let limiter = Arc::new(PauseOnly::new(clock));
    now(limiter.pause(secs(4)));
    let none = || Arc::new(Unguarded);
    let destination = Destination::with("far", none(), none(), limiter, none());
    assert_eq!(destination.destination(), "far");
    assert_eq!(destination.room().again_in, Some(secs(4)));
}

#[test]
fn a_bad_part_is_refused() {
    let clock = || Arc::new(ManualClock::default());
    let refused = |config| {
        Destination::new("psp", clock(), config)
            .err()
            .map(|e| e.field)
    };
    let breaker = CircuitConfig {
        half_open: 0,
        ..CircuitConfig::default()
    };
    let budget = RatioConfig {
        min_per_second: 0,
        ..RatioConfig::default()
    };
    let none = DestinationConfig::NONE;
    assert_eq!(refused(none.clone()), None);
    let breaker = Some(breaker);
    assert_eq!(
        refused(DestinationConfig {
            breaker,
            ..none.clone()
        }),
        Some("half_open")
    );
    let rate = Some(RateConfig::new(0, secs(1)));
    assert_eq!(
        refused(DestinationConfig {
            rate,
            ..none.clone()
        }),
        Some("rate")
    );
    let budget = Some(budget);
    assert_eq!(
        refused(DestinationConfig { budget, ..none }),
        Some("budget")
    );
}
