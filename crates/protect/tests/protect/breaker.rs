//! The circuit breaker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use clinch_core::ports::{CircuitBreaker, CircuitState, Permit, Reason, Rejection, Room, Verdict};
use clinch_memory::ManualClock;
use clinch_protect::{Circuit, CircuitConfig, Window};

use crate::support::{ms, secs};

const ANSWERED: Verdict = Verdict::Answered {
    took: Duration::ZERO,
};
const FAILED: Verdict = Verdict::Failed {
    took: Duration::ZERO,
};

fn circuit(config: CircuitConfig) -> (Circuit, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let circuit = Circuit::new(config, clock.clone()).expect("valid");
    (circuit, clock)
}

fn acquire(circuit: &Circuit) -> Box<dyn Permit> {
    circuit.try_acquire().expect("a permit")
}

fn rejection(circuit: &Circuit) -> Rejection {
    circuit.try_acquire().err().expect("a rejection")
}

fn report(circuit: &Circuit, verdict: Verdict, times: usize) {
    for _ in 0..times {
        acquire(circuit).report(verdict);
    }
}

/// Open since now, with the default open time.
fn opened() -> (Circuit, Arc<ManualClock>) {
    let (circuit, clock) = circuit(CircuitConfig::default());
    report(&circuit, FAILED, 10);
    assert_eq!(circuit.state(), CircuitState::Open);
    (circuit, clock)
}

/// Calls until it opens.
fn failures_to_open(circuit: &Circuit) -> usize {
    (1..=1_000)
        .find(|_| {
            report(circuit, FAILED, 1);
            circuit.state() == CircuitState::Open
        })
        .expect("it opens")
}

#[test]
fn after_10_000_successes_it_opens_within_20_failures() {
    let (circuit, _) = circuit(CircuitConfig::default());
    report(&circuit, ANSWERED, 10_000);
    assert_eq!(failures_to_open(&circuit), 10, "half of the window of 20");
}

#[test]
fn fewer_calls_than_the_minimum_do_not_open_it() {
    let (circuit, _) = circuit(CircuitConfig::default());
    report(&circuit, FAILED, 9);
    assert_eq!(circuit.state(), CircuitState::Closed);
    assert_eq!(circuit.room(), Room::UNBOUNDED);
    report(&circuit, FAILED, 1);
    assert_eq!(circuit.state(), CircuitState::Open);
}

#[test]
fn a_minimum_over_the_window_is_the_window() {
    let (circuit, _) = circuit(CircuitConfig {
        window: Window::Count(5),
        min_calls: 100,
        ..CircuitConfig::default()
    });
    assert_eq!(failures_to_open(&circuit), 5);
}

#[test]
fn a_rate_below_the_threshold_keeps_it_closed() {
    let (circuit, _) = circuit(CircuitConfig::default());
    report(&circuit, ANSWERED, 20);
    for _ in 0..1_000 {
        // Nine of every twenty fail, spread out so that no window holds ten.
        for call in 0..20 {
            let is_bad = call % 2 == 1 && call != 19;
            report(&circuit, if is_bad { FAILED } else { ANSWERED }, 1);
        }
    }
    assert_eq!(circuit.state(), CircuitState::Closed);
}

#[test]
fn slow_calls_open_it() {
    let answered = |took| Verdict::Answered { took };
    let (circuit, _) = circuit(CircuitConfig {
        slow_rate: 0.5,
        failure_rate: 1.0,
        ..CircuitConfig::default()
    });
    report(&circuit, answered(secs(3) - ms(1)), 10);
    report(&circuit, answered(secs(3)), 9);
    assert_eq!(circuit.state(), CircuitState::Closed);
    // A slow failure is slow too: neither rate alone would be reached by it.
    report(&circuit, Verdict::Failed { took: secs(3) }, 1);
    assert_eq!(circuit.state(), CircuitState::Open);
}

