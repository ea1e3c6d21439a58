//! The breaker under shuttle's scheduler: every interleaving of its locks is fair game.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "tests say what they rely on")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::Timestamp;
use clinch_core::ports::{CircuitBreaker, CircuitState, Clock, Permit, Verdict};
use clinch_protect::{Circuit, CircuitConfig, Window};
use shuttle::thread;

const OPEN: Duration = Duration::from_secs(30);
const ANSWERED: Verdict = Verdict::Answered {
    took: Duration::ZERO,
};
const FAILED: Verdict = Verdict::Failed {
    took: Duration::ZERO,
};

/// A clock outside of the scheduler: reading it is no step.
#[derive(Default)]
struct Hands(AtomicU64);

impl Hands {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_secs(), Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }
    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
    async fn sleep(&self, _duration: Duration) {}
}

/// Opens on the second failure, then a trial of `half_open`.
fn circuit(half_open: u32) -> (Circuit, Arc<Hands>) {
    let config = CircuitConfig {
        window: Window::Count(2),
        min_calls: 2,
        failure_rate: 1.0,
        open: OPEN,
        half_open,
        ..CircuitConfig::default()
    };
    let clock = Arc::new(Hands::default());
    let circuit = Circuit::new(config, clock.clone()).expect("valid");
    (circuit, clock)
}

fn open(circuit: &Circuit) {
    for _ in 0..2 {
        let permit = circuit.try_acquire().expect("closed");
        permit.report(FAILED);
    }
    assert_eq!(circuit.state(), CircuitState::Open);
}

/// Permits out at once, the most of them, and all that were admitted.
#[derive(Default)]
struct Count {
    out: AtomicUsize,
    most: AtomicUsize,
    admitted: AtomicUsize,
}

