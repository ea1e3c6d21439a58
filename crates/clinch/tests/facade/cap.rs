//! Hedges and retries together stay under the cap of the rate limiter (CORE-20).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use clinch::{Call, Clinch, Retry, Route};
use clinch_core::ports::Clock;
use clinch_memory::ManualClock;
use clinch_protect::{DestinationConfig, RateConfig};

use crate::support::Cluster;

const PERMITS: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);
const OPERATIONS: u32 = 400;

fn route() -> Route<u32, u32> {
    Route::new("payments", "charge")
        .keyed(Duration::from_secs(24 * 60 * 60))
        .destination("psp")
        .timeout(Duration::from_secs(2))
        .hedge(Duration::from_millis(300))
        .max_attempts(20)
}

#[tokio::test]
async fn core_20_hedges_and_retries_stay_under_the_cap() {
    let clock: Arc<Mutex<Option<Arc<ManualClock>>>> = Arc::default();
    let sent: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let cluster = Cluster::start(1, |_| {
        let (clock, sent) = (clock.clone(), sent.clone());
        let limits = DestinationConfig {
            breaker: None,
            rate: Some(RateConfig::new(PERMITS, SECOND)),
            ..DestinationConfig::default()
        };
        let builder = Clinch::builder().destination("psp", limits);
        builder.handle(&route(), move |call: Call<u32>| {
            let clock = clock.lock().expect("a clock").clone().expect("set");
            let mut sent = sent.lock().expect("a log");
            sent.push(clock.monotonic());
            let number = sent.len();
            async move {
                match number % 10 {
                    // Slow enough for a hedge.
                    0..=2 => clock.sleep(Duration::from_millis(800)).await,
                    3..=5 => return Err(Retry::unknown("it broke")),
                    6 => return Err(Retry::not_applied("busy")),
                    _ => {}
                }
                Ok(call.input)
            }
        })
    });
    *clock.lock().expect("a clock") = Some(cluster.clock.clone());
    let requests = (0..OPERATIONS).map(|n| route().request(format!("order-{n}"), "a", &n));
    let accepted = cluster.nodes[0]
        .submit(requests.collect())
        .await
        .expect("accepted");
    cluster.advance(Duration::from_secs(600)).await;
    let mut attempts = 0;
    for op_id in accepted {
        let op_id = op_id.expect("valid");
        let row = cluster.nodes[0]
            .orchestrator()
            .status(op_id)
            .await
            .expect("there");
        assert!(
            row.operation.state.is_terminal(),
            "{:?}",
            row.operation.state
        );
        attempts += row.operation.state.attempts as usize;
    }
    let sent = sent.lock().expect("a log");
    println!(
        "{} calls for {OPERATIONS} operations and {attempts} attempts",
        sent.len()
    );
    assert!(sent.len() > attempts, "some copies were sent");
    assert!(
        attempts > OPERATIONS as usize,
        "some attempts were repeated"
    );
    for (first, at) in sent.iter().enumerate() {
        for seconds in [1, 5, 20] {
            let until = *at + SECOND * seconds;
            let within = sent[first..].iter().filter(|other| **other < until).count();
            let cap = (PERMITS * seconds) as usize;
            assert!(within <= cap, "{within} calls in {seconds} s");
        }
    }
}
