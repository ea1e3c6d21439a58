//! Several processes on one store and one clock.

use std::sync::Arc;
use std::time::Duration;

use clinch::testing::{self, ManualClock};
use clinch::types::Builder;
use clinch::{Backend, Clinch};
use clinch_memory::Memory;

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Clinch>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Cluster {
    /// So many processes, each put together by `build`, with all their runners.
    pub(crate) fn start(count: usize, build: impl Fn(usize) -> Builder) -> Self {
        let clock = Arc::new(ManualClock::default());
        let backend = Backend::new(Memory::new(clock.clone()));
        Self::on(&backend, clock, count, build)
    }

    /// The same on this store and clock.
    pub(crate) fn on(
        backend: &Backend,
        clock: Arc<ManualClock>,
        count: usize,
        build: impl Fn(usize) -> Builder,
    ) -> Self {
        let node = |number| {
            let builder = build(number).backend(backend.clone()).clock(clock.clone());
            let node = builder.build().expect("it is put together");
            let running = node.clone();
            tokio::spawn(async move { running.run().await });
            node
        };
        let nodes = (0..count).map(node).collect();
        Self { nodes, clock }
    }

    /// Moves time, and lets everything happen that falls due on the way.
    pub(crate) async fn advance(&self, by: Duration) {
        testing::advance(&self.clock, by).await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.iter().for_each(Clinch::stop);
    }
}
