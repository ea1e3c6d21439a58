//! Clinch on one file, and a provider that answers at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clinch_bench::{Amount, DOMAIN, History, Load, Node, Provider, Report, fill};
use clinch_core::ports::Ids as _;
use clinch_core::{Error, ErrorKind, Result};
use clinch_engine::Runtime;
use clinch_sqlite::{Settings, Sqlite};
use clinch_system::{SystemClock, SystemIds};

use crate::report::{bytes_written, cpu_micros};

/// A part that takes longer is stuck.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Operations of each latency figure.
const SAMPLES: usize = 2_000;

/// One file and the engine on it.
pub(crate) struct Scene {
    runtime: tokio::runtime::Runtime,
    clock: Arc<SystemClock>,
    folder: PathBuf,
    keep: bool,
    pub(crate) page: Option<u32>,
    load: Load,
    node: Node,
}

impl Scene {
    pub(crate) fn new(runtime: tokio::runtime::Runtime, under: &Path, keep: bool) -> Result<Self> {
        let folder = under.join(format!("clinch-bench-{}", SystemIds.attempt_id()));
        std::fs::create_dir(&folder).map_err(|error| {
            Error::new(ErrorKind::Internal, "no temporary folder").caused_by(error)
        })?;
        let clock = Arc::new(SystemClock::new());
        Ok(Self {
            runtime,
            load: Load::new(clock.clone(), DOMAIN, "call", "")?,
            node: Node::new("bench", clock.clone(), &folder)?,
            clock,
            folder,
            keep,
            page: None,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn play(
        &mut self,
        operations: usize,
        history: usize,
        report: &mut Report,
    ) -> Result<()> {
        self.runtime.block_on(async {
            let path = self.folder.join("clinch.db");
            let mut settings = Settings::default();
            settings.page_bytes = self.page.unwrap_or(settings.page_bytes);
            let sqlite = Sqlite::open(path, settings, self.clock.clone())?;
            self.fill(&sqlite, history).await?;
            let engine = self.engine(&sqlite).await?;
            let orchestrator = engine.orchestrator();
            let load = &self.load;
            // Warms up the later parts.
            load.accept(&orchestrator, 16, Amount::Count(2_000)).await?;
            let before = bytes_written();
            for callers in [1, 16, 64] {
                let count = if callers == 1 { 10_000 } else { 60_000 };
                let cpu = cpu_micros();
                let rate = load
                    .accept(&orchestrator, callers, Amount::Count(count))
                    .await?;
                let name = format!("accept, {callers} callers");
                report.add(&name, rate, "/s");
                add_cpu(report, &name, cpu, count);
            }
            for callers in [1, 4] {
                let amount = Amount::Count(operations);
                let cpu = cpu_micros();
                let rate = load.accept_bulk(&orchestrator, callers, amount).await?;
                let name = format!("accept in bulk, {callers} callers");
                report.add(&name, rate, "/s");
                add_cpu(report, &name, cpu, operations);
            }
            let backlog = load.made() - history / Load::CHUNK * Load::CHUNK;
            let bytes = (bytes_written() - before) / backlog as f64;
            report.add("bytes written, accept", bytes, "B/operation");
            let (before, cpu) = (bytes_written(), cpu_micros());
            let (rate, missing) = load.drain(&engine, &sqlite, backlog, TIMEOUT).await?;
            if missing > 0 {
                return Err(Error::new(ErrorKind::Internal, "the drain hangs"));
            }
            report.add("drain", rate, "/s");
            add_cpu(report, "drain", cpu, backlog);
            let bytes = (bytes_written() - before) / backlog as f64;
            report.add("bytes written, drain", bytes, "B/operation");
            for (name, queued) in [("inline", false), ("queued", true)] {
                let amount = Amount::Count(SAMPLES);
                let cpu = cpu_micros();
                let millis = load.latencies(&orchestrator, queued, amount).await?;
                report.add_times(name, millis);
                add_cpu(report, name, cpu, SAMPLES);
            }
            engine.stop();
            Ok(())
        })
    }

    /// Inserts settled operations.
    async fn fill(&self, sqlite: &Sqlite, settled: usize) -> Result<()> {
        let engine = self.engine(sqlite).await?;
        let history = History {
            settled,
            failed_every: 0,
        };
        fill(sqlite, &engine.orchestrator(), &self.load, history).await
    }

    async fn engine(&self, sqlite: &Sqlite) -> Result<Runtime> {
        let store = Arc::new(sqlite.clone());
        self.node.engine(store, Some(Arc::new(Provider))).await
    }
}

/// Adds the processor time of each operation since `before`.
fn add_cpu(report: &mut Report, of: &str, before: f64, operations: usize) {
    let micros = (cpu_micros() - before) / operations as f64;
    report.add(format!("processor time, {of}"), micros, "µs/operation");
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
