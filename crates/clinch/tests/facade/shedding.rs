//! Who is turned away while due work waits, and who is not.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clinch::testing::{self, ManualClock, Test};
use clinch::types::{Builder, Telemetry};
use clinch::{Backend, Call, Clinch, Done, Retry, Route};
use clinch_core::ports::{Clock, Level, Meter, MetricLabels, NewPause, Tags, Tracer, Work};
use clinch_core::{Domain, ErrorKind};
use clinch_memory::Memory;
use clinch_protect::{BulkheadConfig, CircuitConfig, DestinationConfig, QueueAge, RateConfig};

use crate::support::Cluster;

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);

fn builder() -> Builder {
    Clinch::builder().shed(QueueAge { limit: LIMIT })
}

async fn yes(call: Call<u32>) -> Result<Done<u32>, Retry> {
    Ok(Done::new(call.input))
}

/// A call that nobody answers.
async fn never(_: Call<u32>) -> Result<Done<u32>, Retry> {
    pending().await
}

/// One call at a time, each for as long as it likes.
fn one_slot() -> DestinationConfig {
    DestinationConfig {
        breaker: None,
        concurrency: Some(BulkheadConfig {
            max_concurrent: 1,
            ..BulkheadConfig::default()
        }),
        ..DestinationConfig::NONE
    }
}

fn patient(route: Route<u32, u32>) -> Route<u32, u32> {
    route.natural().timeout(HOUR * 10).total_timeout(HOUR * 10)
}

/// Callers come once in ten seconds for so long; the last is told this.
async fn callers(test: &Test, route: &Route<u32, u32>, lasting: Duration) -> clinch::Result<()> {
    let mut last = Ok(());
    for number in 0..lasting.as_secs() / 10 {
        test.advance(SECOND * 10).await;
        let request = route.request(format!("caller-{number}"), "a", &1);
        let told = test.clinch.start(request, Duration::ZERO).await;
        last = told.map(|_| ());
    }
    last
}

async fn submit(test: &Test, route: &Route<u32, u32>, count: u32) {
    let requests = (0..count).map(|n| route.request(format!("order-{n}"), "a", &n));
    let accepted = test.clinch.submit(requests.collect()).await;
    let accepted = accepted.expect("the store answers");
    assert!(accepted.iter().all(Result::is_ok), "accepted");
}

#[tokio::test]
async fn core_4_callers_are_turned_away_while_work_that_could_run_waits() {
    let route = patient(Route::new("pay", "charge").destination("psp"));
    let builder = builder().destination("psp", one_slot());
    let test = testing::start(builder.handle(&route, never)).expect("it starts");
    submit(&test, &route, 3).await;
    let told = callers(&test, &route, LIMIT * 2).await;
    assert_eq!(told.expect_err("a minute behind").kind(), ErrorKind::Shed);
}

#[tokio::test]
async fn core_4_replays_are_never_turned_away() {
    let route = patient(Route::new("pay", "charge").destination("psp"));
    let builder = builder().destination("psp", one_slot());
    let test = testing::start(builder.handle(&route, never)).expect("it starts");
    submit(&test, &route, 3).await;
    let told = callers(&test, &route, LIMIT * 2).await;
    assert!(told.expect_err("a minute behind").is_retryable());
    let again = route.request("order-1", "a", &1);
    let again = test.clinch.start(again, Duration::ZERO).await;
    assert!(again.expect("it is known").replayed());
    let commands = ["order-2", "new"].map(|key| {
        let command = route.request(key, "a", &2).into_command();
        command.expect("valid")
    });
    let shed = test.clinch.orchestrator().shed(&commands).await;
    assert!(shed[0].is_none(), "a replay among others");
    assert!(shed[1].is_some(), "the others");
}

#[tokio::test]
async fn core_4_what_was_seen_long_ago_turns_nobody_away() {
    let route = patient(Route::new("pay", "charge").destination("psp"));
    let builder = builder().destination("psp", one_slot());
    let test = testing::start(builder.handle(&route, never)).expect("it starts");
    submit(&test, &route, 3).await;
    let told = callers(&test, &route, LIMIT * 2).await;
    assert!(told.is_err(), "a minute behind");
    test.advance(HOUR).await;
    let next = route.request("next", "a", &1);
    let next = test.clinch.start(next, Duration::ZERO).await;
    assert!(next.is_ok(), "nobody has looked for an hour: {next:?}");
    let told = callers(&test, &route, LIMIT * 2).await;
    assert!(told.is_err(), "it is still behind");
}

/// Lines about callers that are turned away, and the numbers.
#[derive(Default)]
struct Told {
    lines: Mutex<Vec<(String, String, Duration)>>,
    count: AtomicU64,
    age: Mutex<f64>,
}

impl Tracer for Told {
    fn context(&self) -> Option<String> {
        None
    }
    fn within<'a>(&self, _stage: &'static str, _tags: &Tags<'_>, work: Work<'a>) -> Work<'a> {
        work
    }
    fn log(&self, _level: Level, message: &'static str, tags: &Tags<'_>) {
        if let (Some(domain), Some(age)) = (tags.domain, tags.age) {
            let line = (message.to_owned(), domain.to_string(), age);
            self.lines.lock().expect("lines").push(line);
        }
    }
}

