//! One copy inside its guards: timeouts, verdicts, permits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::policy::RetryRules;
use clinch_core::ports::{CircuitState, Executor, Gate, Reason};
use clinch_core::{Outcome, Retry};
use clinch_protect::{
    BulkheadConfig, CircuitConfig, DestinationConfig, RateConfig, RatioConfig, Timeouts, Window,
};

use crate::support::{
    Rig, Task, envelope, fail, ms, not_applied, not_called, now, ok, secs, unknown,
};

/// A breaker that opens on the first failure, one slot, and no rate.
fn touchy() -> DestinationConfig {
    DestinationConfig {
        breaker: Some(CircuitConfig {
            window: Window::Count(1),
            min_calls: 1,
            ..CircuitConfig::default()
        }),
        concurrency: Some(BulkheadConfig {
            max_concurrent: 1,
            ..BulkheadConfig::default()
        }),
        ..DestinationConfig::NONE
    }
}

fn state(rig: &Rig) -> CircuitState {
    rig.destination.breaker().state()
}

/// The one slot of [`touchy`] is free.
fn is_slot_free(rig: &Rig) -> bool {
    rig.destination.bulkhead().room().calls == 1
}

#[test]
fn an_answer_passes_through_and_counts_as_one() {
    for answer in [ok(), fail()] {
        let rig = Rig::new(touchy());
        rig.provider.then(ms(10), answer.clone());
        assert_eq!(rig.run(&rig.chain(), 1), answer);
        assert_eq!(state(&rig), CircuitState::Closed);
        assert!(is_slot_free(&rig));
    }
}

#[test]
fn a_retry_counts_against_the_provider() {
    for answer in [unknown(), not_applied()] {
        let rig = Rig::new(touchy());
        rig.provider.then(ms(10), answer.clone());
        assert_eq!(rig.run(&rig.chain(), 1), answer);
        assert_eq!(state(&rig), CircuitState::Open);
        assert!(is_slot_free(&rig));
    }
}

#[test]
fn a_retry_of_its_own_does_not_count_against_the_provider() {
    for own in [Retry::unknown("502").own(), Retry::not_applied("502").own()] {
        let rig = Rig::new(touchy());
        let answer = Outcome::Retry(own);
        rig.provider.then(ms(10), answer.clone());
        assert_eq!(rig.run(&rig.chain(), 1), answer);
        assert_eq!(state(&rig), CircuitState::Closed);
        assert!(is_slot_free(&rig));
    }
}

#[test]
fn a_call_that_the_executor_did_not_make_does_not_count() {
    let rig = Rig::new(touchy());
    rig.provider.then(ms(10), not_called("refused", ms(1)));
    assert_eq!(rig.run(&rig.chain(), 1), not_called("refused", ms(1)));
    assert_eq!(state(&rig), CircuitState::Closed);
}

#[test]
fn a_call_over_its_time_is_unknown_and_counts() {
    let rig = Rig::new(touchy());
    rig.provider.then(secs(60), ok());
    assert_eq!(
        rig.run(&rig.chain(), 1),
        Outcome::Retry(Retry::unknown("timeout"))
    );
    assert_eq!(state(&rig), CircuitState::Open);
    assert_eq!(rig.provider.open.load(Ordering::SeqCst), 0, "it is cut off");
    assert!(is_slot_free(&rig));
    assert_eq!(
        rig.destination.room().again_in,
        Some(secs(30)),
        "after 3 s, not 60"
    );
}

#[test]
fn the_total_time_after_the_call_is_unknown_and_counts() {
    let rig = Rig::new(touchy());
    rig.provider.then(secs(60), ok());
    let chain = rig.chain().timeouts(Arc::new(Timeouts {
        per_attempt: secs(50),
        total: secs(5),
    }));
    assert_eq!(
        rig.run(&chain, 1),
        Outcome::Retry(Retry::unknown("timeout"))
    );
    assert_eq!(state(&rig), CircuitState::Open);
    assert!(is_slot_free(&rig));
}

