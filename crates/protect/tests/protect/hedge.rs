//! Copies of slow calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clinch_core::ports::{CircuitState, Executor, Gate, HedgePolicy};
use clinch_core::{Outcome, Payload, Retry, Success};
use clinch_protect::{
    BulkheadConfig, Chain, CircuitConfig, DestinationConfig, Hedge, RateConfig, RatioConfig,
    Timeouts, Window,
};

use crate::support::{
    Lease, Rig, Task, envelope, fail, ms, not_applied, not_called, now, ok, secs, unknown,
};

/// A breaker that opens on the first failure.
fn touchy(slots: u32) -> Rig {
    Rig::new(DestinationConfig {
        breaker: Some(CircuitConfig {
            window: Window::Count(1),
            min_calls: 1,
            ..CircuitConfig::default()
        }),
        concurrency: Some(BulkheadConfig {
            max_concurrent: slots,
            ..BulkheadConfig::default()
        }),
        ..DestinationConfig::NONE
    })
}

fn unguarded() -> Rig {
    Rig::new(DestinationConfig::NONE)
}

fn hedged(rig: &Rig, copies_max: u32) -> Chain {
    rig.chain().hedge(Arc::new(Hedge {
        after: ms(300),
        copies_max,
    }))
}

fn named(name: &str) -> Outcome {
    let payload = Payload::parse(&format!("\"{name}\""), 100).expect("json");
    Outcome::Ok(Success::new(payload))
}

#[test]
fn a_slow_call_gets_a_copy_and_the_first_ok_wins() {
    let rig = touchy(8);
    rig.provider.then(secs(2), named("first"));
    rig.provider.then(ms(100), named("second"));
    assert_eq!(rig.run(&hedged(&rig, 2), 1), named("second"));
    assert_eq!(rig.provider.calls(), [ms(0), ms(300)]);
    assert_eq!(
        rig.provider.open.load(Ordering::SeqCst),
        0,
        "the loser is dropped"
    );
    assert_eq!(rig.destination.bulkhead().room().calls, 8);
}

#[test]
fn losing_is_not_failing() {
    let rig = touchy(8);
    rig.provider.then(secs(2), ok());
    rig.provider.then(ms(100), ok());
    assert_eq!(rig.run(&hedged(&rig, 2), 1), ok());
    assert_eq!(rig.destination.breaker().state(), CircuitState::Closed);
    // In a trial too: the loser's permit is there again.
    rig.provider.then(ms(0), unknown());
    rig.run(&rig.chain(), 1);
    rig.clock.advance(secs(30));
    rig.provider.then(secs(2), ok());
    rig.provider.then(ms(100), ok());
    assert_eq!(rig.run(&hedged(&rig, 2), 1), ok());
    assert_eq!(rig.destination.breaker().room().calls, 2);
}

#[test]
fn a_quick_answer_gets_no_copy() {
    let rig = unguarded();
    for answer in [ok(), fail(), unknown(), not_applied()] {
        rig.provider.then(ms(299), answer.clone());
        assert_eq!(
            rig.run(&hedged(&rig, 2), 1),
            answer,
            "failures are not hedged"
        );
    }
    assert_eq!(rig.provider.calls().len(), 4);
}

#[test]
fn copies_are_sent_one_after_another_up_to_their_number() {
    let rig = unguarded();
    (0..5).for_each(|_| rig.provider.then(secs(2), ok()));
    assert_eq!(rig.run(&hedged(&rig, 4), 1), ok());
    assert_eq!(rig.provider.calls(), [ms(0), ms(300), ms(600), ms(900)]);
}

/// Never says that it is enough.
struct Boundless;

impl HedgePolicy for Boundless {
    fn after(&self, _copies_sent: u32) -> Option<Duration> {
        Some(ms(300))
    }
    fn copies_max(&self) -> u32 {
        2
    }
}

#[test]
fn no_policy_sends_more_copies_than_its_number() {
    let rig = unguarded();
    (0..5).for_each(|_| rig.provider.then(secs(2), ok()));
    assert_eq!(rig.run(&rig.chain().hedge(Arc::new(Boundless)), 1), ok());
    assert_eq!(rig.provider.calls().len(), 2);
}

#[test]
fn a_copy_without_a_permit_is_forgotten() {
    let rig = touchy(1);
    rig.provider.then(secs(2), ok());
    assert_eq!(rig.run(&hedged(&rig, 3), 1), ok());
    assert_eq!(rig.provider.calls(), [ms(0)]);
    rig.provider.then(secs(2), not_applied());
    assert_eq!(
        rig.run(&hedged(&rig, 3), 1),
        not_applied(),
        "its delay as well"
    );
}

#[test]
fn a_first_copy_without_a_permit_ends_the_attempt_at_once() {
    let rig = touchy(1);
    let _slot = now(rig.destination.bulkhead().acquire()).expect("slot");
    let outcome = now(hedged(&rig, 3).execute(&envelope(1), &rig.attempt));
    assert_eq!(outcome, not_called("bulkhead_full", ms(100)));
}

