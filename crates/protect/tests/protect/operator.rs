//! What an operator sees of a destination, and does to it.

use std::sync::Arc;

use clinch_core::ports::{CircuitBreaker, CircuitState, Gate, Opened, RateLimiter, Verdict};
use clinch_memory::ManualClock;
use clinch_protect::{
    Circuit, CircuitConfig, Destination, DestinationConfig, RECENT, Rate, RateConfig,
};

use crate::support::{Rig, ms, not_applied, now, ok, secs, trip, unknown};

const FAILED: Verdict = Verdict::Failed {
    took: std::time::Duration::ZERO,
};

fn circuit() -> (Circuit, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let circuit = Circuit::new(CircuitConfig::default(), clock.clone()).expect("valid");
    (circuit, clock)
}

fn fail(circuit: &Circuit, calls: usize) {
    for _ in 0..calls {
        circuit.try_acquire().expect("a permit").report(FAILED);
    }
}

fn by_hand(open_for: Option<std::time::Duration>) -> Opened {
    Opened {
        since: std::time::Duration::ZERO,
        open_for,
        is_forced: true,
    }
}

#[test]
fn core_10_a_breaker_that_another_process_opened_counts_from_there_and_says_who_changed_it() {
    let (circuit, clock) = circuit();
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = told.clone();
    circuit.watch(Box::new(move |change| {
        seen.lock()
            .expect("a lock")
            .push((change.state, change.is_told));
    }));
    circuit.open(Opened {
        since: secs(40),
        open_for: Some(secs(20)),
        is_forced: false,
    });
    let status = circuit.status();
    assert_eq!(
        (status.since, status.open_for, status.is_forced),
        (Some(secs(40)), Some(secs(20)), false)
    );
    circuit.reset();
    fail(&circuit, 10);
    clock.advance(secs(30));
    let trial = circuit.try_acquire().expect("a trial");
    trial.report(Verdict::Ignored);
    let told = told.lock().expect("a lock").clone();
    assert_eq!(
        told,
        [
            (CircuitState::Open, true),
            (CircuitState::Closed, true),
            (CircuitState::Open, false),
            (CircuitState::HalfOpen, false),
        ]
    );
}

#[test]
fn core_10_a_breaker_says_since_when_it_is_not_closed_through_failed_trials() {
    let (circuit, clock) = circuit();
    assert_eq!(circuit.status().since, None);
    fail(&circuit, 10);
    clock.advance(secs(5));
    let status = circuit.status();
    assert_eq!(
        (status.since, status.open_for),
        (Some(secs(5)), Some(secs(25)))
    );
    clock.advance(secs(25));
    fail(&circuit, 3);
    clock.advance(secs(10));
    let status = circuit.status();
    assert_eq!(status.state, CircuitState::Open);
    assert_eq!(
        (status.since, status.open_for),
        (Some(secs(40)), Some(secs(50)))
    );
}

#[test]
fn core_10_a_reset_closes_the_breaker_and_forgets_its_calls() {
    let (circuit, _) = circuit();
    let before = circuit.try_acquire().expect("a permit");
    fail(&circuit, 10);
    assert!(circuit.reset());
    assert_eq!(
        (circuit.state(), circuit.status().since),
        (CircuitState::Closed, None)
    );
    before.report(FAILED);
    fail(&circuit, 9);
    assert_eq!(
        circuit.state(),
        CircuitState::Closed,
        "judged by ten new calls"
    );
    fail(&circuit, 1);
    assert_eq!(circuit.state(), CircuitState::Open);
}

#[test]
fn core_10_a_forced_breaker_stays_open_and_callers_come_back_soon() {
    let (circuit, clock) = circuit();
    assert!(circuit.open(by_hand(None)));
    clock.advance(secs(86_400));
    let status = circuit.status();
    assert!(status.is_forced && status.open_for.is_none());
    assert_eq!(status.state, CircuitState::Open);
    let after = circuit.try_acquire().err().expect("a rejection").after;
    assert_eq!(after, secs(1), "a reset can come at any time");
    assert_eq!(circuit.room().again_in, Some(secs(30)));
    circuit.open(by_hand(Some(secs(10))));
    clock.advance(secs(10));
    assert_eq!(circuit.state(), CircuitState::HalfOpen, "a trial follows");
    assert!(!circuit.status().is_forced);
}

#[test]
fn core_10_the_end_of_a_pause_by_hand_leaves_the_rate() {
    let clock = Arc::new(ManualClock::default());
    let rate = Rate::new(RateConfig::new(4, secs(4)), clock.clone()).expect("valid");
    now(rate.pause(secs(3_600)));
    assert!(now(rate.reserve()).is_err());
    assert!(now(rate.resume()));
    assert_eq!(
        rate.room().calls,
        1,
        "the burst is used up, as after every pause"
    );
    assert!(now(rate.reserve()).is_ok());
    assert!(now(rate.reserve()).is_err());
    clock.advance(secs(1));
    assert!(now(rate.reserve()).is_ok());
}

#[test]
fn core_10_a_destination_shows_its_last_failure_and_the_calls_of_the_last_minutes() {
    let rig = Rig::new(DestinationConfig::default());
    let chain = rig.chain();
    for outcome in [ok(), unknown(), not_applied(), ok()] {
        rig.provider.then(ms(10), outcome);
        rig.run(&chain, 1);
    }
    let status = rig.destination.status();
    assert_eq!((status.recent.calls, status.recent.failed), (4, 2));
    let failure = status.last_failure.expect("a failure");
    assert_eq!(failure.code, "not_applied");
    assert_eq!(status.limits.max_concurrent, Some(16));
    rig.clock.advance(RECENT);
    let status = rig.destination.status();
    assert_eq!((status.recent.calls, status.recent.failed), (0, 0));
    assert!(
        status
            .last_failure
            .is_some_and(|failure| failure.ago >= RECENT)
    );
}

#[test]
fn core_10_a_reset_ends_an_open_breaker_and_a_pause() {
    let clock = Arc::new(ManualClock::default());
    let destination = Destination::new("psp", clock.clone(), DestinationConfig::default());
    let destination = destination.expect("valid");
    trip(&destination);
    now(destination.pause(secs(600)));
    clock.advance(secs(60));
    let status = destination.status();
    assert_eq!(
        (status.paused, status.paused_since),
        (Some(secs(540)), Some(secs(60)))
    );
    assert!(now(destination.reset()));
    let status = destination.status();
    assert_eq!((status.paused, status.paused_since), (None, None));
    assert_eq!(status.breaker, CircuitState::Closed);
    assert!(!destination.room().is_closed());
}
