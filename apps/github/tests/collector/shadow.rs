//! Shadow runs: a sink of their own, and comparisons of documents and runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch::ports::{Document, DocumentFilter, DocumentName, DocumentSink};
use clinch::testing::{ManualClock, advance};
use clinch::types::ErrorKind;
use clinch::{Clinch, Error, Result};
use clinch_github::fake::{BASE, Fake, Faults, Setup, Size, World};
use clinch_github::{Collector, CompareLimits, Parts, Run, Settings, Space, Start, Token, Trigger};
use clinch_memory::Memory;

use crate::lab::{Lab, assert_whole, attached, budgets};

const TOKEN: &str = "fake-robot-1";

fn small(seed: u64) -> World {
    let size = Size {
        users: 1,
        repositories: 6,
        documents: 500,
    };
    World::generate(seed, &size)
}

/// A collector whose shadow runs have a sink of their own.
struct TwoSinks {
    clock: Arc<ManualClock>,
    old: Memory,
    new: Memory,
    fake: Fake,
    collector: Collector,
    clinch: Clinch,
}

impl TwoSinks {
    async fn start(world: World) -> Self {
        let clock = Arc::new(ManualClock::default());
        let (old, new) = (Memory::new(clock.clone()), Memory::new(clock.clone()));
        let fake = Fake::new(world, Setup::default(), clock.clone());
        let collector = collector(&old, Arc::new(new.clone()), &fake, &clock);
        let (collector, clinch) = attached(collector, &old, &clock, |builder| builder).await;
        Self {
            clock,
            old,
            new,
            fake,
            collector,
            clinch,
        }
    }

    async fn run(&self, start: Start) -> Run {
        let run = self.collector.start_with("octocat", &start).await;
        let run = run.expect("it begins");
        for _ in 0..10_000 {
            advance(&self.clock, Duration::from_secs(1)).await;
            let run = self.collector.run(&run.run_id).await.expect("there");
            if run.status.is_terminal() {
                return run;
            }
        }
        panic!("{} does not end", run.run_id);
    }
}

impl Drop for TwoSinks {
    fn drop(&mut self) {
        self.clinch.stop();
    }
}

fn collector(
    memory: &Memory,
    shadow: Arc<dyn DocumentSink>,
    fake: &Fake,
    clock: &Arc<ManualClock>,
) -> Collector {
    let parts = Parts {
        settings: Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new(TOKEN)],
            ..Settings::default()
        },
        records: Arc::new(memory.clone()),
        documents: Arc::new(memory.clone()),
        quota: budgets(clock),
        transport: Arc::new(fake.clone()),
        inspect: Arc::new(memory.clone()),
        clock: clock.clone(),
    };
    Collector::with_shadow_sink(parts, Some(shadow))
}

fn shadow() -> Start {
    Start {
        space: Space::Shadow,
        ..Start::default()
    }
}

fn full() -> Start {
    Start {
        is_full: true,
        ..Start::default()
    }
}

async fn count(memory: &Memory, collection: &str) -> u64 {
    let counts = memory.count(collection, Some("octocat")).await;
    counts.expect("counted").values().sum()
}

#[tokio::test]
async fn col_18_a_shadow_run_stores_into_a_second_sink_and_is_compared_across_both() {
    let lab = TwoSinks::start(small(1)).await;
    assert_whole(&lab.run(Start::default()).await);
    assert_whole(&lab.run(shadow()).await);
    assert_eq!(count(&lab.old, "github").await, 500);
    assert_eq!(count(&lab.new, "github-shadow").await, 500);
    let elsewhere = [
        count(&lab.old, "github-shadow").await,
        count(&lab.new, "github").await,
    ];
    assert_eq!(elsewhere, [0, 0], "each sink has its own");
    let equal = lab.collector.compare("octocat").await.expect("compared");
    assert!(equal.is_equal() && equal.equal == 500, "{equal:?}");
    let page = lab
        .collector
        .documents(Space::Shadow, &DocumentFilter::default(), None, 1_000)
        .await;
    assert_eq!(page.expect("read").len(), 500);

    lab.fake.with_world(|world| world.change(2, 10));
    assert_whole(&lab.run(Start::default()).await);
    let differs = lab.collector.compare("octocat").await.expect("compared");
    assert!(!differs.is_equal(), "{differs:?}");
    let forgotten = lab.collector.forget("octocat").await.expect("forgotten");
    assert!(forgotten >= 1_000, "{forgotten}");
    assert_eq!(count(&lab.new, "github-shadow").await, 0);
}

/// A sink of 200,000 documents that are made when they are read. Every thousandth differs from that
/// of another sink.
struct MadeUp {
    differs: bool,
    reads: AtomicUsize,
    largest: AtomicUsize,
}

const MADE_UP: u64 = 200_000;

impl MadeUp {
    fn new(differs: bool) -> Arc<Self> {
        Arc::new(Self {
            differs,
            reads: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
        })
    }

    fn document(&self, number: u64) -> Document {
        let is_other = self.differs && number.is_multiple_of(1_000);
        Document {
            id: format!("issue:{number:08}"),
            kind: "issue".to_owned(),
            user: "octocat".to_owned(),
            resource: "repo:octocat/hello".to_owned(),
            body: format!("{{\"number\":{number},\"is_other\":{is_other}}}"),
        }
    }
}

fn unused<T>() -> Result<T> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "the test does not use it",
    ))
}

#[async_trait]
impl DocumentSink for MadeUp {
    async fn upsert(&self, _: &str, _: &[Document]) -> Result<()> {
        unused()
    }

