//! Probes are calls of their destination, and wake each other up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use clinch::types::{Builder, Probed};
use clinch::{Call, Clinch, Done, Retry, Route};
use clinch_core::OpId;
use clinch_core::ports::Clock;
use clinch_core::protocol::Phase;
use clinch_memory::ManualClock;
use clinch_protect::{DestinationConfig, RateConfig};

use crate::support::Cluster;

const SECOND: Duration = Duration::from_secs(1);
const THINKS: Duration = Duration::from_millis(50);

fn route() -> Route<u32, u32> {
    Route::new("payments", "charge").destination("psp")
}

/// When the provider was called or asked.
#[derive(Clone, Default)]
struct Book {
    clock: Arc<Mutex<Option<Arc<ManualClock>>>>,
    calls: Arc<Mutex<Vec<Duration>>>,
    probes: Arc<Mutex<Vec<Duration>>>,
}

impl Book {
    fn clock(&self) -> Arc<ManualClock> {
        self.clock.lock().expect("a clock").clone().expect("set")
    }

    fn note(&self, of: &Mutex<Vec<Duration>>) -> usize {
        let mut of = of.lock().expect("a log");
        of.push(self.clock().monotonic());
        of.len()
    }

    fn all(&self) -> Vec<Duration> {
        let mut all = self.calls.lock().expect("a log").clone();
        all.extend(self.probes.lock().expect("a log").iter());
        all.sort();
        all
    }
}

/// Every call is lost; `probe` gets the number of the question.
fn builder(
    book: &Book,
    limits: DestinationConfig,
    probe: impl Fn(usize) -> Probed<u32> + Clone + Send + Sync + 'static,
) -> Builder {
    let (calls, probes) = (book.clone(), book.clone());
    let builder = Clinch::builder().destination("psp", limits);
    let builder = builder.handle(&route(), move |_: Call<u32>| {
        calls.note(&calls.calls);
        async { Err::<Done<u32>, _>(Retry::unknown("it broke")) }
    });
    builder.probe(&route(), move |_: Call<u32>| {
        let (number, clock) = (probes.note(&probes.probes), probes.clock());
        let said = probe(number);
        async move {
            clock.sleep(THINKS).await;
            Ok::<_, ()>(said)
        }
    })
}

async fn submitted(cluster: &Cluster, count: u32) -> Vec<OpId> {
    let requests = (0..count).map(|n| route().request(format!("order-{n}"), "a", &n));
    let accepted = cluster.nodes[0].submit(requests.collect()).await;
    let accepted = accepted.expect("accepted").into_iter();
    accepted.map(|op| op.expect("valid")).collect()
}

/// Every operation is settled.
async fn all_settled(cluster: &Cluster, ops: &[OpId], book: &Book) {
    let mut open = Vec::new();
    for op in ops {
        let row = cluster.nodes[0].orchestrator().status(*op).await;
        let state = row.expect("there").operation.state;
        if !state.is_terminal() {
            open.push(state);
        }
    }
    let probes = book.probes.lock().expect("a log").len();
    let (first, made) = (open.first(), book.all().len() - probes);
    let now = cluster.clock.now();
    let some = open.len();
    assert_eq!(
        some, 0,
        "{made} calls, {probes} probes, {now:?}: {first:#?}"
    );
}

async fn is_settled(cluster: &Cluster, op: OpId) -> bool {
    let row = cluster.nodes[0].orchestrator().status(op).await;
    row.expect("there").operation.state.is_terminal()
}

fn yes(_: usize) -> Probed<u32> {
    Probed::Succeeded(Done::new(7))
}

fn unlimited() -> DestinationConfig {
    DestinationConfig {
        breaker: None,
        ..DestinationConfig::default()
    }
}

