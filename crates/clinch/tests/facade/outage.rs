//! A provider is down for ten minutes and comes back.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clinch::{Call, Clinch, Retry, Route};
use clinch_core::ports::{CircuitState, Clock};
use clinch_core::{OpId, Status};
use clinch_memory::ManualClock;

use crate::support::Cluster;

const MINUTE: Duration = Duration::from_secs(60);
const OUTAGE: Duration = Duration::from_secs(600);
/// New operations a second.
const ARRIVALS: u32 = 5;

/// The provider's own log.
#[derive(Default)]
struct Provider {
    clock: Mutex<Option<Arc<ManualClock>>>,
    nodes: Mutex<Vec<Clinch>>,
    down: Mutex<bool>,
    calls: Mutex<Vec<Seen>>,
}

struct Seen {
    at: Duration,
    op_id: OpId,
    answered: bool,
    /// The caller's breaker was open.
    open: bool,
}

impl Provider {
    fn call(&self, node: usize, op_id: OpId) -> Result<u32, Retry> {
        let clock = self.clock.lock().expect("a clock");
        let at = clock.as_ref().expect("set").monotonic();
        let answered = !*self.down.lock().expect("a flag");
        let caller = self.nodes.lock().expect("nodes");
        let open = caller[node].destinations()[0].breaker == CircuitState::Open;
        let seen = Seen {
            at,
            op_id,
            answered,
            open,
        };
        self.calls.lock().expect("a log").push(seen);
        if answered {
            Ok(1)
        } else {
            Err(Retry::not_applied("connection refused"))
        }
    }
}

fn route() -> Route<u32, u32> {
    Route::new("payments", "charge")
        .keyed(Duration::from_secs(24 * 60 * 60))
        .destination("psp")
}

async fn live(cluster: &Cluster, seconds: u32, accepted: &mut Vec<OpId>) {
    for _ in 0..seconds {
        let first = accepted.len() as u32;
        let requests = (first..first + ARRIVALS).map(|n| {
            let order = format!("order-{n}");
            route().request(order, "charge", &n)
        });
        let node = &cluster.nodes[accepted.len() % cluster.nodes.len()];
        let known = node.submit(requests.collect()).await.expect("accepted");
        accepted.extend(known.into_iter().map(|op| op.expect("valid")));
        cluster.advance(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn core_20_the_minute_after_an_outage_is_not_a_storm() {
    let provider = Arc::new(Provider::default());
    let cluster = Cluster::start(2, |node| {
        let provider = provider.clone();
        Clinch::builder().handle(&route(), move |call: Call<u32>| {
            let answer = provider.call(node, call.op_id());
            async move { answer }
        })
    });
    *provider.clock.lock().expect("a clock") = Some(cluster.clock.clone());
    *provider.nodes.lock().expect("nodes") = cluster.nodes.clone();
    let mut accepted = Vec::new();
    live(&cluster, 30, &mut accepted).await;
    *provider.down.lock().expect("a flag") = true;
    live(&cluster, OUTAGE.as_secs() as u32, &mut accepted).await;
    *provider.down.lock().expect("a flag") = false;
    live(&cluster, 600, &mut accepted).await;

    let mut spent = 0;
    for op_id in &accepted {
        let row = cluster.nodes[0].orchestrator().status(*op_id).await;
        let state = row.expect("there").operation.state;
        assert_eq!(state.status, Status::Completed, "{op_id}");
        spent += state.attempts as usize;
    }
    let calls = provider.calls.lock().expect("a log");
    assert!(
        calls.iter().all(|call| !call.open),
        "a call through an open breaker"
    );
    let failed = calls.iter().filter(|call| !call.answered).count();
    let down_for = accepted.len() * 600 / 1_230;
    assert!(
        failed * 20 < down_for,
        "{failed} calls failed, {down_for} were waiting"
    );
    // The recovery minute begins with the first answer after the outage.
    let last_failure = calls
        .iter()
        .rposition(|call| !call.answered)
        .expect("an outage");
    let back = calls[last_failure + 1].at;
    let minute: Vec<_> = calls[last_failure..]
        .iter()
        .filter(|call| call.at < back + MINUTE)
        .collect();
    let answered = minute.iter().filter(|call| call.answered);
    let settled: BTreeSet<OpId> = answered.map(|call| call.op_id).collect();
    let ratio = minute.len() as f64 / settled.len() as f64;
    println!(
        "recovery minute: {} calls, {} settled, ratio {ratio:.3}; {failed} calls failed in the outage",
        minute.len(),
        settled.len()
    );
    assert!(
        settled.len() > 1_000,
        "the backlog drains within a minute: {}",
        settled.len()
    );
    assert!(ratio <= 1.2, "{ratio}");

    // Every attempt was a call, and no call was made while a breaker was open.
    assert_eq!(spent, calls.len());
}
