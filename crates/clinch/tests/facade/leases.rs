//! Remote workers under the guards of their destination, and what is told of them.

use std::time::Duration;

use clinch::{Clinch, Route};
use clinch_core::ports::{CircuitState, Clock};
use clinch_core::{Domain, ErrorKind, Fail, Outcome, Payload, Retry, Success, WorkerId};
use clinch_engine::{LeaseRequest, Leased, Report};
use clinch_protect::{BulkheadConfig, CircuitConfig, DestinationConfig, RateConfig, Window};

use crate::support::Cluster;
use crate::telemetry::{Board, Lines};

const SECOND: Duration = Duration::from_secs(1);

fn route() -> Route<u32, u32> {
    Route::new("far", "call").destination("psp").natural()
}

fn cluster(limits: DestinationConfig, route: &Route<u32, u32>) -> Cluster {
    Cluster::start(1, |_| {
        let builder = Clinch::builder().destination("psp", limits.clone());
        builder.leased(route)
    })
}

async fn submitted(cluster: &Cluster, count: u32) {
    let requests = (0..count).map(|n| route().request(format!("order-{n}"), "a", &n));
    let accepted = cluster.nodes[0].submit(requests.collect()).await;
    assert!(accepted.expect("accepted").iter().all(Result::is_ok));
}

fn request(max: usize, wait: Duration) -> LeaseRequest {
    LeaseRequest {
        domain: Domain::new("far").expect("a domain"),
        event_types: Vec::new(),
        max,
        wait,
        lease: SECOND * 30,
        worker: WorkerId::new("py-1").expect("a worker"),
    }
}

async fn lease(cluster: &Cluster, max: usize) -> Vec<Leased> {
    let orchestrator = cluster.nodes[0].orchestrator();
    let leased = orchestrator.lease(&request(max, Duration::ZERO)).await;
    leased.expect("leased")
}

async fn report(cluster: &Cluster, leased: &Leased, outcome: Outcome) {
    let report = Report {
        attempt: leased.attempt(),
        worker: WorkerId::new("py-1").expect("a worker"),
        outcome,
        left_out: Vec::new(),
    };
    let reported = cluster.nodes[0].orchestrator().report(report).await;
    reported.expect("taken");
}

fn yes() -> Outcome {
    Outcome::Ok(Success::new(Payload::null()))
}

fn broken() -> Outcome {
    Outcome::Retry(Retry::unknown("it broke"))
}

#[tokio::test]
async fn leases_stay_within_the_rate() {
    let limits = DestinationConfig {
        rate: Some(RateConfig::new(3, SECOND)),
        ..DestinationConfig::NONE
    };
    let cluster = cluster(limits, &route());
    submitted(&cluster, 10).await;
    assert_eq!(lease(&cluster, 100).await.len(), 3);
    assert_eq!(lease(&cluster, 100).await.len(), 0, "the rate is used up");
    cluster.advance(SECOND).await;
    assert_eq!(lease(&cluster, 100).await.len(), 3);
}

#[tokio::test]
async fn leases_at_once_stay_within_the_concurrency() {
    let slots = BulkheadConfig {
        max_concurrent: 2,
        ..BulkheadConfig::default()
    };
    let limits = DestinationConfig {
        concurrency: Some(slots),
        ..DestinationConfig::NONE
    };
    let cluster = cluster(limits, &route());
    submitted(&cluster, 6).await;
    let first = lease(&cluster, 100).await;
    assert_eq!(first.len(), 2);
    assert_eq!(lease(&cluster, 100).await.len(), 0, "both are in hand");
    // A worker that waits is woken by the report of another.
    let orchestrator = cluster.nodes[0].orchestrator().clone();
    let waits = request(100, SECOND * 20);
    let waiting = tokio::spawn(async move { orchestrator.lease(&waits).await });
    cluster.advance(SECOND / 10).await;
    assert!(!waiting.is_finished());
    report(&cluster, &first[0], yes()).await;
    cluster.advance(Duration::from_millis(1)).await;
    let second = waiting.await.expect("it ends").expect("leased");
    assert_eq!(second.len(), 1, "one slot was free");
    // A lease that nobody reports on gives its slot back when it has ended.
    cluster.advance(SECOND * 60).await;
    assert_eq!(lease(&cluster, 100).await.len(), 2);
}

#[tokio::test]
async fn outcomes_of_remote_workers_open_the_breaker() {
    let breaker = CircuitConfig {
        window: Window::Count(4),
        min_calls: 4,
        open: SECOND * 30,
        ..CircuitConfig::default()
    };
    let limits = DestinationConfig {
        breaker: Some(breaker),
        ..DestinationConfig::NONE
    };
    let cluster = cluster(limits, &route());
    submitted(&cluster, 8).await;
    for leased in lease(&cluster, 4).await {
        report(&cluster, &leased, broken()).await;
    }
    let status = &cluster.nodes[0].destinations()[0];
    assert_eq!(status.breaker, CircuitState::Open);
    assert_eq!(lease(&cluster, 100).await.len(), 0, "nothing is begun");
    cluster.advance(SECOND * 31).await;
    let trial = lease(&cluster, 100).await;
    assert_eq!(trial.len(), 3, "half open");
    for leased in &trial {
        report(&cluster, leased, yes()).await;
    }
    let status = &cluster.nodes[0].destinations()[0];
    assert_eq!(status.breaker, CircuitState::Closed);
}

