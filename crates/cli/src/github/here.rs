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
pub(crate) struct Here {
    pub(crate) collector: Collector,
    clinch: Clinch,
    running: Option<JoinHandle<()>>,
}

impl Here {
    /// Opens the store and puts the engine together; nothing runs yet. Only who works on it
    /// may make a database.
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
                "there is no server and no database at {}; `clinch github run LOGIN` makes one",
                path.display()
            );
            return Err(CliError::NotThere(message));
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let opened = store::open(config).await?;
        let settings = Settings {
            // The clock is a server's business.
            schedule: Vec::new(),
            ..settings
        };
        let github = config.github.clone().unwrap_or_default();
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

    /// Works until it is stopped.
    pub(crate) fn start(&mut self) {
        let clinch = self.clinch.clone();
        let run = async move { clinch.run().await };
        self.running.get_or_insert_with(|| tokio::spawn(run));
    }

    /// Takes no more work and lets requests end.
    pub(crate) async fn stop(&mut self) {
        self.clinch.stop();
        if let Some(running) = self.running.take() {
            // That it was cancelled with its runtime is no error.
            let _ = running.await;
        }
    }
}

fn worker() -> Result<WorkerId, CliError> {
    let name = format!("clinch-github-{}", uuid::Uuid::now_v7().simple());
    let name = WorkerId::new(name);
    name.map_err(|error| CliError::failed(error.to_string()))
}
