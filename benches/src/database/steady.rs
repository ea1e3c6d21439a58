//! A steady stream of events, and the lag until each is settled.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::Result;
use clinch_core::ports::Clock;

use super::{Database, Scene, TIMEOUT, failed};
use crate::{Provider, Report};

impl<D: Database> Scene<D> {
    /// Submits events at a fixed rate, each accepted alone and queued. The lag of an event is the
    /// time from its accept until it is settled.
    pub(super) async fn steady(
        &self,
        rate: u32,
        span: Duration,
        report: &mut Report,
    ) -> Result<()> {
        let node = self.node("bench")?;
        let engine = node.engine(self.store(), Some(Arc::new(Provider))).await?;
        let orchestrator = engine.orchestrator();
        let running = tokio::spawn({
            let engine = engine.clone();
            async move { engine.run().await }
        });
        let from = self.clock.monotonic();
        let count = u32::try_from(span.as_secs()).map_err(failed)? * rate;
        let mut at_work = Vec::new();
        for number in 0..count {
            let due = from + Duration::from_secs(1) * number / rate;
            let early = due.saturating_sub(self.clock.monotonic());
            if !early.is_zero() {
                self.clock.sleep(early).await;
            }
            let mut event = self.load.command()?;
            // An operation with `run_at` is never begun with its accept.
            event.options.run_at = Some(self.clock.now());
            let (orchestrator, clock) = (orchestrator.clone(), self.clock.clone());
            at_work.push(tokio::spawn(async move {
                let known = orchestrator.accept(event).await?.known;
                let accepted = clock.monotonic();
                let ended = orchestrator.await_settled(known.op_id, TIMEOUT).await?;
                if !ended.operation.state.is_terminal() {
                    return Err(failed("an operation hangs"));
                }
                let settled = clock.monotonic();
                let millis = |span: Duration| span.as_secs_f64() * 1_000.0;
                let lag = settled.saturating_sub(accepted);
                Ok((millis(accepted.saturating_sub(due)), millis(lag), settled))
            }));
        }
        let (mut accepts, mut lags, mut last) = (Vec::new(), Vec::new(), from);
        for one in at_work {
            let (accept, lag, settled) = one.await.map_err(failed)??;
            accepts.push(accept);
            lags.push(lag);
            last = last.max(settled);
        }
        let taken = last.saturating_sub(from).as_secs_f64();
        report.add("events settled", f64::from(count), "");
        report.add("events", f64::from(count) / taken, "/s");
        report.add_times("due to accepted", accepts);
        report.add_times("accepted to settled", lags);
        engine.stop();
        drop(running);
        Ok(())
    }
}
