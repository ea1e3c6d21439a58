//! The protection chain of some routes of the simulation. Its limits are tight, so that every guard
//! rejects a call now and then.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::Invalid;
use clinch_core::ports::{Clock, Executor};
use clinch_protect::{
    BulkheadConfig, Chain, CircuitConfig, Destination, DestinationConfig, Hedge, RateConfig,
    RatioConfig, Timeouts, Window,
};

/// `executor` inside its guards, with at most this many copies of a call.
pub(crate) fn around(
    executor: Arc<dyn Executor>,
    name: &str,
    clock: Arc<dyn Clock>,
    copies: u32,
) -> Result<Chain, Invalid> {
    let config = DestinationConfig {
        breaker: Some(CircuitConfig {
            window: Window::Count(6),
            min_calls: 4,
            half_open: 2,
            open: Duration::from_secs(10),
            open_max: Duration::from_secs(40),
            slow: Duration::from_secs(20),
            ..CircuitConfig::default()
        }),
        concurrency: Some(BulkheadConfig {
            max_concurrent: 2,
            wait_max: Duration::from_secs(1),
            ..BulkheadConfig::default()
        }),
        rate: Some(RateConfig {
            wait_max: Duration::from_secs(2),
            ..RateConfig::new(3, Duration::from_secs(5))
        }),
        budget: Some(RatioConfig::default()),
    };
    let destination = Arc::new(Destination::new(name, clock.clone(), config)?);
    let timeouts = Timeouts {
        per_attempt: Duration::from_secs(25),
        total: Duration::from_secs(40),
    };
    let chain = Chain::new(executor, destination, clock).timeouts(Arc::new(timeouts));
    Ok(match copies {
        0 | 1 => chain,
        _ => chain.hedge(Arc::new(Hedge {
            after: Duration::from_secs(3),
            copies_max: copies,
        })),
    })
}