impl Meter for Told {
    fn add(&self, counter: &'static str, labels: MetricLabels<'_>, count: u64) {
        if counter == "orchestrator.shed.count" && labels == [("domain", "pay")] {
            self.count.fetch_add(count, Ordering::SeqCst);
        }
    }
    fn record(&self, _histogram: &'static str, _labels: MetricLabels<'_>, _value: Duration) {}
    fn set(&self, gauge: &'static str, labels: MetricLabels<'_>, value: f64) {
        if gauge == "orchestrator.shed.age" {
            assert_eq!(labels, [("domain", "pay"), ("destination", "psp")]);
            *self.age.lock().expect("an age") = value;
        }
    }
}

#[tokio::test]
async fn run_10_turning_away_is_counted_measured_and_logged_once() {
    let told = Arc::new(Told::default());
    let telemetry = Telemetry::default().also(told.clone(), told.clone());
    let route = patient(Route::new("pay", "charge").destination("psp"));
    let done = Arc::new(tokio::sync::Notify::new());
    let (gate, builder) = (done.clone(), builder().telemetry(telemetry));
    let builder = builder.destination("psp", one_slot());
    let builder = builder.handle(&route, move |call: Call<u32>| {
        let gate = gate.clone();
        async move {
            gate.notified().await;
            Ok::<_, Retry>(call.input)
        }
    });
    let test = testing::start(builder).expect("it starts");
    submit(&test, &route, 2).await;
    let last = callers(&test, &route, LIMIT * 4).await;
    assert!(last.is_err(), "it is behind");
    let lines = || told.lines.lock().expect("lines").clone();
    let [(message, domain, age)] = &lines()[..] else {
        panic!("one line when it begins: {:?}", lines());
    };
    assert_eq!(message, "shedding began: due work waits too long");
    assert_eq!(domain, "pay");
    assert!(*age > LIMIT, "{age:?}");
    assert!(told.count.load(Ordering::SeqCst) > 5);
    assert!(*told.age.lock().expect("an age") > 100.0);
    // Both end, and whoever was taken in between.
    for _ in 0..20 {
        done.notify_one();
        test.advance(SECOND / 10).await;
    }
    test.clinch.measure().await.expect("gauges");
    assert_eq!(*told.age.lock().expect("an age"), 0.0);
    let last = lines().pop().map(|(message, ..)| message);
    assert_eq!(last.as_deref(), Some("shedding ended"));
    assert_eq!(lines().len(), 2);
}

#[tokio::test]
async fn core_4_what_the_application_submits_itself_is_never_turned_away() {
    let route = patient(Route::new("pay", "charge").destination("psp"));
    let builder = builder().destination("psp", one_slot());
    let test = testing::start(builder.handle(&route, never)).expect("it starts");
    submit(&test, &route, 3).await;
    let told = callers(&test, &route, LIMIT * 2).await;
    assert!(told.is_err(), "callers are turned away");
    let own = route.request("scheduled", "a", &1);
    let own = test.clinch.submit(vec![own]).await.expect("answered");
    assert!(own[0].is_ok(), "its own work is taken: {own:?}");
    let batch = test.clinch.batch::<u32>(None).await.expect("a batch");
    let member = batch.add(vec![route.request("member", "a", &1)]).await;
    assert!(member.expect("answered")[0].is_ok(), "and so are members");
}

#[tokio::test]
async fn core_4_work_for_remote_workers_turns_nobody_away() {
    let away: Route<u32, u32> = Route::new("pay", "away").natural();
    let here: Route<u32, u32> = Route::new("pay", "here").natural();
    let builder = builder().remote(&away).handle(&here, yes);
    let test = testing::start(builder).expect("it starts");
    submit(&test, &away, 1).await;
    callers(&test, &here, HOUR).await.expect("another route");
    callers(&test, &away, HOUR).await.expect("its own route");
}

#[tokio::test]
async fn core_4_a_run_at_in_the_past_makes_no_work_old() {
    let route = patient(Route::new("pay", "charge").destination("psp"));
    let builder = builder().destination("psp", one_slot());
    let test = testing::start(builder.handle(&route, never)).expect("it starts");
    submit(&test, &route, 1).await;
    let told = callers(&test, &route, SECOND * 20).await;
    told.expect("nothing waits for long");
    let long_ago = clinch_core::Timestamp::from_millis(0);
    let backdated = route.request("backdated", "a", &1).run_at(long_ago);
    let accepted = test.clinch.submit(vec![backdated]).await;
    assert!(accepted.expect("answered")[0].is_ok());
    test.advance(SECOND * 2).await;
    let next = route.request("next", "a", &1);
    let told = test.clinch.start(next, Duration::ZERO).await;
    assert!(told.is_ok(), "it waits for two seconds: {told:?}");
}