#[tokio::test]
async fn probes_and_calls_share_the_rate_and_use_all_of_it() {
    const PERMITS: u32 = 20;
    const OPERATIONS: u32 = 200;
    let book = Book::default();
    let limits = DestinationConfig {
        rate: Some(RateConfig::new(PERMITS, SECOND)),
        ..unlimited()
    };
    let cluster = Cluster::start(1, |_| builder(&book, limits.clone(), yes));
    *book.clock.lock().expect("a clock") = Some(cluster.clock.clone());
    let ops = submitted(&cluster, OPERATIONS).await;
    // 400 calls and probes at 20 a second, and some for calls that find the rate used up.
    cluster.advance(SECOND * 40).await;
    all_settled(&cluster, &ops, &book).await;
    let all = book.all();
    assert_eq!(all.len(), 2 * OPERATIONS as usize, "one call, one probe");
    for (first, at) in all.iter().enumerate() {
        let within = all[first..].iter().filter(|one| **one < *at + SECOND);
        assert!(
            within.count() <= PERMITS as usize,
            "over the rate at {at:?}"
        );
    }
}

#[tokio::test]
async fn a_probe_that_ends_makes_room_for_the_next_at_once() {
    const OPERATIONS: u32 = 480;
    let book = Book::default();
    let cluster = Cluster::start(1, |_| builder(&book, unlimited(), yes));
    *book.clock.lock().expect("a clock") = Some(cluster.clock.clone());
    let ops = submitted(&cluster, OPERATIONS).await;
    // Sixteen at a time: thirty rounds of 50 ms.
    cluster.advance(SECOND * 3).await;
    all_settled(&cluster, &ops, &book).await;
}

#[tokio::test]
async fn col_8_a_429_to_a_probe_pauses_the_destination_and_is_no_doubt() {
    let book = Book::default();
    let later = |number: usize| match number {
        1 => Probed::Later(Some(SECOND * 60)),
        number => yes(number),
    };
    let cluster = Cluster::start(1, |_| builder(&book, unlimited(), later));
    *book.clock.lock().expect("a clock") = Some(cluster.clock.clone());
    let ops = submitted(&cluster, 1).await;
    cluster.advance(SECOND * 2).await;
    // Calls stay away too.
    let more = submitted_as(&cluster, "later").await;
    cluster.advance(SECOND * 50).await;
    assert_eq!(book.all().len(), 2, "one call, one question, then a pause");
    let row = cluster.nodes[0].orchestrator().status(ops[0]).await;
    let state = row.expect("there").operation.state;
    assert_eq!(state.phase, Some(Phase::Held));
    assert_eq!(state.hold.expect("held").probes, 0, "it is no doubt");
    cluster.advance(SECOND * 60).await;
    for op in [ops[0], more] {
        assert!(is_settled(&cluster, op).await, "{op} is asked about again");
    }
}

async fn submitted_as(cluster: &Cluster, key: &str) -> OpId {
    let request = route().request(key, "a", &1);
    let accepted = cluster.nodes[0].submit(vec![request]).await;
    let accepted = accepted.expect("accepted").pop();
    accepted.expect("one").expect("valid")
}

#[tokio::test]
async fn a_destination_that_is_paused_does_not_hold_up_the_probes_of_another() {
    let slow = || Route::<u32, u32>::new("payments", "refund").destination("bank");
    let book = Book::default();
    let cluster = Cluster::start(1, |_| {
        let builder = builder(&book, unlimited(), yes);
        let builder = builder.destination("bank", unlimited());
        let builder = builder.handle(&slow(), |_: Call<u32>| async {
            Err::<Done<u32>, _>(Retry::unknown("it broke"))
        });
        builder.probe(&slow(), |_: Call<u32>| async {
            Ok::<_, ()>(Probed::<u32>::Later(Some(SECOND * 3_600)))
        })
    });
    *book.clock.lock().expect("a clock") = Some(cluster.clock.clone());
    let stuck = (0..100).map(|n| slow().request(format!("refund-{n}"), "a", &n));
    let stuck = cluster.nodes[0].submit(stuck.collect()).await;
    assert_eq!(stuck.expect("accepted").len(), 100);
    cluster.advance(SECOND).await;
    let ops = submitted(&cluster, 50).await;
    cluster.advance(SECOND * 10).await;
    for op in ops {
        assert!(is_settled(&cluster, op).await, "{op} waits for the bank");
    }
}