#[test]
fn time_window_forgets() {
    let window = Window::Time {
        span: secs(10),
        buckets: 10,
    };
    let config = CircuitConfig {
        window,
        ..CircuitConfig::default()
    };
    let (circuit, clock) = circuit(config);
    report(&circuit, FAILED, 9);
    clock.advance(secs(10));
    // Nine failures are forgotten; nine more are still below the minimum.
    report(&circuit, FAILED, 9);
    assert_eq!(circuit.state(), CircuitState::Closed);
    clock.advance(secs(9));
    report(&circuit, FAILED, 1);
    assert_eq!(circuit.state(), CircuitState::Open, "the last nine are not");
}

#[test]
fn our_own_rejections_do_not_count() {
    let (circuit, _) = circuit(CircuitConfig::default());
    report(&circuit, Verdict::Ignored, 1_000);
    assert_eq!(circuit.state(), CircuitState::Closed);
    assert_eq!(failures_to_open(&circuit), 10, "nor as successes");
}

#[test]
fn an_open_breaker_admits_nothing_and_says_until_when() {
    let (circuit, clock) = opened();
    clock.advance(secs(29));
    let expected = Rejection {
        reason: Reason::BreakerOpen,
        after: secs(1),
    };
    assert_eq!(rejection(&circuit), expected);
    let closed = Room {
        calls: 0,
        reason: Some(Reason::BreakerOpen),
        again_in: Some(secs(1)),
    };
    assert_eq!(circuit.room(), closed);
    clock.advance(secs(1));
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    let trial = Room {
        calls: 3,
        again_in: None,
        ..closed
    };
    assert_eq!(circuit.room(), trial);
    let _first = acquire(&circuit);
    assert_eq!(circuit.room().calls, 2);
}

#[test]
fn half_open_admits_exactly_its_permits_under_64_concurrent_callers() {
    for _ in 0..200 {
        let (circuit, clock) = opened();
        clock.advance(secs(30));
        let (barrier, admitted) = (Barrier::new(64), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    barrier.wait();
                    let permit = circuit.try_acquire().ok();
                    admitted.fetch_add(usize::from(permit.is_some()), Ordering::SeqCst);
                    // Nobody reports before everybody has asked.
                    barrier.wait();
                    if let Some(permit) = permit {
                        permit.report(ANSWERED);
                    }
                });
            }
        });
        assert_eq!(admitted.load(Ordering::SeqCst), 3);
        assert_eq!(circuit.state(), CircuitState::Closed);
    }
}

#[test]
fn a_trial_is_judged_when_all_its_calls_have_ended() {
    let (circuit, clock) = opened();
    clock.advance(secs(30));
    let permits: Vec<_> = (0..3).map(|_| acquire(&circuit)).collect();
    let full = Room {
        calls: 0,
        reason: Some(Reason::BreakerOpen),
        again_in: None,
    };
    for permit in permits {
        assert_eq!(circuit.state(), CircuitState::HalfOpen);
        assert_eq!(circuit.room(), full);
        assert_eq!(rejection(&circuit).after, secs(1));
        permit.report(ANSWERED);
    }
    assert_eq!(circuit.state(), CircuitState::Closed);
    assert_eq!(failures_to_open(&circuit), 10, "the window is empty");
}

#[test]
fn a_trial_below_the_threshold_closes_it() {
    let (circuit, clock) = opened();
    clock.advance(secs(30));
    report(&circuit, FAILED, 1);
    report(&circuit, ANSWERED, 2);
    assert_eq!(circuit.state(), CircuitState::Closed);
}

#[test]
fn an_ignored_trial_call_gives_its_permit_back() {
    let (circuit, clock) = opened();
    clock.advance(secs(30));
    for _ in 0..100 {
        let permits: Vec<_> = (0..3).map(|_| acquire(&circuit)).collect();
        assert!(circuit.try_acquire().is_err());
        permits
            .into_iter()
            .for_each(|permit| permit.report(Verdict::Ignored));
    }
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    report(&circuit, ANSWERED, 3);
    assert_eq!(circuit.state(), CircuitState::Closed);
}

