//! The gauges of a process.

use clinch_core::ports::{Counts, DomainView};
use clinch_core::{Domain, Result};
use clinch_engine::Dispatch;

use crate::Clinch;

/// Domains with a label of their own; the engine labels its counters by the same number.
const LABELLED_DOMAINS_MAX: usize = 200;
/// The label that further domains share.
const OTHER: &str = "other";

impl Clinch {
    /// Updates the gauges. Call it when metrics are read: nothing polls.
    pub async fn measure(&self) -> Result<()> {
        self.runners.check();
        for counted in self.counted.iter() {
            self.meter.add(counted.name, &[], counted.growth());
        }
        self.measure_destinations();
        let mut all = Counts::default();
        let views = self.domains.domains().await?;
        self.orchestrator.note_load(&views);
        for view in labelled(views) {
            let domain = view.domain.as_str();
            let counts = view.counts;
            let in_progress = counts.live + counts.recorded + counts.waiting + counts.held;
            let states = [
                ("PENDING", counts.pending),
                ("IN_PROGRESS", in_progress),
                ("COMPLETED", counts.completed),
                ("FAILED", counts.failed),
            ];
            for (state, count) in states {
                let labels = [("domain", domain), ("state", state)];
                self.meter
                    .set("orchestrator.operations", &labels, count as f64);
            }
            let oldest = view.oldest_due.unwrap_or_default().as_secs_f64();
            let labels = [("domain", domain)];
            self.meter.set("orchestrator.oldest.age", &labels, oldest);
            let letters = view.counts.dead_letters_open as f64;
            self.meter
                .set("orchestrator.dead_letters.open", &labels, letters);
            let paused = f64::from(u8::from(view.paused));
            self.meter
                .set("orchestrator.domain.paused", &labels, paused);
            all.held += counts.held;
            all.recorded += counts.recorded;
            all.live += counts.live;
            all.pending += counts.pending;
            all.waiting += counts.waiting;
        }
        self.set("orchestrator.held", all.held);
        self.set("orchestrator.write_ahead.pending", all.recorded);
        self.measure_bus(&all).await
    }

    /// Measures the guards of this process. Reads nothing from the store.
    fn measure_destinations(&self) {
        for destination in self.destinations.iter() {
            let status = destination.status();
            let labels = [("destination", status.name.as_str())];
            let state = status.breaker as u8;
            self.meter
                .set("orchestrator.breaker.state", &labels, f64::from(state));
            let paused = status.paused.unwrap_or_default().as_secs_f64();
            self.meter
                .set("orchestrator.destination.pause", &labels, paused);
        }
    }

    /// Measures the hints on the bus. If the store is the queue, its rows count: every worker
    /// claims due rows itself, so that no leader is needed.
    async fn measure_bus(&self, all: &Counts) -> Result<()> {
        match &self.dispatch {
            Dispatch::Queue(_) => {
                self.set("orchestrator.bus.pending", all.live);
                self.set("orchestrator.bus.lag", all.pending);
                self.set("orchestrator.delayed.size", all.waiting);
                self.set("orchestrator.leader", 1);
            }
            Dispatch::Hints(bus) => {
                if let Some(depth) = bus.depth().await? {
                    self.set("orchestrator.bus.pending", depth.on_loan);
                    self.set("orchestrator.bus.lag", depth.waiting);
                    self.set("orchestrator.delayed.size", depth.delayed);
                    self.set("orchestrator.leader", u64::from(depth.has_scheduler));
                }
            }
        }
        Ok(())
    }

    fn set(&self, gauge: &'static str, value: u64) {
        self.meter.set(gauge, &[], value as f64);
    }
}

/// The domains with a label of their own, and one that is the sum of the others.
fn labelled(mut views: Vec<DomainView>) -> Vec<DomainView> {
    let rest = views.split_off(views.len().min(LABELLED_DOMAINS_MAX));
    let sum = rest.into_iter().reduce(|mut sum, view| {
        sum.counts.pending += view.counts.pending;
        sum.counts.live += view.counts.live;
        sum.counts.recorded += view.counts.recorded;
        sum.counts.waiting += view.counts.waiting;
        sum.counts.held += view.counts.held;
        sum.counts.completed += view.counts.completed;
        sum.counts.failed += view.counts.failed;
        sum.oldest_due = sum.oldest_due.max(view.oldest_due);
        sum.paused |= view.paused;
        sum
    });
    if let (Some(mut sum), Ok(other)) = (sum, Domain::new(OTHER)) {
        sum.domain = other;
        views.push(sum);
    }
    views
}