#[test]
fn the_total_time_before_the_call_is_not_called_and_does_not_count() {
    let mut config = touchy();
    config.concurrency = Some(BulkheadConfig {
        max_concurrent: 1,
        wait_max: secs(100),
        ..BulkheadConfig::default()
    });
    let rig = Rig::new(config);
    let slot = now(rig.destination.bulkhead().acquire()).expect("slot");
    assert_eq!(
        rig.run(&rig.chain(), 1),
        Outcome::Retry(Retry::not_called("timeout"))
    );
    assert_eq!(state(&rig), CircuitState::Closed);
    assert_eq!(rig.provider.calls(), []);
    drop(slot);
    assert!(is_slot_free(&rig));
}

#[test]
fn a_rejected_trial_call_gives_its_permit_back() {
    let rig = Rig::new(touchy());
    rig.provider.then(ms(0), unknown());
    rig.run(&rig.chain(), 1);
    rig.clock.advance(secs(30));
    let slot = now(rig.destination.bulkhead().acquire()).expect("slot");
    for _ in 0..10 {
        assert_eq!(
            rig.run(&rig.chain(), 1),
            not_called("bulkhead_full", ms(100))
        );
    }
    assert_eq!(rig.destination.breaker().room().calls, 3);
    drop(slot);
    (0..3).for_each(|_| assert_eq!(rig.run(&rig.chain(), 1), ok()));
    assert_eq!(state(&rig), CircuitState::Closed);
}

#[test]
fn a_rate_that_is_used_up_is_not_called() {
    let rig = Rig::new(DestinationConfig {
        rate: Some(RateConfig {
            burst: Some(1),
            ..RateConfig::new(1, secs(10))
        }),
        ..touchy()
    });
    assert_eq!(rig.run(&rig.chain(), 1), ok());
    let expected = not_called("rate_limited", ms(9_900));
    assert_eq!(
        now(rig.chain().execute(&envelope(1), &rig.attempt)),
        expected
    );
    assert_eq!(state(&rig), CircuitState::Closed);
    assert!(is_slot_free(&rig));
}

/// The second call waits 100 ms for its moment; `meanwhile` happens in them.
fn after_a_wait(meanwhile: impl Fn(&Rig)) -> (Rig, Outcome) {
    let rig = Rig::new(DestinationConfig {
        rate: Some(RateConfig {
            burst: Some(1),
            ..RateConfig::new(10, secs(1))
        }),
        ..touchy()
    });
    let chain = rig.chain();
    let (first, second) = (envelope(1), envelope(1));
    assert_eq!(now(chain.execute(&first, &rig.attempt)), ok());
    let mut waiting = Task::new(chain.execute(&second, &rig.attempt));
    assert!(waiting.poll().is_none());
    rig.clock.advance(ms(99));
    assert!(waiting.poll().is_none());
    meanwhile(&rig);
    rig.clock.advance(ms(1));
    let outcome = waiting.poll().expect("its moment has come");
    drop(waiting);
    (rig, outcome)
}

#[test]
fn a_reserved_moment_is_waited_for() {
    let (rig, outcome) = after_a_wait(|_| {});
    assert_eq!(outcome, ok());
    assert_eq!(rig.provider.calls(), [ms(0), ms(100)]);
}

#[test]
fn a_lease_lost_in_the_wait_is_not_called() {
    let (rig, outcome) = after_a_wait(|rig| rig.lease.is_lost.store(true, Ordering::SeqCst));
    assert_eq!(outcome, Outcome::Retry(Retry::not_called("lease_lost")));
    assert_eq!(rig.provider.calls().len(), 1);
    assert_eq!(state(&rig), CircuitState::Closed);
}

#[test]
fn a_cancel_in_the_wait_is_not_called() {
    let (rig, outcome) = after_a_wait(|rig| rig.lease.is_canceled.store(true, Ordering::SeqCst));
    assert_eq!(outcome, Outcome::Retry(Retry::not_called("canceled")));
    assert_eq!(rig.provider.calls().len(), 1);
    assert_eq!(state(&rig), CircuitState::Closed);
}

#[test]
fn a_pause_in_the_wait_holds_for_it_too() {
    let (rig, outcome) = after_a_wait(|rig| now(rig.destination.limiter().pause(secs(5))));
    assert_eq!(outcome, not_called("paused", ms(4_999)));
    assert_eq!(rig.provider.calls().len(), 1);
}