#[test]
fn a_late_result_of_an_earlier_epoch_does_not_count() {
    let (circuit, clock) = circuit(CircuitConfig::default());
    let mut closed: Vec<_> = (0..9).map(|_| acquire(&circuit)).collect();
    report(&circuit, FAILED, 10);
    let mut late = |verdict| closed.pop().expect("one more").report(verdict);
    // Open: nothing to fail, nothing to close.
    late(ANSWERED);
    late(FAILED);
    assert_eq!(circuit.state(), CircuitState::Open);
    clock.advance(secs(30));
    // Half open: they neither end the trial nor free its permits.
    let trial: Vec<_> = (0..3).map(|_| acquire(&circuit)).collect();
    [ANSWERED, FAILED, Verdict::Ignored]
        .into_iter()
        .for_each(&mut late);
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    assert_eq!(circuit.room().calls, 0);
    trial.into_iter().for_each(|permit| permit.report(ANSWERED));
    assert_eq!(circuit.state(), CircuitState::Closed);
    // Closed again: they are not of this window.
    report(&circuit, FAILED, 8);
    late(FAILED);
    drop(closed);
    assert_eq!(circuit.state(), CircuitState::Closed);
    report(&circuit, FAILED, 2);
    assert_eq!(circuit.state(), CircuitState::Open);
}

#[test]
fn a_call_dropped_at_its_deadline_counts() {
    let (circuit, clock) = circuit(CircuitConfig::default());
    (0..9).for_each(|_| drop(acquire(&circuit)));
    assert_eq!(circuit.state(), CircuitState::Closed);
    drop(acquire(&circuit));
    assert_eq!(circuit.state(), CircuitState::Open);
    clock.advance(secs(30));
    (0..3).for_each(|_| drop(acquire(&circuit)));
    assert_eq!(circuit.state(), CircuitState::Open, "in a trial too");
}

#[test]
fn a_dropped_call_took_as_long_as_it_was_held() {
    let (circuit, clock) = circuit(CircuitConfig {
        failure_rate: 1.0,
        slow_rate: 0.5,
        ..CircuitConfig::default()
    });
    let held: Vec<_> = (0..10).map(|_| acquire(&circuit)).collect();
    report(&circuit, ANSWERED, 10);
    clock.advance(secs(3));
    drop(held);
    assert_eq!(circuit.state(), CircuitState::Open);
}

#[test]
fn open_time_grows_and_resets() {
    let (circuit, clock) = opened();
    for open_secs in [30, 60, 120, 240, 300, 300] {
        assert_eq!(circuit.room().again_in, Some(secs(open_secs)));
        clock.advance(secs(open_secs));
        report(&circuit, FAILED, 3);
        assert_eq!(circuit.state(), CircuitState::Open);
    }
    clock.advance(secs(300));
    report(&circuit, ANSWERED, 3);
    assert_eq!(circuit.state(), CircuitState::Closed);
    report(&circuit, FAILED, 10);
    assert_eq!(circuit.room().again_in, Some(secs(30)));
}

#[test]
fn a_breaker_that_makes_no_sense_is_refused() {
    let time = |span, buckets| Window::Time { span, buckets };
    let bad: [fn(&mut CircuitConfig); 9] = [
        |config| config.failure_rate = 0.0,
        |config| config.failure_rate = f64::NAN,
        |config| config.slow_rate = 1.1,
        |config| config.slow = Duration::ZERO,
        |config| config.min_calls = 0,
        |config| config.open = Duration::ZERO,
        |config| config.open_max = secs(29),
        |config| config.half_open = 0,
        |config| config.window = Window::Count(0),
    ];
    for spoil in bad {
        let mut config = CircuitConfig::default();
        assert!(config.validate().is_ok());
        spoil(&mut config);
        assert!(config.validate().is_err(), "{config:?}");
        assert!(Circuit::new(config, Arc::new(ManualClock::default())).is_err());
    }
    for window in [
        time(secs(1), 0),
        time(Duration::from_nanos(9), 10),
        Window::Count(100_001),
    ] {
        let config = CircuitConfig {
            window,
            ..CircuitConfig::default()
        };
        assert!(config.validate().is_err(), "{config:?}");
    }
}
