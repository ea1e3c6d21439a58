//! CORE-20: the provider's cap holds, whatever comes together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clinch_core::policy::SplitMix;
use clinch_core::ports::{Clock, Executor};
use clinch_core::{Applied, Outcome};
use clinch_protect::{BulkheadConfig, Chain, DestinationConfig, Hedge, RateConfig};
use futures_util::future::join_all;

use crate::support::{Rig, Task, envelope, fail, ms, not_applied, ok, secs, unknown};

const WORKERS: usize = 40;
const SLOTS: u32 = 24;
const PERMITS: usize = 50;
const BURST: usize = 10;
const SECONDS: u64 = 20;

/// Retries at once and for ever, as no engine would.
async fn greedy(rig: &Rig, chain: &Chain, ended: &AtomicUsize) {
    while rig.clock.monotonic() < secs(SECONDS) {
        for attempt in 1..=5 {
            let envelope = envelope(attempt);
            let outcome = chain.execute(&envelope, &rig.attempt).await;
            let was_called =
                !matches!(&outcome, Outcome::Retry(retry) if retry.applied == Applied::NotCalled);
            ended.fetch_add(usize::from(was_called), Ordering::SeqCst);
            match outcome {
                Outcome::Retry(retry) => {
                    rig.clock.sleep(retry.after.unwrap_or(ms(1))).await;
                }
                Outcome::Ok(_) | Outcome::Fail(_) => break,
            }
        }
    }
}

#[test]
fn core_20_hedges_and_retries_stay_under_the_cap() {
    let rig = Rig::new(DestinationConfig {
        rate: Some(RateConfig {
            burst: Some(BURST as u32),
            // No waits: a copy that loses while it waits would waste what it reserved.
            wait_max: Duration::ZERO,
            ..RateConfig::new(PERMITS as u32, secs(1))
        }),
        concurrency: Some(BulkheadConfig {
            max_concurrent: SLOTS,
            ..BulkheadConfig::default()
        }),
        ..DestinationConfig::NONE
    });
    let mut rng = SplitMix::new(20);
    for _ in 0..10_000 {
        let outcome = match rng.next_u64() % 4 {
            0 => ok(),
            1 => fail(),
            2 => unknown(),
            _ => not_applied(),
        };
        // Around the hedge's time, on both sides.
        rig.provider.then(ms(rng.next_u64() % 500), outcome);
    }
    // Two routes share the destination.
    let hedge = Arc::new(Hedge {
        after: ms(100),
        copies_max: 3,
    });
    let chains = [rig.chain().hedge(hedge), rig.chain()];
    let ended = AtomicUsize::new(0);
    let workers = (0..WORKERS).map(|worker| greedy(&rig, &chains[worker % 2], &ended));
    Task::new(join_all(workers)).finish(&rig.clock);

    let calls = rig.provider.calls();
    let first = &calls[..calls.partition_point(|at| *at < secs(SECONDS - 1))];
    let cap = PERMITS * (SECONDS as usize - 1);
    assert_eq!(first.len(), cap, "all of it is used, and not one more");
    for (place, from) in calls.iter().enumerate() {
        let within = |length: Duration| {
            let later = &calls[place..];
            later.partition_point(|at| *at < *from + length)
        };
        assert!(within(secs(1)) <= PERMITS);
        assert!(within(secs(5)) <= 5 * PERMITS);
    }
    let ended = ended.load(Ordering::SeqCst);
    // How many depends on the order in which the clock wakes its sleepers.
    assert!(calls.len() > ended, "some attempts were hedged");
    assert!(rig.provider.most_open.load(Ordering::SeqCst) <= SLOTS as usize);
    assert_eq!(rig.destination.bulkhead().room().calls, SLOTS as usize);
}
