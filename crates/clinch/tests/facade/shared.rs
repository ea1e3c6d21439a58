//! Several processes know one state of a destination.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch::policy::{Backoff, Opener, RetryRules};
use clinch::ports::{CircuitState, Record, RecordList, RecordWrite, Records};
use clinch::testing::ManualClock;
use clinch::types::Told;
use clinch::{Backend, Call, Clinch, Error, Retry, Route};
use clinch_core::{ErrorKind, Result};
use clinch_memory::Memory;

use crate::support::Cluster;

const SECOND: Duration = Duration::from_secs(1);

/// The records of a store that can be cut off; it counts reads.
struct Line {
    memory: Memory,
    is_cut: AtomicBool,
    reads: AtomicUsize,
}

impl Line {
    fn check(&self) -> Result<()> {
        match self.is_cut.load(Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::Unavailable, "cut")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Records for Line {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.check()?;
        self.memory.read_records(keys).await
    }
    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        self.check()?;
        self.memory.write_records(writes).await
    }
    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        self.memory.list_records(list).await
    }
}

/// Two processes, their provider, and the store between them.
struct Rig {
    cluster: Cluster,
    backend: Backend,
    line: Arc<Line>,
    route: Route<u32, u32>,
    provider: Arc<Provider>,
}

/// Counts the calls of each process.
#[derive(Default)]
struct Provider {
    is_down: AtomicBool,
    /// Asks every caller to pause for a minute.
    is_busy: AtomicBool,
    calls: [AtomicUsize; 3],
}

impl Provider {
    fn calls(&self, node: usize) -> usize {
        self.calls[node].load(Ordering::SeqCst)
    }
}

fn builder(
    route: &Route<u32, u32>,
    provider: &Arc<Provider>,
    node: usize,
) -> clinch::types::Builder {
    let provider = provider.clone();
    Clinch::builder().handle(route, move |call: Call<u32>| {
        let provider = provider.clone();
        async move {
            provider.calls[node].fetch_add(1, Ordering::SeqCst);
            if provider.is_busy.load(Ordering::SeqCst) {
                return Err(Retry::not_applied("429").retry_after(SECOND * 60));
            }
            match provider.is_down.load(Ordering::SeqCst) {
                true => Err(Retry::not_applied("connection refused")),
                false => Ok(call.input),
            }
        }
    })
}

impl Rig {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let memory = Memory::new(clock.clone());
        let line = Arc::new(Line {
            memory: memory.clone(),
            is_cut: AtomicBool::new(false),
            reads: AtomicUsize::new(0),
        });
        let backend = Backend::new(memory).with_records(line.clone());
        let route = Route::new("shop", "charge")
            .natural()
            .destination("bank")
            .retry(RetryRules {
                backoff: Backoff::new(SECOND * 3_600, SECOND * 3_600),
                ..RetryRules::WORKER
            });
        let provider = Arc::new(Provider::default());
        let cluster = Cluster::on(&backend, clock, 2, |node| builder(&route, &provider, node));
        Self {
            cluster,
            backend,
            line,
            route,
            provider,
        }
    }

    fn node(&self, node: usize) -> &Clinch {
        &self.cluster.nodes[node]
    }

    /// One call by this process, if its guards let it through.
    async fn call(&self, node: usize, number: u32) {
        let request = self
            .route
            .request(format!("order-{node}-{number}"), "a", &number);
        let started = self.node(node).start(request, SECOND / 100);
        let (started, ()) = tokio::join!(started, self.cluster.advance(SECOND / 50));
        started.expect("accepted");
    }

    /// Calls by the first process until its breaker opens.
    async fn trip(&self) {
        self.provider.is_down.store(true, Ordering::SeqCst);
        for number in 0..100 {
            if self.breaker(0) == CircuitState::Open {
                return;
            }
            self.call(0, 1_000 + number).await;
        }
        panic!("the breaker stays closed");
    }

    fn breaker(&self, node: usize) -> CircuitState {
        self.node(node).destinations()[0].breaker
    }

    fn cut(&self, is_cut: bool) {
        self.line.is_cut.store(is_cut, Ordering::SeqCst);
    }
}