#[test]
fn without_an_ok_all_copies_are_joined() {
    let cases = [
        (unknown(), fail(), unknown()),
        (fail(), unknown(), unknown()),
        (fail(), not_applied(), fail()),
        (not_applied(), fail(), fail()),
        (unknown(), not_applied(), unknown()),
    ];
    for (first, second, expected) in cases {
        let rig = unguarded();
        rig.provider.then(ms(500), first);
        rig.provider.then(ms(1_000), second);
        assert_eq!(rig.run(&hedged(&rig, 3), 1), expected);
        assert_eq!(
            rig.provider.calls().len(),
            2,
            "a failure was seen: no third"
        );
    }
}

#[test]
fn an_ok_after_a_failure_wins() {
    let rig = unguarded();
    rig.provider.then(ms(500), fail());
    rig.provider.then(ms(1_000), ok());
    assert_eq!(rig.run(&hedged(&rig, 2), 1), ok());
}

#[test]
fn a_copy_that_still_runs_at_the_end_of_the_time_is_unknown() {
    let limits = Arc::new(Timeouts {
        per_attempt: secs(20),
        total: secs(20),
    });
    let rig = unguarded();
    rig.provider.then(secs(1), fail());
    rig.provider.then(secs(60), ok());
    let outcome = rig.run(&hedged(&rig, 2).timeouts(limits), 1);
    assert_eq!(outcome, Outcome::Retry(Retry::unknown("timeout")));
}

#[test]
fn a_copy_that_never_called_leaves_the_answer_of_the_other() {
    let limits = Arc::new(Timeouts {
        per_attempt: secs(2),
        total: secs(2),
    });
    let rig = Rig::new(DestinationConfig {
        rate: Some(RateConfig {
            burst: Some(1),
            wait_max: secs(60),
            ..RateConfig::new(1, secs(10))
        }),
        ..DestinationConfig::NONE
    });
    rig.provider.then(secs(1), fail());
    // The second copy waits for its moment when the time is over.
    assert_eq!(rig.run(&hedged(&rig, 2).timeouts(limits), 1), fail());
}

#[test]
fn the_wait_for_permits_is_not_hedged() {
    let rig = Rig::new(DestinationConfig {
        rate: Some(RateConfig {
            burst: Some(1),
            wait_max: secs(60),
            ..RateConfig::new(1, secs(1))
        }),
        ..DestinationConfig::NONE
    });
    assert!(now(rig.destination.limiter().reserve()).is_ok());
    rig.provider.then(ms(100), ok());
    assert_eq!(rig.run(&hedged(&rig, 2), 1), ok());
    assert_eq!(rig.provider.calls(), [secs(1)]);
    assert_eq!(
        rig.destination.room().calls,
        0,
        "one permit was taken, not two"
    );
    rig.clock.advance(ms(900));
    assert_eq!(rig.destination.room().calls, 1);
}

#[test]
fn no_copy_is_sent_after_a_cancel_or_without_the_lease() {
    let stops: [fn(&Lease) -> &AtomicBool; 2] =
        [|lease| &lease.is_canceled, |lease| &lease.is_lost];
    for stop in stops {
        let rig = unguarded();
        rig.provider.then(secs(1), ok());
        let (chain, envelope) = (hedged(&rig, 2), envelope(1));
        let mut running = Task::new(chain.execute(&envelope, &rig.attempt));
        assert!(running.poll().is_none());
        stop(&rig.lease).store(true, Ordering::SeqCst);
        assert_eq!(running.finish(&rig.clock), ok(), "an Ok still wins");
        assert_eq!(rig.provider.calls().len(), 1);
    }
}

#[test]
fn an_attempt_pays_into_the_budget_once() {
    let rig = Rig::new(DestinationConfig {
        budget: Some(RatioConfig {
            ratio: 1.0,
            ..RatioConfig::default()
        }),
        ..DestinationConfig::NONE
    });
    (0..3).for_each(|_| rig.provider.then(secs(1), ok()));
    rig.run(&hedged(&rig, 3), 1);
    assert_eq!(rig.destination.retry_delay(), ms(0));
    assert_eq!(rig.destination.retry_delay(), ms(100));
}

#[test]
fn retry_after_of_one_copy_pauses_though_another_wins() {
    let rig = unguarded();
    let later = Outcome::Retry(Retry::not_applied("http_429").retry_after(secs(60)));
    rig.provider.then(ms(400), later);
    rig.provider.then(ms(400), ok());
    assert_eq!(rig.run(&hedged(&rig, 2), 1), ok());
    assert_eq!(rig.destination.status().paused, Some(ms(59_700)));
}

#[test]
fn a_panic_of_one_copy_leaks_no_permit() {
    let rig = touchy(8);
    rig.provider.then(secs(2), ok());
    rig.provider.then_panics();
    let chain = hedged(&rig, 2);
    assert!(catch_unwind(AssertUnwindSafe(|| rig.run(&chain, 1))).is_err());
    assert_eq!(rig.destination.bulkhead().room().calls, 8);
    assert_eq!(rig.destination.breaker().state(), CircuitState::Open);
}
