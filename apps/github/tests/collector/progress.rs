//! The progress of a run: exact at its end, cheap while it has many jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clinch::ports::{Filter, Inspect, Operation, Page, RecordList, Records as _};
use clinch::testing::{ManualClock, advance};
use clinch::types::{OpId, Timestamp};
use clinch::{Clinch, Result};
use clinch_core::ports::{FoundId, Known, LedgerLine};
use clinch_core::{AttemptId, Keys, OpIdPrefix};
use clinch_github::fake::{BASE, Fake, Faults, Limits, Setup, Size, World};
use clinch_github::{Collector, Parts, Run, RunStatus, Settings, Space, Token, Trigger};
use clinch_memory::Memory;

use crate::lab::{Lab, budgets, running};

const TOKEN: &str = "fake-robot-1";

/// Counts the operations that are read.
pub(crate) struct Counting {
    memory: Memory,
    rows: AtomicUsize,
    reads: AtomicUsize,
}

impl Counting {
    pub(crate) fn new(memory: &Memory) -> Self {
        Self {
            memory: memory.clone(),
            rows: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
        }
    }

    /// The operations that were read so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Inspect for Counting {
    async fn get(&self, ops: &[OpId]) -> Result<Vec<Option<Operation>>> {
        self.memory.get(ops).await
    }

    async fn begun(&self, attempts: &[AttemptId]) -> Result<Vec<Option<Operation>>> {
        self.memory.begun(attempts).await
    }

    async fn find(&self, keys: &[Keys]) -> Result<Vec<Option<Known>>> {
        self.memory.find(keys).await
    }

    async fn by_prefix(&self, prefix: &OpIdPrefix, max: usize) -> Result<Vec<FoundId>> {
        self.memory.by_prefix(prefix, max).await
    }

    async fn list(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Operation>> {
        let page = Inspect::list(&self.memory, filter, cursor, limit).await?;
        self.rows.fetch_add(page.items.len(), Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(page)
    }

    async fn long_in_progress(&self, before: Timestamp, max: usize) -> Result<Vec<OpId>> {
        self.memory.long_in_progress(before, max).await
    }

    async fn ledger(&self, op: OpId) -> Result<Vec<LedgerLine>> {
        self.memory.ledger(op).await
    }

    async fn now(&self) -> Result<Timestamp> {
        Inspect::now(&self.memory).await
    }
}

/// Moves the clock until the run has ended.
async fn ended(collector: &Collector, clock: &ManualClock, run: &Run) -> Run {
    for _ in 0..10_000 {
        advance(clock, Duration::from_secs(60)).await;
        let run = collector.run(&run.run_id).await.expect("it is there");
        if run.status.is_terminal() {
            return run;
        }
    }
    panic!("{} does not end", run.run_id);
}

/// A user with 1,000 repositories, and a budget for half of the requests.
struct Long {
    clock: Arc<ManualClock>,
    memory: Memory,
    counting: Arc<Counting>,
    collector: Collector,
    clinch: Clinch,
}

async fn long() -> Long {
    let size = Size {
        users: 1,
        repositories: 1_000,
        documents: 3_000,
    };
    let setup = Setup {
        limits: Limits {
            primary: 1_500,
            ..Limits::default()
        },
        ..Setup::default()
    };
    let clock = Arc::new(ManualClock::default());
    let memory = Memory::new(clock.clone());
    let fake = Fake::new(World::generate(3, &size), setup, clock.clone());
    let counting = Arc::new(Counting::new(&memory));
    let parts = Parts {
        settings: Settings {
            api_url: BASE.parse().expect("an address"),
            tokens: vec![Token::new(TOKEN)],
            ..Settings::default()
        },
        records: Arc::new(memory.clone()),
        documents: Arc::new(memory.clone()),
        quota: budgets(&clock),
        transport: Arc::new(fake),
        inspect: counting.clone(),
        clock: clock.clone(),
    };
    let (collector, clinch) = running(parts, &memory, &clock, |builder| builder).await;
    Long {
        clock,
        memory,
        counting,
        collector,
        clinch,
    }
}

#[tokio::test]
async fn col_15_the_progress_of_a_long_run_reads_a_bounded_number_of_jobs() {
    let Long {
        clock,
        memory,
        counting,
        collector,
        clinch,
    } = long().await;
    let run = collector.start("octocat", Trigger::Manual, Space::Main);
    let run = run.await.expect("it begins");
    // The budgets of two hours end before the jobs do: the rest waits for the third.
    advance(&clock, Duration::from_secs(120)).await;
    advance(&clock, Duration::from_secs(3_600)).await;
    let before = (counting.rows(), counting.reads.load(Ordering::Relaxed));
    let progress = collector.progress(&run.run_id).await.expect("read");
    let rows = counting.rows() - before.0;
    let reads = counting.reads.load(Ordering::Relaxed) - before.1;
    assert_eq!(progress.run.status, RunStatus::Running);
    assert!(progress.run.jobs.total > 2_500, "{:?}", progress.run.jobs);
    assert!((1..=2_000).contains(&rows) && reads <= 8, "{rows}, {reads}");
    // What the processes counted agrees with the counters of the batch.
    let done: u64 = progress.kinds.values().map(|jobs| jobs.total).sum();
    assert!(progress.counts_ended_only);
    assert_eq!(done, progress.run.jobs.total - progress.run.jobs.open());
    assert!(progress.requests >= done && progress.run.pages.documents > 0);
    assert!(progress.all_wait, "{progress:?}");
    let reason = progress.waits_for.as_deref().unwrap_or_default();
    assert!(reason.contains("budget"), "{reason}");

    let run = ended(&collector, &clock, &run).await;
    let reads = counting.reads.load(Ordering::Relaxed);
    let progress = collector.progress(&run.run_id).await.expect("read");
    assert_eq!(
        counting.reads.load(Ordering::Relaxed),
        reads,
        "no job is read"
    );
    assert!(!progress.counts_ended_only && !progress.all_wait);
    let kinds = progress.kinds.values();
    assert_eq!(kinds.map(|jobs| jobs.total).sum::<u64>(), run.jobs.total);
    let left = RecordList {
        prefix: "github/tally/".to_owned(),
        descending: false,
        after: None,
        limit: 10,
    };
    assert_eq!(memory.list_records(&left).await.expect("read"), []);
    clinch.stop();
}

#[tokio::test]
async fn col_2_an_ended_run_keeps_its_jobs_by_kind_and_its_errors_by_code() {
    let size = Size {
        users: 1,
        repositories: 6,
        documents: 300,
    };
    let world = World::generate(4, &size);
    let broken = world.full_names().swap_remove(0);
    let setup = Setup {
        faults: Faults::none().repository(&broken, 400),
        ..Setup::default()
    };
    let lab = Lab::new(world, setup, &[TOKEN]).await;
    let run = lab.run("octocat").await;
    assert_eq!(run.errors, [("http_400".to_owned(), 3)].into());
    let failed = run.kinds.values().map(|jobs| jobs.failed);
    assert_eq!(failed.sum::<u64>(), 3, "{:?}", run.kinds);
    let succeeded = run.kinds.values().map(|jobs| jobs.succeeded);
    assert_eq!(succeeded.sum::<u64>(), run.jobs.succeeded);
}