fn opener() -> Opener {
    Opener {
        by: Some("key:1 (night-shift)".to_owned()),
        reason: "maintenance".to_owned(),
    }
}

#[tokio::test]
async fn core_10_a_breaker_that_opened_in_one_process_holds_in_all_until_one_trial_passes() {
    let rig = Rig::new();
    rig.trip().await;
    let before = rig.provider.calls(1);
    rig.cluster.advance(SECOND).await;
    rig.call(1, 1).await;
    assert_eq!(rig.provider.calls(1), before, "the other process knows");
    assert_eq!(rig.breaker(1), CircuitState::Open);
    let status = rig.node(1).destinations().remove(0);
    let opener = status.opener.expect("opened from outside");
    assert_eq!(opener.by, None);
    assert!(opener.reason.contains("connection refused"), "{opener:?}");
    let ends = |node: usize| {
        rig.node(node).destinations()[0]
            .circuit
            .open_for
            .expect("an end")
    };
    assert!(ends(0).abs_diff(ends(1)) <= SECOND, "one time for both");
    // The provider is back: the trial of one process closes both.
    rig.provider.is_down.store(false, Ordering::SeqCst);
    rig.cluster.advance(SECOND * 30).await;
    let before = rig.provider.calls(0);
    for number in 0..3 {
        rig.call(1, 10 + number).await;
    }
    rig.cluster.advance(SECOND * 2).await;
    assert_eq!(
        rig.provider.calls(0),
        before,
        "only the other process called"
    );
    for node in [0, 1] {
        assert_eq!(rig.breaker(node), CircuitState::Closed, "process {node}");
    }
}

#[tokio::test]
async fn core_15_an_operators_word_holds_in_every_process_before_its_next_call() {
    let rig = Rig::new();
    let told = rig.node(0).open_destination("bank", None, opener()).await;
    assert_eq!(told.expect("opened"), Told::EveryProcess);
    // It made no call yet, and makes none now.
    rig.call(1, 1).await;
    assert_eq!(rig.provider.calls(1), 0);
    let status = rig.node(1).destinations().remove(0);
    assert!(status.circuit.is_forced);
    assert_eq!(status.opener, Some(opener()));
    // Also a process that starts later.
    let late = Cluster::on(&rig.backend, rig.cluster.clock.clone(), 1, |_| {
        builder(&rig.route, &rig.provider, 2)
    });
    rig.cluster.advance(SECOND * 600).await;
    let request = rig.route.request("order-late", "a", &1);
    late.nodes[0]
        .start(request, Duration::ZERO)
        .await
        .expect("accepted");
    rig.cluster.advance(SECOND).await;
    assert_eq!(rig.provider.calls(2), 0);
    assert!(late.nodes[0].destinations()[0].circuit.is_forced);
    // The other process resets it: waiting work goes on within a second or two.
    let told = rig.node(1).reset_destination("bank").await;
    assert_eq!(told.expect("reset"), Told::EveryProcess);
    rig.cluster.advance(SECOND * 2).await;
    let calls: usize = (0..3).map(|node| rig.provider.calls(node)).sum();
    assert_eq!(calls, 2);
    assert_eq!(rig.breaker(0), CircuitState::Closed);
}

#[tokio::test]
async fn core_15_a_provider_that_asks_one_process_to_pause_is_left_alone_by_all() {
    let rig = Rig::new();
    rig.provider.is_busy.store(true, Ordering::SeqCst);
    rig.call(0, 1).await;
    rig.cluster.advance(SECOND * 2).await;
    rig.call(1, 1).await;
    assert_eq!(rig.provider.calls(1), 0, "the other process pauses too");
    let left = rig.node(1).destinations()[0].paused.expect("a pause");
    assert!(left > SECOND * 50, "{left:?}");
    rig.provider.is_busy.store(false, Ordering::SeqCst);
    rig.node(1).reset_destination("bank").await.expect("reset");
    rig.cluster.advance(SECOND * 2).await;
    assert_eq!(rig.node(0).destinations()[0].paused, None, "ended for all");
}

