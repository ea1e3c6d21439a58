//! A burst of callers begins no more than there is room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clinch::testing::ManualClock;
use clinch::{Backend, Call, Clinch, Retry, Route};
use clinch_core::OpId;
use clinch_core::ports::Clock;
use clinch_memory::{Memory, MemoryBus};
use clinch_protect::{BulkheadConfig, DestinationConfig, RateConfig};

use crate::support::Cluster;

const BURST: u32 = 200;
const SECOND: Duration = Duration::from_secs(1);

/// Two hundred callers at once; the most that were begun at any moment of the first second, and
/// the operations.
async fn burst(backend: &Backend, clock: Arc<ManualClock>, guards: DestinationConfig) -> Seen {
    let route: Route<u32, u32> = Route::new("shop", "charge").natural().destination("bank");
    let time = clock.clone();
    let cluster = Cluster::on(backend, clock, 1, |_| {
        let time = time.clone();
        let builder = Clinch::builder().destination("bank", guards.clone());
        builder.handle(&route, move |call: Call<u32>| {
            let time = time.clone();
            async move {
                time.sleep(SECOND).await;
                Ok::<_, Retry>(call.input)
            }
        })
    });
    let node = cluster.nodes[0].clone();
    let live_max = Arc::new(AtomicUsize::new(0));
    let starts = (0..BURST).map(|n| {
        let (node, route) = (node.clone(), route.clone());
        async move {
            let request = route.request(format!("order-{n}"), "a", &n);
            let handle = node.start(request, Duration::ZERO).await;
            handle.expect("accepted").op_id()
        }
    });
    let tasks: Vec<_> = starts.map(tokio::spawn).collect();
    let mut ops = Vec::new();
    for task in tasks {
        ops.push(task.await.expect("it ends"));
    }
    let domains = backend.domains().domains().await.expect("counters");
    live_max.fetch_max(domains[0].counts.live as usize, Ordering::SeqCst);
    cluster.advance(SECOND * 2 * BURST).await;
    Seen {
        live_max: live_max.load(Ordering::SeqCst),
        refunds: refunds(backend, &ops).await,
        completed: completed(backend).await,
    }
}

struct Seen {
    live_max: usize,
    refunds: usize,
    completed: u64,
}

async fn refunds(backend: &Backend, ops: &[OpId]) -> usize {
    let mut refunds = 0;
    for op_id in ops {
        let ledger = backend.inspect().ledger(*op_id).await.expect("a ledger");
        refunds += ledger
            .iter()
            .filter(|line| line.event == "NotCalled")
            .count();
    }
    refunds
}

async fn completed(backend: &Backend) -> u64 {
    let domains = backend.domains().domains().await.expect("counters");
    domains[0].counts.completed
}

fn slots() -> DestinationConfig {
    DestinationConfig {
        concurrency: Some(BulkheadConfig {
            max_concurrent: 4,
            ..BulkheadConfig::default()
        }),
        ..DestinationConfig::NONE
    }
}

fn rate() -> DestinationConfig {
    DestinationConfig {
        rate: Some(RateConfig::new(10, SECOND)),
        ..DestinationConfig::NONE
    }
}

#[tokio::test]
async fn core_4_a_burst_of_starts_begins_as_many_as_there_are_slots() {
    let clock = Arc::new(ManualClock::default());
    let backend = Backend::new(Memory::new(clock.clone()));
    let seen = burst(&backend, clock, slots()).await;
    assert!(seen.live_max <= 4, "{} began", seen.live_max);
    assert_eq!(seen.refunds, 0, "begun and not called");
    assert_eq!(seen.completed, u64::from(BURST));
}

#[tokio::test]
async fn core_4_a_burst_of_starts_begins_as_many_as_its_rate_allows() {
    let clock = Arc::new(ManualClock::default());
    let backend = Backend::new(Memory::new(clock.clone()));
    let seen = burst(&backend, clock, rate()).await;
    assert!(seen.live_max <= 10, "{} began", seen.live_max);
    assert_eq!(seen.refunds, 0, "begun and not called");
    assert_eq!(seen.completed, u64::from(BURST));
}

#[tokio::test]
async fn core_4_a_burst_of_starts_beside_a_bus_begins_as_many_as_there_are_slots() {
    let clock = Arc::new(ManualClock::default());
    let bus = MemoryBus::new(clock.clone());
    let backend = Backend::new(Memory::new(clock.clone())).with_bus(Arc::new(bus));
    let seen = burst(&backend, clock, slots()).await;
    assert!(seen.live_max <= 4, "{} began", seen.live_max);
    assert_eq!(seen.refunds, 0, "begun and not called");
    assert_eq!(seen.completed, u64::from(BURST));
}
