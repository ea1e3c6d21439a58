//! A collector in memory with a fake GitHub, on a clock that tests move.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clinch::policy::{Config, QuotaRules};
use clinch::ports::{
    DocumentFilter, DocumentSink, Inspect as _, Record, RecordList, RecordWrite, Records,
};
use clinch::testing::{ManualClock, SplitMix, advance};
use clinch::types::{Builder, ErrorKind, WorkerId};
use clinch::{Backend, Clinch, Error, Result};
use clinch_github::Transport;
use clinch_github::fake::{BASE, Fake, Setup, World};
use clinch_github::{
    Collector, JobFilter, Parts, Run, RunId, RunStatus, Settings, Space, Start, Token, Trigger,
};
use clinch_memory::{Memory, MemoryQuota};
use serde_json::Value;

/// No run takes longer on the collector's clock.
const PATIENCE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

pub(crate) struct Lab {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) memory: Memory,
    pub(crate) quota: Arc<MemoryQuota>,
    pub(crate) records: Arc<Ambiguous>,
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
        let (quota, records) = (budgets(&clock), Arc::new(Ambiguous::new(&memory)));
        let parts = Parts {
            settings,
            records: records.clone(),
            documents: documents.clone(),
            quota: quota.clone(),
            transport: Arc::new(fake.clone()),
            inspect: Arc::new(memory.clone()),
            clock: clock.clone(),
        };
        let (collector, clinch) = running(parts, &memory, &clock, |builder| builder).await;
        let lab = Self {
            clock,
            memory,
            quota,
            records,
            fake,
            collector,
            clinch,
        };
        (lab, documents)
    }

    /// Stops this collector; another one goes on with these tokens.
    pub(crate) async fn restarted(&self, tokens: &[&str]) -> Self {
        let settings = Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: secrets(tokens),
            ..Settings::default()
        };
        self.restarted_with(settings).await
    }

    /// Stops this collector; another one goes on with these settings.
    pub(crate) async fn restarted_with(&self, settings: Settings) -> Self {
        self.clinch.stop();
        advance(&self.clock, Duration::from_secs(1)).await;
        let memory = self.memory.clone();
        let parts = Parts {
            settings,
            records: self.records.clone(),
            documents: Arc::new(memory.clone()),
            // All processes share the budgets.
            quota: self.quota.clone(),
            transport: Arc::new(self.fake.clone()),
            inspect: Arc::new(memory.clone()),
            clock: self.clock.clone(),
        };
        let clock = self.clock.clone();
        let (collector, clinch) = running(parts, &memory, &clock, |builder| builder).await;
        Self {
            clock,
            memory,
            quota: self.quota.clone(),
            records: self.records.clone(),
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

    /// The same, with a run that reads everything.
    pub(crate) async fn run_full(&self, login: &str) -> Run {
        let start = Start {
            is_full: true,
            ..Start::default()
        };
        let run = self.collector.start_with(login, &start).await;
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

    /// Why a job of the run waits.
    pub(crate) async fn waits_for(&self, id: &RunId) -> String {
        let jobs = self
            .collector
            .jobs(id, &JobFilter::default(), None, 1)
            .await;
        let (jobs, _) = jobs.expect("jobs");
        let rows = self.memory.get(&[jobs[0].op_id]).await.expect("read");
        let row = rows.into_iter().flatten().next().expect("an operation");
        let last = row.state.last_error.expect("a reason");
        last.message
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

    /// Asserts that all documents of these users were collected, as they are now.
    pub(crate) async fn assert_has_all(&self, users: &[&str]) {
        let is: BTreeSet<Bare> = self.documents(Space::Main).await.into_iter().collect();
        let missing = self.world(users).into_iter().find(|one| !is.contains(one));
        assert_eq!(missing, None, "the first that is missing");
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
    assert_eq!(run.jobs.open(), 0, "{run:?}");
    // What is empty has nothing that could be missing.
    let mut unavailable = run.unavailable.iter();
    assert!(
        unavailable.all(|one| one.reason.ends_with("is empty.")),
        "{run:?}"
    );
}

/// Records whose answers may be lost: what the collector noted of a page is there, but it is told
/// that it failed, and executes the job again.
pub(crate) struct Ambiguous {
    memory: Memory,
    losses: Mutex<(SplitMix, f64)>,
    /// Keys whose write was lost; `None`: none is lost so.
    lost_once: Mutex<Option<BTreeSet<String>>>,
}

impl Ambiguous {
    pub(crate) fn new(memory: &Memory) -> Self {
        Self {
            memory: memory.clone(),
            losses: Mutex::new((SplitMix::new(0), 0.0)),
            lost_once: Mutex::default(),
        }
    }

    /// Loses this share of the answers, drawn from the seed.
    pub(crate) fn lose(&self, seed: u64, share: f64) {
        *self.losses.lock().expect("no panic") = (SplitMix::new(seed), share);
    }

    /// Loses the answer to the next write of every page and cursor, once.
    pub(crate) fn lose_each_once(&self) {
        *self.lost_once.lock().expect("no panic") = Some(BTreeSet::new());
    }

    fn is_lost_once(&self, writes: &[RecordWrite]) -> bool {
        let mut lost = self.lost_once.lock().expect("no panic");
        let Some(lost) = lost.as_mut() else {
            return false;
        };
        let of_list = |write: &&RecordWrite| {
            ["/page/", "/cursor/"]
                .iter()
                .any(|part| write.key.contains(part))
        };
        let keys = writes.iter().filter(of_list).map(|write| write.key.clone());
        keys.filter(|key| lost.insert(key.clone())).count() > 0
    }

    fn is_lost(&self, writes: &[RecordWrite]) -> bool {
        let of_list = |write: &RecordWrite| {
            let parts = ["/page/", "/cursor/", "/owed/"];
            parts.iter().any(|part| write.key.contains(part))
        };
        let (rng, share) = &mut *self.losses.lock().expect("no panic");
        let draw = (rng.next_u64() % 1_000) as f64 / 1_000.0;
        writes.iter().any(of_list) && draw < *share
    }
}

#[async_trait]
impl Records for Ambiguous {
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>> {
        self.memory.read_records(keys).await
    }

    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool> {
        let is_written = self.memory.write_records(writes).await?;
        match is_written && (self.is_lost(writes) || self.is_lost_once(writes)) {
            true => Err(Error::new(ErrorKind::Unavailable, "the answer is lost")),
            false => Ok(is_written),
        }
    }

    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>> {
        self.memory.list_records(list).await
    }
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
    let parts = Parts {
        settings,
        records: Arc::new(memory.clone()),
        documents,
        quota: budgets(clock),
        transport,
        inspect: Arc::new(memory.clone()),
        clock: clock.clone(),
    };
    running(parts, memory, clock, tune).await
}

pub(crate) fn budgets(clock: &Arc<ManualClock>) -> Arc<MemoryQuota> {
    Arc::new(MemoryQuota::new(clock.clone(), QuotaRules::default()))
}

/// A running collector of these parts; `tune` may change how the engine is built.
pub(crate) async fn running(
    parts: Parts,
    memory: &Memory,
    clock: &Arc<ManualClock>,
    tune: impl FnOnce(Builder) -> Builder,
) -> (Collector, Clinch) {
    attached(Collector::new(parts), memory, clock, tune).await
}

/// The same of a collector that was made by the test.
pub(crate) async fn attached(
    collector: Collector,
    memory: &Memory,
    clock: &Arc<ManualClock>,
    tune: impl FnOnce(Builder) -> Builder,
) -> (Collector, Clinch) {
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
