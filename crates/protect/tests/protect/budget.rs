//! The retry budget.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::RetryBudget;
use clinch_memory::ManualClock;
use clinch_protect::{Ratio, RatioConfig};

use crate::support::{ms, secs};

fn budget(config: RatioConfig) -> (Ratio, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let budget = Ratio::new(config, clock.clone()).expect("valid");
    (budget, clock)
}

fn withdraw(budget: &Ratio, times: usize) -> Vec<Duration> {
    (0..times).map(|_| budget.withdraw()).collect()
}

#[test]
fn five_calls_pay_for_one_retry_and_fractions_are_kept() {
    let (budget, _) = budget(RatioConfig::default());
    for _ in 0..4 {
        budget.deposit();
    }
    assert_eq!(budget.withdraw(), ms(20), "a fifth is missing");
    (0..6).for_each(|_| budget.deposit());
    assert_eq!(withdraw(&budget, 2), [Duration::ZERO, ms(100)]);
}

#[test]
fn a_storm_is_spread_at_the_rate_of_repayment() {
    let (budget, clock) = budget(RatioConfig::default());
    let waits = withdraw(&budget, 50);
    let expected: Vec<_> = (1..=50).map(|place| ms(100 * place)).collect();
    assert_eq!(waits, expected, "ten a second");
    // Two seconds pay twenty back.
    clock.advance(secs(2));
    assert_eq!(budget.withdraw(), ms(3_100));
    // Time saves nothing.
    clock.advance(secs(3_600));
    assert_eq!(budget.withdraw(), ms(100));
}

#[test]
fn first_calls_pay_debts_too() {
    let (budget, _) = budget(RatioConfig::default());
    withdraw(&budget, 10);
    (0..25).for_each(|_| budget.deposit());
    assert_eq!(budget.withdraw(), ms(600));
}

#[test]
fn neither_savings_nor_delays_grow_without_bound() {
    let (budget, clock) = budget(RatioConfig {
        balance_max: 5,
        ..RatioConfig::default()
    });
    (0..100_000).for_each(|_| budget.deposit());
    let waits = withdraw(&budget, 6);
    assert_eq!(waits[..5], [Duration::ZERO; 5]);
    assert_eq!(waits[5], ms(100));
    assert_eq!(withdraw(&budget, 100_000).last(), Some(&secs(300)));
    clock.advance(secs(300));
    assert_eq!(budget.withdraw(), ms(100), "longer debts are forgiven");
}

#[test]
fn repayment_does_not_drift() {
    let (budget, clock) = budget(RatioConfig {
        min_per_second: 3,
        ..RatioConfig::default()
    });
    withdraw(&budget, 600);
    // Seven nanoseconds at a time: a budget that counted whole parts would pay nothing.
    for _ in 0..100_000 {
        clock.advance(Duration::from_nanos(7));
        budget.deposit();
        budget.withdraw();
        (0..4).for_each(|_| budget.deposit());
    }
    // 600 retries less 0.7 ms of payments, and one more.
    assert_eq!(
        budget.withdraw().as_nanos(),
        (601_000_000_000_u128 - 2_100_000).div_ceil(3)
    );
}

#[test]
fn a_budget_that_never_pays_is_refused() {
    let with = |ratio, min_per_second| RatioConfig {
        ratio,
        min_per_second,
        ..RatioConfig::default()
    };
    assert!(with(0.0, 1).validate().is_ok());
    assert!(with(0.2, 0).validate().is_err());
    assert!(with(-0.1, 1).validate().is_err());
    assert!(with(f64::NAN, 1).validate().is_err());
}
