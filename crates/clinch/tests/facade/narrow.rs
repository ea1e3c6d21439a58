//! On a bus of hints, a destination with few slots keeps them all busy and holds up no other
//! of its domain (CORE-13).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clinch::{Backend, Call, Clinch, Route};
use clinch_core::ports::Clock;
use clinch_memory::{ManualClock, Memory, MemoryBus};
use clinch_protect::DestinationConfig;

use crate::support::Cluster;

const SLOTS: u32 = 2;
const CHARGES: u32 = 40;
const MAILS: u32 = 40;
const SECOND: Duration = Duration::from_secs(1);

fn charge() -> Route<u32, u32> {
    Route::new("shop", "charge").natural().destination("bank")
}

fn mail() -> Route<u32, u32> {
    Route::new("shop", "mail").natural()
}

#[tokio::test]
async fn core_13_hints_of_a_full_destination_wait_where_they_are() {
    let clock = Arc::new(ManualClock::default());
    let bus = MemoryBus::new(clock.clone());
    let backend = Backend::new(Memory::new(clock.clone())).with_bus(Arc::new(bus));
    let charged: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let mailed = Arc::new(AtomicUsize::new(0));
    let cluster = Cluster::on(&backend, clock.clone(), 1, |_| {
        let slots = DestinationConfig {
            breaker: None,
            concurrency: Some(clinch_protect::BulkheadConfig {
                max_concurrent: SLOTS,
                ..Default::default()
            }),
            ..DestinationConfig::default()
        };
        let (clock, charged, mailed) = (clock.clone(), charged.clone(), mailed.clone());
        Clinch::builder()
            .destination("bank", slots)
            .handle(&charge(), move |call: Call<u32>| {
                let (clock, charged) = (clock.clone(), charged.clone());
                async move {
                    clock.sleep(SECOND).await;
                    charged.lock().expect("a log").push(clock.monotonic());
                    Ok::<_, clinch::Refusal>(call.input)
                }
            })
            .handle(&mail(), move |call: Call<u32>| {
                mailed.fetch_add(1, Ordering::SeqCst);
                async move { Ok::<_, clinch::Refusal>(call.input) }
            })
    });
    let node = &cluster.nodes[0];
    let charges = (0..CHARGES).map(|n| charge().request(format!("order-{n}"), "a", &n));
    node.submit(charges.collect()).await.expect("accepted");
    cluster.advance(SECOND / 2).await;
    let mails = (0..MAILS).map(|n| mail().request(format!("order-{n}"), "a", &n));
    node.submit(mails.collect()).await.expect("accepted");
    cluster.advance(SECOND / 4).await;
    assert_eq!(
        mailed.load(Ordering::SeqCst),
        MAILS as usize,
        "no mail waits"
    );
    assert_eq!(charged.lock().expect("a log").len(), 0);

    cluster.advance(SECOND * CHARGES).await;
    let charged = charged.lock().expect("a log");
    assert_eq!(charged.len(), CHARGES as usize);
    // Both slots all the time, from the first charge to the last.
    let (first, last) = (charged[0], charged[charged.len() - 1]);
    assert_eq!(last - first, SECOND * (CHARGES / SLOTS - 1));
}

#[tokio::test]
async fn core_13_one_permit_serves_every_destination() {
    let clock = Arc::new(ManualClock::default());
    let bus = MemoryBus::new(clock.clone());
    let backend = Backend::new(Memory::new(clock.clone())).with_bus(Arc::new(bus));
    let made = Arc::new(AtomicUsize::new(0));
    let cluster = Cluster::on(&backend, clock, 1, |_| {
        let call = |made: &Arc<AtomicUsize>| {
            let made = made.clone();
            move |call: Call<u32>| {
                made.fetch_add(1, Ordering::SeqCst);
                async move { Ok::<_, clinch::Refusal>(call.input) }
            }
        };
        Clinch::builder()
            .concurrency(1)
            .handle(&charge(), call(&made))
            .handle(&mail(), call(&made))
    });
    let requests = (0..CHARGES)
        .map(|n| charge().request(format!("order-{n}"), "a", &n))
        .chain((0..MAILS).map(|n| mail().request(format!("order-{n}"), "a", &n)));
    let accepted = cluster.nodes[0].submit(requests.collect()).await;
    accepted.expect("accepted");
    // Long before anybody would look again by the clock.
    cluster.advance(SECOND / 10).await;
    assert_eq!(made.load(Ordering::SeqCst), (CHARGES + MAILS) as usize);
}
