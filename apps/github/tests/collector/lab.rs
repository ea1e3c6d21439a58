//! A collector in memory with a fake GitHub, on a clock that tests move.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clinch::policy::{Config, QuotaRules};
use clinch::ports::{DocumentFilter, DocumentSink};
use clinch::testing::{ManualClock, advance};
use clinch::types::{Builder, WorkerId};
use clinch::{Backend, Clinch};
use clinch_github::Transport;
use clinch_github::fake::{BASE, Fake, Setup, World};
use clinch_github::{Collector, Parts, Run, RunId, RunStatus, Settings, Space, Token, Trigger};
use clinch_memory::{Memory, MemoryQuota};
use serde_json::Value;

/// No run takes longer on the collector's clock.
const PATIENCE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

pub(crate) struct Lab {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) memory: Memory,
    pub(crate) fake: Fake,
    pub(crate) collector: Collector,
    pub(crate) clinch: Clinch,
}

/// A document without its id: kind, user, resource and value.
pub(crate) type Bare = (String, String, String, String);

impl Lab {
    pub(crate) async fn new(world: World, setup: Setup, tokens: &[&str]) -> Self {
        Self::with(world, setup, |settings| settings.tokens = secrets(tokens)).await
    }

    pub(crate) async fn with(world: World, setup: Setup, set: impl FnOnce(&mut Settings)) -> Self {
        Self::assemble(world, setup, set, Arc::new).await.0
    }

    /// With the test's own sink around the one in memory.
    pub(crate) async fn with_sink<S: DocumentSink + 'static>(
        world: World,
        setup: Setup,
        tokens: &[&str],
        sink: impl FnOnce(Memory) -> Arc<S>,
    ) -> (Self, Arc<S>) {
        let set = |settings: &mut Settings| settings.tokens = secrets(tokens);
        Self::assemble(world, setup, set, sink).await
    }

    async fn assemble<S: DocumentSink + 'static>(
        world: World,
        setup: Setup,
        set: impl FnOnce(&mut Settings),
        sink: impl FnOnce(Memory) -> Arc<S>,
    ) -> (Self, Arc<S>) {
        let clock = Arc::new(ManualClock::default());
        let memory = Memory::new(clock.clone());
        let documents = sink(memory.clone());
        let fake = Fake::new(world, setup, clock.clone());
        let mut settings = Settings {
            api_url: BASE.parse().expect("an address"),
            ..Settings::default()
        };
        set(&mut settings);
        let transport = Arc::new(fake.clone());
        let (collector, clinch) =
            collector(settings, &memory, documents.clone(), transport, &clock).await;
        let lab = Self {
            clock,
            memory,
            fake,
            collector,
            clinch,
        };
        (lab, documents)
    }

    /// Stops this collector; another one goes on with these tokens.
    pub(crate) async fn restarted(&self, tokens: &[&str]) -> Self {
        self.clinch.stop();
        advance(&self.clock, Duration::from_secs(1)).await;
        let settings = Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: secrets(tokens),
            ..Settings::default()
        };
        let (memory, transport) = (&self.memory, Arc::new(self.fake.clone()));
        let documents = Arc::new(memory.clone());
        let (collector, clinch) =
            collector(settings, memory, documents, transport, &self.clock).await;
        Self {
            clock: self.clock.clone(),
            memory: memory.clone(),
            fake: self.fake.clone(),
            collector,
            clinch,
        }
    }

    /// Begins a run and moves the clock until it has ended.
    pub(crate) async fn run(&self, login: &str) -> Run {
        let run = self
            .collector
            .start(login, Trigger::Manual, Space::Main)
            .await;
        self.end(&run.expect("it begins").run_id).await
    }

    /// Moves the clock until the run has ended.
    pub(crate) async fn end(&self, id: &RunId) -> Run {
        let mut left = PATIENCE;
        let mut step = Duration::from_secs(1);
        loop {
            advance(&self.clock, step).await;
            let run = self.collector.run(id).await.expect("it is there");
            if run.status.is_terminal() {
                return run;
            }
            left = left
                .checked_sub(step)
                .unwrap_or_else(|| panic!("{id} does not end: {run:?}"));
            step = (step * 2).min(Duration::from_secs(600));
        }
    }

    /// All collected documents.
    pub(crate) async fn documents(&self, space: Space) -> Vec<Bare> {
        let (mut all, mut after) = (Vec::new(), None);
        let filter = DocumentFilter::default();
        loop {
            let page = self
                .collector
                .documents(space, &filter, after.as_deref(), 1_000)
                .await;
            let page = page.expect("a page");
            after = page.last().map(|document| document.id.clone());
            all.extend(page.into_iter().map(|one| {
                let value: Value = serde_json::from_str(&one.body).expect("JSON");
                (one.kind, one.user, one.resource, value.to_string())
            }));
            if after.is_none() {
                all.sort();
                return all;
            }
        }
    }

    /// The documents of these users in the world.
    pub(crate) fn world(&self, users: &[&str]) -> Vec<Bare> {
        let mut all: Vec<Bare> = self.fake.with_world(|world| {
            let items = world
                .items()
                .filter(|item| users.contains(&item.user.as_str()));
            let bare = items.map(|item| {
                let kind = item.kind.as_str().to_owned();
                (kind, item.user, item.resource, item.body.to_string())
            });
            bare.collect()
        });
        all.sort();
        all
    }

    /// Asserts that all documents of these users were collected, and nothing else.
    pub(crate) async fn assert_equal(&self, users: &[&str]) {
        let (is, wanted) = (self.documents(Space::Main).await, self.world(users));
        let count = |all: &[Bare]| {
            let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
            for one in all {
                *kinds.entry(one.0.clone()).or_default() += 1;
            }
            kinds
        };
        assert_eq!(count(&is), count(&wanted));
        let first = is.iter().zip(&wanted).find(|(is, wanted)| is != wanted);
        assert_eq!(first, None, "the first that differs");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.clinch.stop();
    }
}

