//! The bulkhead.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Bulkhead, Reason, Rejection, Room};
use clinch_memory::ManualClock;
use clinch_protect::{BulkheadConfig, Slots};

use crate::support::{Task, ms, now, secs};

fn slots(max_concurrent: u32, wait_max: Duration, waiters_max: u32) -> (Slots, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let config = BulkheadConfig {
        max_concurrent,
        wait_max,
        waiters_max,
        ..BulkheadConfig::default()
    };
    let slots = Slots::new(config, clock.clone()).expect("valid");
    (slots, clock)
}

const FULL: Rejection = Rejection {
    reason: Reason::BulkheadFull,
    after: ms_const(100),
};

const fn ms_const(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn it_admits_exactly_its_slots() {
    let (slots, _) = slots(3, Duration::ZERO, 64);
    let mut held: Vec<_> = (0..3)
        .map(|_| now(slots.acquire()).expect("slot"))
        .collect();
    assert_eq!(now(slots.acquire()).err(), Some(FULL));
    let full = Room {
        calls: 0,
        reason: Some(Reason::BulkheadFull),
        again_in: None,
    };
    assert_eq!(slots.room(), full);
    held.pop();
    assert_eq!(slots.room().calls, 1);
    assert!(now(slots.acquire()).is_ok());
}

#[test]
fn the_wait_is_bounded() {
    let (slots, clock) = slots(1, ms(50), 64);
    let _held = now(slots.acquire()).expect("slot");
    let mut waiting = Task::new(slots.acquire());
    assert!(waiting.poll().is_none());
    clock.advance(ms(49));
    assert!(waiting.poll().is_none());
    clock.advance(ms(1));
    assert_eq!(waiting.poll().expect("it ends").err(), Some(FULL));
}

#[test]
fn waiters_are_bounded_and_leave_their_place() {
    let (slots, _) = slots(1, secs(1), 2);
    let held = now(slots.acquire()).expect("slot");
    let mut first = Task::new(slots.acquire());
    let mut second = Task::new(slots.acquire());
    assert!(first.poll().is_none() && second.poll().is_none());
    assert_eq!(
        now(slots.acquire()).err(),
        Some(FULL),
        "a third is too many"
    );
    drop(first);
    let mut third = Task::new(slots.acquire());
    assert!(third.poll().is_none(), "there is a place again");
    drop(held);
    assert!(third.poll().is_none(), "it came later");
    assert!(second.poll().expect("first in line").is_ok());
}

#[test]
fn first_come_is_first_served() {
    let (slots, _) = slots(1, secs(1), 64);
    let held = now(slots.acquire()).expect("slot");
    let mut waiting: Vec<_> = (0..8).map(|_| Task::new(slots.acquire())).collect();
    waiting
        .iter_mut()
        .for_each(|task| assert!(task.poll().is_none()));
    drop(held);
    for place in 0..8 {
        for later in &mut waiting[place + 1..] {
            assert!(later.poll().is_none(), "nobody overtakes");
        }
        assert!(slots.room().is_closed(), "a freed slot is the next one's");
        assert!(waiting[place].poll().expect("its turn").is_ok());
    }
}

#[test]
fn a_bulkhead_without_slots_is_refused() {
    let config = |max_concurrent| BulkheadConfig {
        max_concurrent,
        ..BulkheadConfig::default()
    };
    assert!(config(1).validate().is_ok());
    assert!(config(0).validate().is_err());
    assert!(config(65_537).validate().is_err());
}