impl Count {
    fn enter(&self) {
        let out = self.out.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(out, Ordering::SeqCst);
        self.admitted.fetch_add(1, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.out.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Asks once, and ends the call as `end` does, while others race.
fn race(circuit: &Circuit, callers: usize, end: fn(usize, Box<dyn Permit>)) -> Arc<Count> {
    let count = Arc::new(Count::default());
    let threads: Vec<_> = (0..callers)
        .map(|caller| {
            let (circuit, count) = (circuit.clone(), Arc::clone(&count));
            thread::spawn(move || {
                if let Ok(permit) = circuit.try_acquire() {
                    count.enter();
                    thread::yield_now();
                    count.leave();
                    end(caller, permit);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    count
}

/// All callers ask before a call of the trial ends.
fn a_trial_admits_exactly_its_permits(half_open: u32, callers: usize) {
    let (circuit, clock) = circuit(half_open);
    open(&circuit);
    clock.advance(OPEN);
    let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..callers)
        .map(|_| {
            let (circuit, kept) = (circuit.clone(), Arc::clone(&kept));
            thread::spawn(move || {
                let permit = circuit.try_acquire().ok();
                kept.lock().expect("kept").extend(permit);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let kept = std::mem::take(&mut *kept.lock().expect("kept"));
    assert_eq!(kept.len(), half_open as usize);
    assert_eq!(circuit.room().calls, 0);
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    kept.into_iter().for_each(|permit| permit.report(ANSWERED));
    assert_eq!(circuit.state(), CircuitState::Closed);
}

/// Failed and dropped calls: the trial ends open after exactly its permits.
fn a_failing_trial_opens_after_exactly_its_permits(callers: usize) {
    let (circuit, clock) = circuit(3);
    open(&circuit);
    clock.advance(OPEN);
    let count = race(&circuit, callers, |caller, permit| match caller % 2 {
        0 => permit.report(FAILED),
        _ => drop(permit),
    });
    assert_eq!(count.admitted.load(Ordering::SeqCst), 3);
    assert_eq!(circuit.state(), CircuitState::Open);
    assert_eq!(
        circuit.room().again_in,
        Some(OPEN * 2),
        "one trial failed, not two"
    );
}

/// Calls that say nothing: never more than the permits at once, and none is lost.
fn given_back_permits_are_neither_lost_nor_doubled(callers: usize) {
    let (circuit, clock) = circuit(3);
    open(&circuit);
    clock.advance(OPEN);
    let count = race(&circuit, callers, |_, permit| {
        permit.report(Verdict::Ignored)
    });
    assert!(count.most.load(Ordering::SeqCst) <= 3);
    assert!(count.admitted.load(Ordering::SeqCst) >= 3);
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    assert_eq!(circuit.room().calls, 3);
}

/// Calls of the closed breaker end while its trial runs: they change nothing.
fn late_reports_change_nothing(late: usize) {
    let (circuit, clock) = circuit(2);
    let stale: Vec<_> = (0..late)
        .map(|_| circuit.try_acquire().expect("closed"))
        .collect();
    open(&circuit);
    clock.advance(OPEN);
    let trial: Vec<_> = (0..2)
        .map(|_| circuit.try_acquire().expect("trial"))
        .collect();
    let threads: Vec<_> = stale
        .into_iter()
        .enumerate()
        .map(|(place, permit)| {
            thread::spawn(move || match place % 4 {
                0 => permit.report(FAILED),
                1 => permit.report(ANSWERED),
                2 => permit.report(Verdict::Ignored),
                _ => drop(permit),
            })
        })
        .collect();
    let asker = {
        let circuit = circuit.clone();
        thread::spawn(move || circuit.try_acquire().is_err())
    };
    assert!(asker.join().expect("no panic"), "no permit came free");
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    trial.into_iter().for_each(|permit| permit.report(ANSWERED));
    assert_eq!(circuit.state(), CircuitState::Closed);
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(circuit.state(), CircuitState::Closed, "the window is empty");
}

/// Everything at once, over several trials: at the end no permit is missing.
fn a_storm_leaks_nothing(callers: usize) {
    let (circuit, clock) = circuit(3);
    let threads: Vec<_> = (0..callers)
        .map(|caller| {
            let (circuit, clock) = (circuit.clone(), Arc::clone(&clock));
            thread::spawn(move || {
                for step in 0..4 {
                    clock.advance(OPEN);
                    let Ok(permit) = circuit.try_acquire() else {
                        continue;
                    };
                    thread::yield_now();
                    match (caller + step) % 4 {
                        0 => permit.report(ANSWERED),
                        1 => permit.report(FAILED),
                        2 => permit.report(Verdict::Ignored),
                        _ => drop(permit),
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    // Whatever it is now, it can be tried and closed: longest open time, then good calls.
    clock.advance(Duration::from_secs(300));
    for _ in 0..6 {
        if let Ok(permit) = circuit.try_acquire() {
            permit.report(ANSWERED);
        }
    }
    assert_eq!(circuit.state(), CircuitState::Closed);
}

#[test]
fn shuttle_a_trial_admits_exactly_its_permits() {
    shuttle::check_random(|| a_trial_admits_exactly_its_permits(3, 8), 3_000);
}

#[test]
fn shuttle_a_failing_trial_opens_after_exactly_its_permits() {
    shuttle::check_random(|| a_failing_trial_opens_after_exactly_its_permits(8), 3_000);
}

#[test]
fn shuttle_given_back_permits_are_neither_lost_nor_doubled() {
    shuttle::check_random(|| given_back_permits_are_neither_lost_nor_doubled(8), 3_000);
}

#[test]
fn shuttle_late_reports_change_nothing() {
    shuttle::check_random(|| late_reports_change_nothing(8), 3_000);
}

#[test]
fn shuttle_a_storm_leaks_nothing() {
    shuttle::check_random(|| a_storm_leaks_nothing(6), 3_000);
}

#[test]
fn shuttle_every_interleaving_of_three_callers() {
    shuttle::check_dfs(|| a_trial_admits_exactly_its_permits(2, 3), Some(50_000));
}

#[test]
fn shuttle_every_interleaving_of_two_late_reports() {
    shuttle::check_dfs(|| late_reports_change_nothing(2), Some(50_000));
}
