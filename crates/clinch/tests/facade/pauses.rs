//! A domain that is resumed goes on at once, whatever became of its hints meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clinch::testing::ManualClock;
use clinch::{Backend, Call, Clinch, Retry, Route};
use clinch_core::Domain;
use clinch_core::ports::Clock;
use clinch_memory::{Memory, MemoryBus};
use clinch_protect::{BulkheadConfig, DestinationConfig};

use crate::support::Cluster;

const SECOND: Duration = Duration::from_secs(1);
const CHARGES: u32 = 300;

#[tokio::test]
async fn core_11_a_resumed_domain_is_announced_again_at_once() {
    let clock = Arc::new(ManualClock::default());
    let bus = MemoryBus::new(clock.clone());
    let backend = Backend::new(Memory::new(clock.clone())).with_bus(Arc::new(bus.clone()));
    let route: Route<u32, u32> = Route::new("shop", "charge").natural().destination("bank");
    let made = Arc::new(AtomicUsize::new(0));
    let (calls, time) = (made.clone(), clock.clone());
    let cluster = Cluster::on(&backend, clock.clone(), 2, |_| {
        let guards = DestinationConfig {
            concurrency: Some(BulkheadConfig {
                max_concurrent: 64,
                ..BulkheadConfig::default()
            }),
            ..DestinationConfig::NONE
        };
        let (calls, time) = (calls.clone(), time.clone());
        let builder = Clinch::builder().destination("bank", guards);
        builder.handle(&route, move |call: Call<u32>| {
            let (calls, time) = (calls.clone(), time.clone());
            async move {
                time.sleep(SECOND / 10).await;
                calls.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Retry>(call.input)
            }
        })
    });
    let domain = Domain::new("shop").expect("a name");
    let charges = (0..CHARGES).map(|n| route.request(format!("order-{n}"), "a", &n));
    cluster.nodes[0]
        .submit(charges.collect())
        .await
        .expect("accepted");
    // Some of them run, the others are announced.
    cluster.advance(SECOND / 20).await;
    cluster.nodes[0].pause(&domain).await.expect("paused");
    // Workers take the hints, find the domain paused, and drop them.
    cluster.advance(SECOND * 5).await;
    assert!(bus.is_empty(), "{} hints are left", bus.len());
    let before = made.load(Ordering::SeqCst);
    assert!(before < CHARGES as usize, "some wait");
    cluster.nodes[1].resume(&domain).await.expect("resumed");
    cluster.advance(SECOND).await;
    assert_eq!(made.load(Ordering::SeqCst), CHARGES as usize);
    assert_eq!(clock.monotonic(), SECOND * 6 + SECOND / 20);
}