/// Asserts that a run completed without failed jobs.
pub(crate) fn assert_whole(run: &Run) {
    assert_eq!(run.status, RunStatus::Completed, "{run:?}");
    assert_eq!(run.jobs.failed, 0, "{run:?}");
    assert_eq!(run.jobs.succeeded, run.jobs.total, "{run:?}");
}

fn secrets(tokens: &[&str]) -> Vec<Token> {
    tokens.iter().map(|token| Token::new(*token)).collect()
}

/// A running collector, on an engine in memory.
pub(crate) async fn collector(
    settings: Settings,
    memory: &Memory,
    documents: Arc<dyn DocumentSink>,
    transport: Arc<dyn Transport>,
    clock: &Arc<ManualClock>,
) -> (Collector, Clinch) {
    collector_with(settings, memory, documents, transport, clock, |builder| {
        builder
    })
    .await
}

/// The same; `tune` may change how the engine is built.
pub(crate) async fn collector_with(
    settings: Settings,
    memory: &Memory,
    documents: Arc<dyn DocumentSink>,
    transport: Arc<dyn Transport>,
    clock: &Arc<ManualClock>,
    tune: impl FnOnce(Builder) -> Builder,
) -> (Collector, Clinch) {
    let collector = Collector::new(Parts {
        settings,
        records: Arc::new(memory.clone()),
        documents,
        quota: Arc::new(MemoryQuota::new(clock.clone(), QuotaRules::default())),
        transport,
        inspect: Arc::new(memory.clone()),
        clock: clock.clone(),
    });
    let builder = Clinch::builder()
        .backend(Backend::new(memory.clone()))
        .config(config())
        .clock(clock.clone());
    let clinch = tune(collector.handle(builder))
        .build()
        .expect("it is built");
    collector.attach(&clinch).await;
    let running = clinch.clone();
    tokio::spawn(async move { running.run().await });
    (collector, clinch)
}

/// Fallback polls are rare: no notice is lost here, and days pass on the clock.
fn config() -> Config {
    let hour = Duration::from_secs(3_600);
    let worker = WorkerId::new("lab").expect("a name");
    Config {
        fallback_poll: hour,
        finalizer_interval: hour,
        reaper_interval: hour,
        ..Config::new(worker)
    }
}
