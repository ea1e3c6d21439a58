//! The collector in this process, without a server.

use std::sync::Arc;

use clinch::Clinch;
use clinch_core::WorkerId;
use clinch_core::ports::Clock;
use clinch_github::{Collector, Settings, Transport};
use clinch_server::Config;
use clinch_system::SystemClock;
use tokio::task::JoinHandle;

use crate::error::CliError;
use crate::store::{self, StoreConfig};

/// An engine with the collector, on the configured store.
pub(crate) struct LocalCollector {
    pub(crate) collector: Collector,
    clinch: Clinch,
    running: Option<JoinHandle<()>>,
}

impl LocalCollector {
    /// Opens the store and builds the engine; nothing runs yet. Only a command that starts work may
    /// create a database.
    pub(crate) async fn open(
        config: &Config,
        settings: Settings,
        transport: Arc<dyn Transport>,
        may_create: bool,
    ) -> Result<Self, CliError> {
        if let Some(path) = StoreConfig::of(config)?.url.file()
            && !may_create
            && !path.exists()
        {
            let message = format!(
                "there is no server and no database at {}; `clinch github run LOGIN` creates one",
                path.display()
            );
            return Err(CliError::NotThere(message));
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let opened = store::open(config).await?;
        let settings = Settings {
            // Only servers run schedules.
            schedule: Vec::new(),
            ..settings
        };
        let github = super::config(config)?.unwrap_or_default();
        let collector = super::collector(&github, settings, transport, &opened, &clock).await?;
        let builder = Clinch::builder()
            .backend(opened.backend)
            .clock(clock)
            .config(config.engine(worker()?));
        let builder = clinch_server::declare_remote(builder, config)?;
        let clinch = collector.handle(builder).build()?;
        collector.attach(&clinch).await;
        Ok(Self {
            collector,
            clinch,
            running: None,
        })
    }

    /// Works in the background until it is stopped.
    pub(crate) fn start(&mut self) {
        let clinch = self.clinch.clone();
        let run = async move { clinch.run().await };
        self.running.get_or_insert_with(|| tokio::spawn(run));
    }

    /// Takes no more work and waits for running requests.
    pub(crate) async fn stop(&mut self) {
        self.clinch.stop();
        if let Some(running) = self.running.take() {
            // The task may have been cancelled with its runtime.
            let _ = running.await;
        }
    }
}

fn worker() -> Result<WorkerId, CliError> {
    let name = format!("clinch-github-{}", uuid::Uuid::now_v7().simple());
    let name = WorkerId::new(name);
    name.map_err(|error| CliError::failed(error.to_string()))
}