#[tokio::test]
async fn core_4_a_domain_that_was_paused_turns_nobody_away_when_it_goes_on() {
    let clock = Arc::new(ManualClock::default());
    let backend = Backend::new(Memory::new(clock.clone()));
    let route: Route<u32, u32> = Route::new("pay", "charge").natural();
    let busy = clock.clone();
    let cluster = Cluster::on(&backend, clock, 1, |_| {
        let clock = busy.clone();
        builder()
            .concurrency(1)
            .handle(&route, move |call: Call<u32>| {
                let clock = clock.clone();
                async move {
                    clock.sleep(SECOND).await;
                    Ok::<_, Retry>(call.input)
                }
            })
    });
    let node = &cluster.nodes[0];
    let domain = Domain::new("pay").expect("a name");
    backend
        .domains()
        .pause(&domain, &NewPause::default())
        .await
        .expect("paused");
    let first = (0..10).map(|n| route.request(format!("order-{n}"), "a", &n));
    node.submit(first.collect()).await.expect("accepted");
    cluster.advance(HOUR).await;
    backend.domains().resume(&domain).await.expect("resumed");
    let told = node
        .start(route.request("next", "a", &1), Duration::ZERO)
        .await;
    assert!(told.is_ok(), "nothing could run for an hour: {told:?}");
}

#[tokio::test]
async fn core_4_work_that_waits_for_its_rate_turns_nobody_away() {
    let route: Route<u32, u32> = Route::new("pay", "charge").natural().destination("psp");
    let slow = DestinationConfig {
        rate: Some(RateConfig::new(1, Duration::from_secs(60))),
        ..DestinationConfig::NONE
    };
    let builder = builder().destination("psp", slow).handle(&route, yes);
    let test = testing::start(builder).expect("it starts");
    submit(&test, &route, 50).await;
    callers(&test, &route, HOUR / 2)
        .await
        .expect("it waits for its provider");
}

#[tokio::test]
async fn core_4_an_outage_turns_nobody_away_when_it_ends() {
    let clock = Arc::new(ManualClock::default());
    let backend = Backend::new(Memory::new(clock.clone()));
    let route: Route<u32, u32> = Route::new("pay", "charge").natural().destination("psp");
    let route = route.max_attempts(1_000);
    let up = Arc::new(AtomicBool::new(false));
    let (answers, time) = (up.clone(), clock.clone());
    let cluster = Cluster::on(&backend, clock, 1, |_| {
        let guards = DestinationConfig {
            breaker: Some(CircuitConfig::default()),
            ..one_slot()
        };
        let (answers, time) = (answers.clone(), time.clone());
        builder()
            .destination("psp", guards)
            .handle(&route, move |call: Call<u32>| {
                let (up, time) = (answers.clone(), time.clone());
                async move {
                    time.sleep(SECOND).await;
                    match up.load(Ordering::SeqCst) {
                        true => Ok(call.input),
                        false => Err(Retry::not_applied("down")),
                    }
                }
            })
    });
    let node = &cluster.nodes[0];
    let waiting = (0..100).map(|n| route.request(format!("order-{n}"), "a", &n));
    node.submit(waiting.collect()).await.expect("accepted");
    cluster.advance(HOUR).await;
    up.store(true, Ordering::SeqCst);
    let is_closed = || node.destinations()[0].breaker == clinch_core::ports::CircuitState::Closed;
    while !is_closed() {
        cluster.advance(SECOND).await;
    }
    let told = node
        .start(route.request("next", "a", &1), Duration::ZERO)
        .await;
    assert!(told.is_ok(), "its provider was away for an hour: {told:?}");
}

#[tokio::test]
async fn core_4_operations_that_wait_for_their_predecessor_turn_nobody_away() {
    let clock = Arc::new(ManualClock::default());
    let backend = Backend::new(Memory::new(clock.clone()));
    let route: Route<u32, u32> = Route::new("pay", "step").natural().ordered();
    let route = route.timeout(HOUR).total_timeout(HOUR);
    let busy = clock.clone();
    let cluster = Cluster::on(&backend, clock, 1, |_| {
        let clock = busy.clone();
        builder()
            .concurrency(1)
            .handle(&route, move |call: Call<u32>| {
                let clock = clock.clone();
                async move {
                    clock.sleep(SECOND * 50).await;
                    Ok::<_, Retry>(call.input)
                }
            })
    });
    let node = &cluster.nodes[0];
    let lane = (0..20).map(|n| route.request("order-1", format!("{n}"), &n));
    node.submit(lane.collect()).await.expect("accepted");
    for number in 0..60 {
        cluster.advance(SECOND * 10).await;
        let other = route
            .request(format!("other-{number}"), "a", &1)
            .priority(-1);
        let told = node.start(other, Duration::ZERO).await;
        assert!(told.is_ok(), "after {number} times 10 s: {told:?}");
    }
}

#[tokio::test]
async fn core_4_a_full_destination_turns_no_other_away() {
    let long = patient(Route::new("github", "page").destination("github"));
    let plan: Route<u32, u32> = Route::new("github", "plan").natural();
    let builder = builder().destination("github", one_slot());
    let test = testing::start(builder.handle(&long, never).handle(&plan, yes)).expect("it starts");
    submit(&test, &long, 50).await;
    callers(&test, &plan, HOUR)
        .await
        .expect("one user's long run");
}