#[tokio::test]
async fn core_15_a_process_that_does_not_reach_the_store_decides_for_itself_and_tells_later() {
    let rig = Rig::new();
    rig.call(1, 0).await;
    rig.cut(true);
    let told = rig.node(0).open_destination("bank", None, opener()).await;
    assert_eq!(told.expect("opened"), Told::ThisProcess);
    assert_eq!(rig.breaker(0), CircuitState::Open);
    assert!(!rig.node(0).catch_up_destinations().await);
    rig.cluster.advance(SECOND * 5).await;
    rig.call(1, 1).await;
    assert_eq!(rig.provider.calls(1), 2, "the other process decides too");
    rig.cut(false);
    rig.cluster.advance(SECOND * 2).await;
    rig.call(1, 2).await;
    assert_eq!(rig.provider.calls(1), 2, "it was told");
    assert_eq!(rig.node(1).destinations()[0].opener, Some(opener()));
    assert!(rig.node(0).catch_up_destinations().await);
}

#[tokio::test]
async fn core_15_of_two_operators_the_last_one_is_obeyed_by_all() {
    let rig = Rig::new();
    let (one, other) = (rig.node(0), rig.node(1));
    for _ in 0..20 {
        let (opened, reset) = tokio::join!(
            one.open_destination("bank", None, opener()),
            other.reset_destination("bank")
        );
        assert_eq!(opened.expect("opened"), Told::EveryProcess);
        assert_eq!(reset.expect("reset"), Told::EveryProcess);
        rig.cluster.advance(SECOND * 2).await;
        one.catch_up_destinations().await;
        other.catch_up_destinations().await;
        assert_eq!(rig.breaker(0), rig.breaker(1));
    }
}

#[tokio::test]
async fn core_15_what_cannot_be_said_is_refused() {
    let rig = Rig::new();
    let long = Opener {
        reason: "x".repeat(100_000),
        ..opener()
    };
    let refused = rig.node(0).open_destination("bank", None, long).await;
    assert_eq!(refused.expect_err("refused").kind(), ErrorKind::Invalid);
    let refused = rig.node(0).reset_destination("nobody").await;
    assert_eq!(refused.expect_err("refused").kind(), ErrorKind::NotFound);
    assert_eq!(rig.breaker(0), CircuitState::Closed);
}

#[tokio::test]
async fn core_15_a_name_that_is_too_long_for_a_record_is_guarded_by_each_process() {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let backend = Backend::new(memory.clone()).with_records(Arc::new(memory));
    let name = "d".repeat(250);
    let route: Route<u32, u32> = Route::new("shop", "charge").natural().destination(&name);
    let cluster = Cluster::on(&backend, clock, 1, |_| {
        Clinch::builder().handle(&route, |call: Call<u32>| async move {
            Ok::<_, Retry>(call.input)
        })
    });
    let node = &cluster.nodes[0];
    let told = node.open_destination(&name, None, opener()).await;
    assert_eq!(told.expect("opened"), Told::ThisProcess);
    assert_eq!(node.destinations()[0].breaker, CircuitState::Open);
    let told = node.reset_destination(&name).await;
    assert_eq!(told.expect("reset"), Told::ThisProcess);
    assert_eq!(node.destinations()[0].breaker, CircuitState::Closed);
    assert!(node.catch_up_destinations().await, "the store answers");
}

#[tokio::test]
async fn col_13_destinations_that_are_well_cost_an_idle_process_nothing() {
    let rig = Rig::new();
    rig.call(0, 1).await;
    rig.call(0, 2).await;
    let before = rig.line.reads.load(Ordering::SeqCst);
    assert_eq!(before, 1, "one read serves the calls of a second");
    rig.cluster.advance(SECOND * 3_600).await;
    assert_eq!(rig.line.reads.load(Ordering::SeqCst), before);
}