#[tokio::test]
async fn a_release_frees_the_slot_and_says_nothing_of_the_provider() {
    let limits = DestinationConfig {
        concurrency: Some(BulkheadConfig {
            max_concurrent: 1,
            ..BulkheadConfig::default()
        }),
        ..DestinationConfig::NONE
    };
    let cluster = cluster(limits, &route());
    submitted(&cluster, 1).await;
    let leased = lease(&cluster, 1).await.pop().expect("one");
    let orchestrator = cluster.nodes[0].orchestrator();
    let worker = WorkerId::new("py-1").expect("a worker");
    let released = orchestrator.release(leased.attempt(), worker).await;
    assert_eq!(released.expect("taken").attempts, 0);
    assert_eq!(lease(&cluster, 1).await.len(), 1);
}

#[tokio::test]
async fn a_storm_of_retries_is_slowed_down() {
    let limits = DestinationConfig {
        budget: Some(clinch_protect::RatioConfig {
            ratio: 0.0,
            min_per_second: 1,
            ..clinch_protect::RatioConfig::default()
        }),
        ..DestinationConfig::NONE
    };
    let cluster = cluster(limits, &route());
    submitted(&cluster, 30).await;
    for leased in lease(&cluster, 30).await {
        report(&cluster, &leased, broken()).await;
    }
    cluster.advance(SECOND * 10).await;
    let again = lease(&cluster, 100).await.len();
    assert!((1..=15).contains(&again), "{again} in ten seconds");
}

#[tokio::test]
async fn no_lease_is_longer_than_the_route_allows() {
    let route = route().lease_max(SECOND * 5);
    let cluster = cluster(DestinationConfig::NONE, &route);
    submitted(&cluster, 1).await;
    let leased = lease(&cluster, 1).await.pop().expect("one");
    let now = cluster.clock.now();
    assert_eq!(leased.lease_until, Some(now + SECOND * 5));
    let orchestrator = cluster.nodes[0].orchestrator();
    cluster.advance(SECOND * 3).await;
    let now = cluster.clock.now();
    let beat = orchestrator.heartbeat(leased.attempt(), SECOND * 60).await;
    assert_eq!(beat.expect("taken").lease_until, Some(now + SECOND * 5));
}

#[tokio::test]
async fn a_route_that_another_process_calls_is_not_leased() {
    let cluster = Cluster::start(1, |_| Clinch::builder().remote(&route()));
    submitted(&cluster, 1).await;
    let orchestrator = cluster.nodes[0].orchestrator();
    let refused = orchestrator.lease(&request(1, Duration::ZERO)).await;
    let kind = refused
        .map(|leased| leased.len())
        .map_err(|error| error.kind());
    assert_eq!(kind, Err(ErrorKind::Invalid));
}

#[tokio::test]
async fn core_14_core_15_outcomes_of_remote_workers_are_counted_measured_and_traced() {
    let (board, lines) = (Board::default(), Lines::default());
    let recording = metrics::set_default_local_recorder(&board);
    let logging = lines.capture();
    let cluster = cluster(DestinationConfig::NONE, &route());
    submitted(&cluster, 3).await;
    let refused = Outcome::Fail(Fail::new("declined", "no"));
    let ends = [yes(), broken(), refused];
    for (leased, outcome) in lease(&cluster, 3).await.iter().zip(ends) {
        report(&cluster, leased, outcome.clone()).await;
        // The same again is no second outcome.
        report(&cluster, leased, outcome).await;
    }
    drop((logging, recording));
    let board = board.0.lock().expect("a board").clone();
    let call = "domain=far event_type=call";
    for (name, count) in [
        ("pump.outcome.ok.count", 1.0),
        ("pump.outcome.retry.count", 1.0),
        ("pump.outcome.fail.count", 1.0),
        ("execute.duration", 3.0),
        ("settle.duration", 3.0),
        ("end_to_end.duration", 2.0),
    ] {
        let told = board.get(&format!("orchestrator.{name} {call}"));
        assert_eq!(told, Some(&count), "{name} in {board:#?}");
    }
    let text = lines.text();
    for stage in ["attempt", "settle"] {
        assert!(text.contains(&format!("stage=\"{stage}\"")), "{stage}");
    }
    let ended = text.lines().find(|line| line.contains("attempt ended"));
    let ended = ended.expect("its end is logged");
    for tag in ["op.id=", "attempt=", "latency.ms=", "outcome="] {
        assert!(ended.contains(tag), "{tag} in {ended}");
    }
}
