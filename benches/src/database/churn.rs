//! Throughput while another transaction stays open and keeps dead rows in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clinch_core::Result;
use clinch_core::ports::Clock;
use clinch_engine::Orchestrator;

use super::{Database, Scene, TIMEOUT, complete, failed};
use crate::{Load, Provider, Report};

const CALLERS: usize = 4;
/// Maximum open operations: enough to keep the workers busy.
const OPEN_MAX: usize = 20_000;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl<D: Database> Scene<D> {
    /// Accepts in bulk and drains at the same time, first without a snapshot, then with one open.
    pub(super) async fn churn(&self, span: Duration, report: &mut Report) -> Result<()> {
        let node = self.node("bench")?;
        let engine = node.engine(self.store(), Some(Arc::new(Provider))).await?;
        let orchestrator = engine.orchestrator();
        let running = tokio::spawn({
            let engine = engine.clone();
            async move { engine.run().await }
        });
        self.throughput(&orchestrator, span / 6).await?;
        let without = self.throughput(&orchestrator, span).await?;
        report.add("accept and drain", without, "/s");
        let snapshot = D::snapshot(&self.url).await?;
        let beside = self.throughput(&orchestrator, span).await?;
        drop(snapshot);
        report.add("accept and drain beside a snapshot", beside, "/s");
        report.add("beside a snapshot to without", beside / without, "");
        engine.stop();
        drop(running);
        Ok(())
    }

    async fn throughput(&self, orchestrator: &Orchestrator, span: Duration) -> Result<f64> {
        let load = &self.load;
        let before = load.completed(&self.store).await?;
        let from = self.clock.monotonic();
        let completed = Arc::new(AtomicUsize::new(before));
        let caller = |_| {
            let (load, orchestrator) = (load.clone(), orchestrator.clone());
            let (clock, completed) = (self.clock.clone(), completed.clone());
            tokio::spawn(async move {
                while clock.monotonic().saturating_sub(from) < span {
                    let open = load
                        .made()
                        .saturating_sub(completed.load(Ordering::Relaxed));
                    if open + CALLERS * Load::CHUNK > OPEN_MAX {
                        clock.sleep(POLL_INTERVAL / 10).await;
                        continue;
                    }
                    for one in orchestrator.submit(load.chunk()?).await? {
                        one?;
                    }
                }
                Ok::<(), clinch_core::Error>(())
            })
        };
        let callers: Vec<_> = (0..CALLERS).map(caller).collect();
        let rate = loop {
            self.clock.sleep(POLL_INTERVAL).await;
            let now = load.completed(&self.store).await?;
            completed.store(now, Ordering::Relaxed);
            let taken = self.clock.monotonic().saturating_sub(from);
            if taken >= span {
                break now.saturating_sub(before) as f64 / taken.as_secs_f64();
            }
        };
        for caller in callers {
            caller.await.map_err(failed)??;
        }
        let left = load.made() - before;
        let (_, missing) = load.drained(&self.store, before, left, TIMEOUT).await?;
        complete(missing)?;
        Ok(rate)
    }
}
