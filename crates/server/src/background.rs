//! Background tasks beside the API and the engine: alerts, telemetry export and housekeeping.

use std::sync::Arc;

use clinch::types::{Builder, Telemetry};
use clinch::{Backend, Clinch};
use clinch_core::ports::{Alert, Clock, Inspect, Recovery};
use clinch_engine::Role;
use clinch_system::FileJournal;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Config;
use crate::alerts::{self, AlertQueue, Alerts};
use crate::housekeeping::{self, Overdue};
use crate::nodes::Nodes;
use crate::otlp::Otlp;
use crate::outbound::Outlets;
use crate::serve::Look;

/// The background tasks of a server, not started yet.
pub(crate) struct BackgroundTasks {
    outlets: Outlets,
    alerts: Option<(Alerts, AlertQueue)>,
    otlp: Option<Otlp>,
    /// The backup file of dead letters.
    pub(crate) letters: Option<FileJournal>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) inspect: Arc<dyn Inspect>,
    pub(crate) recovery: Arc<dyn Recovery>,
    /// Checks whether the store's files are in place.
    pub(crate) look: Option<Arc<Look>>,
    /// Registers this process in the store.
    pub(crate) nodes: Option<Nodes>,
}

impl BackgroundTasks {
    pub(crate) fn new(outlets: Outlets, clock: Arc<dyn Clock>, backend: &Backend) -> Self {
        let exports = outlets.traces.is_some() || outlets.metrics.is_some();
        Self {
            alerts: outlets
                .alerts
                .is_some()
                .then(|| alerts::channel(clock.clone())),
            otlp: exports.then(|| Otlp::new(clock.clone())),
            outlets,
            letters: None,
            clock,
            inspect: backend.inspect(),
            recovery: backend.recovery(),
            look: None,
            nodes: None,
        }
    }

    /// Connects the engine's telemetry and alerts with these tasks.
    pub(crate) fn connect(&self, builder: Builder, telemetry: Telemetry) -> Builder {
        let telemetry = match &self.otlp {
            Some(otlp) => telemetry.also(Arc::new(otlp.clone()), Arc::new(otlp.clone())),
            None => telemetry,
        };
        let builder = builder.telemetry(telemetry);
        match &self.alerts {
            Some((alerts, _)) => builder.alert(alerts.clone()),
            None => builder,
        }
    }

    /// Starts the tasks. They end soon after `stop`, the telemetry export after `stopped`.
    pub(crate) fn start(
        self,
        clinch: &Clinch,
        config: &Config,
        roles: &[Role],
        stop: &CancellationToken,
        stopped: &CancellationToken,
    ) -> TaskTracker {
        let tasks = TaskTracker::new();
        let alert = self.alerts.as_ref().map(|(alerts, _)| alerts.clone());
        if let (Some((_, notes)), Some(to)) = (self.alerts, self.outlets.alerts.clone()) {
            tasks.spawn(notes.send(to, self.clock.clone(), stop.clone()));
        }
        if let Some(otlp) = self.otlp {
            tasks.spawn(otlp.export(clinch.clone(), self.outlets, stopped.clone()));
        }
        if let Some(file) = self.letters {
            let (clock, retention) = (self.clock.clone(), config.dead_letter.retention.0);
            tasks.spawn(housekeeping::remove_old_letters(
                file,
                self.recovery,
                clock,
                retention,
                stop.clone(),
            ));
        }
        if let Some(nodes) = self.nodes {
            tasks.spawn(nodes.register(stop.clone()));
        }
        let alert = alert.map(|alerts| Arc::new(alerts) as Arc<dyn Alert>);
        if let Some(look) = self.look {
            let (clock, alert) = (self.clock.clone(), alert.clone());
            tasks.spawn(housekeeping::watch_files(look, clock, alert, stop.clone()));
        }
        if roles.contains(&Role::Recovery) {
            let overdue = Overdue {
                inspect: self.inspect,
                clock: self.clock,
                alert,
                limit: config.reaper.in_progress_warn.0,
            };
            tasks.spawn(overdue.watch(stop.clone()));
        }
        tasks.close();
        tasks
    }
}
