//! Fresh prefixes, plain connections and small hands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{Bus, Delivery, Dequeue, Hint, Publication, Topic};
use clinch_core::{Domain, EventType, OpId, WorkerId};
use clinch_redis::{Redis, RedisBus, Settings};
use clinch_testbed::{Kind, Server, shared};
use redis::aio::MultiplexedConnection;

pub(crate) const VISIBILITY: Duration = Duration::from_secs(30);

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn url() -> String {
    shared(Kind::Redis).expect("a server")
}

/// Settings under a prefix that nobody else has.
pub(crate) fn fresh() -> Settings {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    Settings::with_prefix(format!("test-{}-{number}", std::process::id()))
}

/// The same without a scheduler, for tests that bring their own.
pub(crate) fn unscheduled() -> Settings {
    Settings {
        scheduler: false,
        ..fresh()
    }
}

pub(crate) async fn connect(settings: &Settings) -> Redis {
    let redis = Redis::connect(&url(), settings.clone()).await;
    redis.expect("a connection")
}

pub(crate) async fn bus(settings: &Settings) -> RedisBus {
    let bus = RedisBus::connect(&url(), settings.clone()).await;
    bus.expect("a bus")
}

/// A server that no other test uses, and a bus on it.
pub(crate) async fn private() -> (Server, Settings, RedisBus) {
    let (server, settings) = (Server::start(Kind::Redis).expect("a server"), fresh());
    let bus = RedisBus::connect(&server.url(), settings.clone()).await;
    (server, settings, bus.expect("a bus"))
}

/// A connection behind the adapter's back.
pub(crate) async fn raw(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("an address");
    let connection = client.get_multiplexed_async_connection().await;
    connection.expect("a connection")
}

pub(crate) async fn ask_raw<T: redis::FromRedisValue>(
    connection: &mut MultiplexedConnection,
    words: &[&str],
) -> T {
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query_async(connection).await.expect("an answer")
}

/// A key of the bus.
pub(crate) fn key(settings: &Settings, name: &str) -> String {
    format!("{{{}}}:{name}", settings.prefix)
}

pub(crate) fn domain(name: &str) -> Domain {
    Domain::new(name).expect("a domain")
}

pub(crate) fn hint(of: &str) -> Hint {
    static MADE: AtomicU64 = AtomicU64::new(1);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    Hint {
        op_id: OpId(uuid::Uuid::from_u64_pair(1, number)),
        domain: domain(of),
        event_type: EventType::new("call").expect("a name"),
        lane: None,
        dispatch_no: 1,
        trace: None,
    }
}

pub(crate) async fn publish(bus: &RedisBus, hints: &[Hint], delay: Duration) {
    let publication = |hint: &Hint| Publication::to_all(hint.clone(), delay);
    let publications: Vec<_> = hints.iter().map(publication).collect();
    bus.publish(&publications).await.expect("published");
}

pub(crate) fn ask(domains: &[&str], max: usize, wait: Duration) -> Dequeue {
    Dequeue {
        topics: domains
            .iter()
            .map(|name| Topic::of(&domain(name)))
            .collect(),
        max,
        wait,
        visibility: VISIBILITY,
        worker: WorkerId::new("worker").expect("a name"),
        attempts: Vec::new(),
        routes: Arc::new(Routes::new()),
        only: Arc::new(Routes::new()),
    }
}

/// What is there, without waiting.
pub(crate) async fn take(bus: &RedisBus, max: usize) -> Vec<Delivery> {
    let taken = bus.dequeue(&ask(&["a"], max, Duration::ZERO)).await;
    taken.expect("deliveries")
}

/// The next that comes.
pub(crate) async fn wait(bus: &RedisBus) -> Delivery {
    let dequeue = ask(&["a"], 1, secs(100));
    let taken = bus.dequeue(&dequeue).await.expect("deliveries");
    taken.into_iter().next().expect("a delivery")
}

pub(crate) async fn advance(bus: &RedisBus, by: Duration) {
    bus.advance(by).await.expect("the server is there");
}