    async fn scan(
        &self,
        _: &str,
        _: &DocumentFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        let after = after.and_then(|id| id.strip_prefix("issue:"));
        let from = after.map_or(0, |id| id.parse::<u64>().expect("a number") + 1);
        let to = (from + limit as u64).min(MADE_UP);
        let page: Vec<Document> = (from..to).map(|number| self.document(number)).collect();
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.largest.fetch_max(page.len(), Ordering::Relaxed);
        Ok(page)
    }

    async fn list(
        &self,
        _: &str,
        _: &DocumentFilter,
        _: Option<&str>,
        _: usize,
    ) -> Result<Vec<DocumentName>> {
        unused()
    }

    async fn count(&self, _: &str, _: Option<&str>) -> Result<BTreeMap<String, u64>> {
        unused()
    }

    async fn clear(&self, _: &str, _: &DocumentFilter) -> Result<()> {
        unused()
    }

    async fn relocate(&self, _: &str, _: &str, _: &[String]) -> Result<u64> {
        unused()
    }
}

#[tokio::test]
async fn col_18_two_sinks_of_200_000_documents_are_compared_page_by_page() {
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let (main, other) = (MadeUp::new(false), MadeUp::new(true));
    let parts = Parts {
        settings: Settings::default(),
        records: Arc::new(memory.clone()),
        documents: main.clone(),
        quota: budgets(&clock),
        transport: Arc::new(Fake::new(small(1), Setup::default(), clock.clone())),
        inspect: Arc::new(memory),
        clock,
    };
    let collector = Collector::with_shadow_sink(parts, Some(other.clone()));
    let compared = collector.compare("octocat").await.expect("compared");
    assert_eq!((compared.equal, compared.different), (199_800, 200));
    assert_eq!((compared.missing, compared.extra), (0, 0));
    assert_eq!(compared.examples.len(), 20);
    for sink in [main, other] {
        assert!(
            sink.largest.load(Ordering::Relaxed) <= 64,
            "pages are small"
        );
        let reads = sink.reads.load(Ordering::Relaxed) as u64;
        assert!(reads <= MADE_UP / 64 + 1, "{reads} reads: each page once");
    }
}

#[tokio::test]
async fn col_18_runs_are_compared_by_jobs_pages_time_and_errors() {
    let world = small(3);
    let broken = world.full_names().swap_remove(0);
    let lab = Lab::new(world, Setup::default(), &[TOKEN]).await;
    let limits = CompareLimits::default();
    let none = lab.collector.compare_runs("nobody", &limits).await;
    assert_eq!(none.expect_err("no run").kind(), ErrorKind::NotFound);
    assert_whole(&lab.run("octocat").await);
    let none = lab.collector.compare_runs("octocat", &limits).await;
    let none = none.expect_err("no shadow run");
    assert!(none.message().contains("--shadow"), "{none}");
    let collect = async |start: Start| {
        let run = lab.collector.start_with("octocat", &start).await;
        lab.end(&run.expect("begun").run_id).await
    };
    assert_whole(&collect(shadow()).await);
    let equal = lab.collector.compare_runs("octocat", &limits).await;
    let equal = equal.expect("compared");
    assert!(equal.is_comparable && equal.is_within_limits(), "{equal:?}");
    assert_eq!(equal.main.kinds, equal.shadow.kinds);

    // A run that reads only what changed needs fewer jobs; that is named and not judged.
    let changes = lab.run("octocat").await;
    assert!(!changes.is_full);
    let less = lab.collector.compare_runs("octocat", &limits).await;
    let less = less.expect("compared");
    assert!(!less.is_comparable && less.is_within_limits(), "{less:?}");
    assert!(
        less.differences
            .iter()
            .any(|one| one.name == "pages.fetched")
    );
    // One that reads everything again is judged again.
    assert_whole(&collect(full()).await);
    let again = lab.collector.compare_runs("octocat", &limits).await;
    let again = again.expect("compared");
    assert!(again.is_comparable && again.is_within_limits(), "{again:?}");

    lab.fake.set_faults(Faults::none().repository(&broken, 400));
    assert_eq!(collect(shadow()).await.jobs.failed, 3);
    let fails = lab.collector.compare_runs("octocat", &limits).await;
    let fails = fails.expect("compared");
    let named = |name: &str| fails.differences.iter().find(|one| one.name == name);
    let errors = named("errors.http_400").expect("named");
    assert_eq!((errors.main, errors.shadow), (0.0, 3.0));
    assert!(named("jobs.failed").is_some_and(|one| one.is_beyond));
    assert!(!fails.is_within_limits());
    let lenient = CompareLimits {
        max_failed: Some(3),
        ..limits
    };
    let lenient = lab.collector.compare_runs("octocat", &lenient).await;
    let beyond = lenient.expect("compared").differences.into_iter();
    let mut beyond = beyond.filter(|one| one.is_beyond);
    // What was not read is missing all the same.
    assert!(beyond.all(|one| one.name.starts_with("statistics.")));
}

#[tokio::test]
async fn col_18_a_run_that_is_active_is_not_compared() {
    let lab = Lab::new(small(4), Setup::default(), &[TOKEN]).await;
    assert_whole(&lab.run("octocat").await);
    let begun = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Shadow)
        .await;
    let limits = CompareLimits::default();
    let active = lab.collector.compare_runs("octocat", &limits).await;
    assert_eq!(active.expect_err("active").kind(), ErrorKind::NotFound);
    lab.end(&begun.expect("begun").run_id).await;
    let ended = lab.collector.compare_runs("octocat", &limits).await;
    assert!(ended.expect("compared").is_within_limits());
}
