//! Answers of our own.

use std::sync::Arc;

use clinch_core::ports::{Reason, Room};
use clinch_core::{Outcome, Payload, Retry, Success};
use clinch_protect::{
    BulkheadConfig, Chain, CircuitConfig, Constant, DestinationConfig, RateConfig, from_fn,
};

use crate::support::{Rig, fail, ms, not_applied, not_called, now, ok, secs, trip, unknown};

fn rig() -> Rig {
    Rig::new(DestinationConfig {
        breaker: Some(CircuitConfig::default()),
        concurrency: Some(BulkheadConfig {
            max_concurrent: 1,
            ..BulkheadConfig::default()
        }),
        rate: Some(RateConfig::new(100, secs(1))),
        budget: None,
    })
}

fn own() -> Payload {
    Payload::parse("\"ours\"", 100).expect("json")
}

fn with_fallback(rig: &Rig) -> Chain {
    rig.chain().fallback(Arc::new(Constant(own())))
}

fn ours() -> Outcome {
    Outcome::Ok(Success::new(own()))
}

#[test]
fn the_last_attempt_falls_back_and_earlier_ones_do_not() {
    let rig = rig();
    for answer in [unknown(), not_applied()] {
        rig.provider.then(ms(0), answer.clone());
        assert_eq!(rig.run(&with_fallback(&rig), 4), answer);
        rig.provider.then(ms(0), answer);
        assert_eq!(rig.run(&with_fallback(&rig), 5), ours());
    }
}

#[test]
fn an_answer_of_the_provider_stands() {
    let rig = rig();
    for answer in [ok(), fail()] {
        rig.provider.then(ms(0), answer.clone());
        assert_eq!(rig.run(&with_fallback(&rig), 5), answer);
    }
}

#[test]
fn an_open_breaker_falls_back_on_every_attempt() {
    let rig = rig();
    for _ in 0..9 {
        rig.provider.then(ms(0), unknown());
        assert_eq!(rig.run(&with_fallback(&rig), 1), unknown());
    }
    rig.provider.then(ms(0), unknown());
    assert_eq!(
        rig.run(&with_fallback(&rig), 1),
        ours(),
        "this one opened it"
    );
    assert_eq!(rig.run(&with_fallback(&rig), 1), ours());
    assert_eq!(rig.provider.calls().len(), 10);
    assert_eq!(
        rig.run(&rig.chain(), 1),
        not_called("breaker_open", secs(30))
    );
}

#[test]
fn a_trial_without_permits_falls_back_too() {
    let rig = rig();
    for _ in 0..10 {
        rig.provider.then(ms(0), unknown());
        rig.run(&rig.chain(), 1);
    }
    rig.clock.advance(secs(30));
    let _trial: Vec<_> = (0..3)
        .map(|_| rig.destination.breaker().try_acquire())
        .collect();
    assert_eq!(rig.run(&with_fallback(&rig), 1), ours());
}

#[test]
fn our_other_rejections_do_not_fall_back() {
    let rig = rig();
    let slot = now(rig.destination.bulkhead().acquire()).expect("slot");
    assert_eq!(
        rig.run(&with_fallback(&rig), 5),
        not_called("bulkhead_full", ms(100))
    );
    drop(slot);
    rig.lease
        .is_canceled
        .store(true, std::sync::atomic::Ordering::SeqCst);
    let canceled = Outcome::Retry(Retry::not_called("canceled"));
    assert_eq!(rig.run(&with_fallback(&rig), 5), canceled);
}

#[test]
fn a_function_may_decline() {
    let rig = rig();
    let chain = rig.chain().fallback(Arc::new(from_fn(|command| {
        let is_ours = command.keys.biz_key.as_str() == "another";
        is_ours.then(own)
    })));
    rig.provider.then(ms(0), unknown());
    assert_eq!(rig.run(&chain, 5), unknown());
    let chain = rig
        .chain()
        .fallback(Arc::new(from_fn(|command| Some(command.payload.clone()))));
    rig.provider.then(ms(0), unknown());
    assert_eq!(rig.run(&chain, 5), ok());
}

#[test]
fn with_a_fallback_an_open_breaker_does_not_keep_operations_from_being_claimed() {
    let rig = rig();
    trip(&rig.destination);
    now(rig.destination.limiter().pause(secs(60)));
    assert!(rig.chain().gate().room().is_closed());
    let gate = with_fallback(&rig).gate();
    assert_eq!(gate.room(), Room::UNBOUNDED);
    assert_eq!(gate.destination(), "psp with fallback");
    rig.clock.advance(secs(30)); // a trial may begin
    assert_eq!(
        gate.room().reason,
        Some(Reason::Paused),
        "a pause still does"
    );
}
