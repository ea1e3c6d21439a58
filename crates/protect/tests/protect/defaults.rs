//! The recommended values.

use clinch_core::ports::{HedgePolicy, TimeoutPolicy};
use clinch_protect::{
    BulkheadConfig, CircuitConfig, DestinationConfig, Hedge, QueueAge, RateConfig, RatioConfig,
    Timeouts, Window,
};

use crate::support::{ms, secs};

#[test]
fn core_19_defaults_are_the_recommended_ones() {
    let breaker = CircuitConfig::default();
    assert_eq!(breaker.validate(), Ok(()));
    assert_eq!((breaker.failure_rate, breaker.slow_rate), (0.5, 1.0));
    assert_eq!(breaker.window, Window::Count(20));
    assert_eq!((breaker.min_calls, breaker.half_open), (10, 3));
    assert_eq!(
        (breaker.slow, breaker.open, breaker.open_max),
        (secs(3), secs(30), secs(300))
    );

    let bulkhead = BulkheadConfig::default();
    assert_eq!(bulkhead.validate(), Ok(()));
    assert!((8..=64).contains(&bulkhead.max_concurrent));
    assert_eq!((bulkhead.max_concurrent, bulkhead.wait_max), (16, secs(0)));
    assert_eq!(bulkhead.after, ms(100));

    let timeouts = Timeouts::default();
    assert_eq!(timeouts.validate(), Ok(()));
    assert!((2..=5).contains(&timeouts.per_attempt().as_secs()));
    assert_eq!(
        (timeouts.per_attempt(), timeouts.total()),
        (secs(3), secs(30))
    );

    let budget = RatioConfig::default();
    assert_eq!(budget.validate(), Ok(()));
    assert_eq!((budget.ratio, budget.min_per_second), (0.2, 10));
    assert_eq!(budget.delay_max, secs(300));

    let rate = RateConfig::new(50, secs(1));
    assert_eq!((rate.burst, rate.wait_max), (None, ms(100)));
    assert_eq!(QueueAge::default().limit, secs(30));
    assert_eq!(Hedge::new(ms(300)).copies_max(), 2);

    let destination = DestinationConfig::default();
    assert_eq!(destination.breaker, Some(breaker));
    assert_eq!(destination.concurrency, Some(bulkhead));
    assert_eq!(destination.budget, Some(budget));
    assert_eq!(
        destination.rate, None,
        "nobody but the provider knows its cap"
    );
}
