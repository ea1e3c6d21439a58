//! The measures of the embedded store, on a database server.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::Result;
use clinch_engine::Runtime;

use super::{Database, Scene, TIMEOUT, complete};
use crate::{Amount, Load, Provider, Report};

/// Duration of each figure for single accepts.
const SPAN: Duration = Duration::from_secs(5);
/// Duration of each latency figure.
const LATENCIES: Duration = Duration::from_secs(6);

impl<D: Database> Scene<D> {
    /// Accepts, a drain, and the time from submit to settled.
    pub(super) async fn single(&self, operations: usize, report: &mut Report) -> Result<()> {
        let node = self.node("bench")?;
        let engine = node.engine(self.store(), Some(Arc::new(Provider))).await?;
        let orchestrator = engine.orchestrator();
        let load = &self.load;
        // Warms up the later parts.
        load.accept(&orchestrator, 16, Amount::Span(SPAN / 5))
            .await?;
        for callers in [1, 16, 64] {
            let amount = Amount::Span(SPAN);
            let rate = load.accept(&orchestrator, callers, amount).await?;
            report.add(format!("accept, {callers} callers"), rate, "/s");
        }
        for callers in [1, 4] {
            let amount = Amount::Count(operations.next_multiple_of(Load::CHUNK));
            let rate = load.accept_bulk(&orchestrator, callers, amount).await?;
            report.add(format!("accept in bulk, {callers} callers"), rate, "/s");
        }
        self.drain_and_wait(&engine, report).await
    }

    /// The time from submit to settled, after a backlog was drained.
    pub(super) async fn latencies(&self, operations: usize, report: &mut Report) -> Result<()> {
        let node = self.node("bench")?;
        let engine = node.engine(self.store(), Some(Arc::new(Provider))).await?;
        let amount = Amount::Count(operations.next_multiple_of(Load::CHUNK));
        let orchestrator = engine.orchestrator();
        self.load.accept_bulk(&orchestrator, 4, amount).await?;
        self.drain_and_wait(&engine, report).await
    }

    async fn drain_and_wait(&self, engine: &Runtime, report: &mut Report) -> Result<()> {
        let (load, orchestrator) = (&self.load, engine.orchestrator());
        let backlog = load.made();
        let (rate, missing) = load.drain(engine, &self.store, backlog, TIMEOUT).await?;
        complete(missing)?;
        report.add("drain", rate, "/s");
        for (name, queued) in [("inline", false), ("queued", true)] {
            let amount = Amount::Span(LATENCIES);
            let millis = load.latencies(&orchestrator, queued, amount).await?;
            report.add_times(name, millis);
        }
        engine.stop();
        Ok(())
    }
}