#[test]
fn retry_after_pauses_everyone_who_shares_the_destination() {
    for rate in [None, Some(RateConfig::new(100, secs(1)))] {
        let rig = Rig::new(DestinationConfig { rate, ..touchy() });
        let later = Outcome::Retry(Retry::not_applied("http_429").retry_after(secs(60)));
        rig.provider.then(ms(0), later.clone());
        assert_eq!(rig.run(&rig.chain(), 1), later);
        assert_eq!(state(&rig), CircuitState::Closed, "it answered");
        assert!(is_slot_free(&rig));
        let other = rig.chain();
        assert_eq!(other.gate().room().reason, Some(Reason::Paused));
        assert_eq!(
            now(other.execute(&envelope(1), &rig.attempt)),
            not_called("paused", secs(60))
        );
        rig.clock.advance(secs(60));
        assert_eq!(now(other.execute(&envelope(1), &rig.attempt)), ok());
        assert_eq!(rig.provider.calls(), [ms(0), secs(60)]);
    }
}

#[test]
fn retry_after_is_believed_up_to_its_cap() {
    let rig = Rig::new(touchy());
    let day = secs(86_400);
    rig.provider.then(
        ms(0),
        Outcome::Retry(Retry::not_applied("").retry_after(day)),
    );
    let rules = RetryRules {
        retry_after_max: secs(600),
        ..RetryRules::WORKER
    };
    rig.run(&rig.chain().retries(&rules), 1);
    assert_eq!(rig.destination.room().again_in, Some(secs(600)));
}

#[test]
fn a_delay_for_one_operation_pauses_nobody() {
    let rig = Rig::new(DestinationConfig::NONE);
    rig.provider.then(
        ms(0),
        Outcome::Retry(Retry::not_applied("").after(secs(60))),
    );
    rig.run(&rig.chain(), 1);
    assert!(!rig.destination.room().is_closed());
}

#[test]
fn retry_after_with_an_unknown_effect_pauses_and_counts() {
    let rig = Rig::new(touchy());
    rig.provider.then(
        ms(0),
        Outcome::Retry(Retry::unknown("http_503").retry_after(secs(60))),
    );
    rig.run(&rig.chain(), 1);
    assert_eq!(state(&rig), CircuitState::Open);
    assert_eq!(rig.destination.status().paused, Some(secs(60)));
}

#[test]
fn only_first_calls_that_are_made_pay_into_the_budget() {
    let rig = Rig::new(DestinationConfig {
        budget: Some(RatioConfig {
            ratio: 1.0,
            ..RatioConfig::default()
        }),
        ..touchy()
    });
    let chain = rig.chain();
    rig.run(&chain, 2);
    let slot = now(rig.destination.bulkhead().acquire()).expect("slot");
    rig.run(&chain, 1);
    drop(slot);
    rig.run(&chain, 1);
    assert_eq!(
        chain.gate().retry_delay(),
        Duration::ZERO,
        "one was paid in"
    );
    assert_eq!(chain.gate().retry_delay(), ms(100), "and no more");
}

#[test]
fn a_panic_leaks_no_permit_and_counts() {
    let rig = Rig::new(touchy());
    rig.provider.then_panics();
    let chain = rig.chain();
    let panicked = catch_unwind(AssertUnwindSafe(|| rig.run(&chain, 1)));
    assert!(panicked.is_err(), "it goes through");
    assert!(is_slot_free(&rig));
    assert_eq!(state(&rig), CircuitState::Open);
    rig.clock.advance(secs(30));
    (0..3).for_each(|_| assert_eq!(rig.run(&chain, 1), ok()));
    assert_eq!(
        state(&rig),
        CircuitState::Closed,
        "no trial permit is missing"
    );
}

#[test]
fn a_call_dropped_by_the_engine_counts_and_leaks_nothing() {
    let rig = Rig::new(touchy());
    rig.provider.then(secs(1), ok());
    let (chain, envelope) = (rig.chain(), envelope(1));
    let mut running = Task::new(chain.execute(&envelope, &rig.attempt));
    assert!(running.poll().is_none());
    assert!(!is_slot_free(&rig));
    drop(running);
    assert!(is_slot_free(&rig));
    assert_eq!(state(&rig), CircuitState::Open);
}
