//! What every stage uses: the ports, the declared routes, the group commit, and the shutdown stage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::policy::{Routes, SeenTime};
use clinch_core::ports::{Among, Claim, Operation};
use clinch_core::{AttemptId, Domain, Error, ErrorKind, OpId, ProcessId, Result};
use tokio::sync::watch;

use crate::group::{GroupCommit, may_help};
use crate::wakes::{Runner, Wakes};
use crate::{Config, Handlers, Ports, deadline};

/// Upper bound of the pause between two tries.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What every stage of one process shares.
pub(crate) struct Base {
    pub ports: Ports,
    pub handlers: Handlers,
    pub config: Config,
    pub routes: Arc<Routes>,
    /// This process, as the attempts that it makes name it.
    pub process: ProcessId,
    pub commits: GroupCommit,
    pub wakes: Wakes,
    pub concerns: Concerns,
    /// Declared domains that share one metric label.
    pub without_label: BTreeSet<Domain>,
    stage: watch::Sender<Stage>,
}

/// Conditions that an operator should look at.
#[derive(Default)]
pub(crate) struct Concerns {
    /// The store's seen time, and the monotonic time at which it was read.
    time_seen: Mutex<Option<(SeenTime, Duration)>>,
    /// Open operations without a route here, by domain, as of the last count.
    undeclared: Mutex<BTreeMap<Domain, u64>>,
}

impl Concerns {
    pub(crate) fn time_seen(&self) -> MutexGuard<'_, Option<(SeenTime, Duration)>> {
        self.time_seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn undeclared(&self) -> MutexGuard<'_, BTreeMap<Domain, u64>> {
        self.undeclared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stages of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    /// Takes no more work; running attempts continue.
    Stopping,
    /// About to exit: every answer that the store has not taken goes to the spill file now.
    Closing,
}

impl Base {
    pub(crate) fn new(ports: Ports, handlers: Handlers, config: Config) -> Result<Self> {
        config.validate()?;
        let ports = deadline::bound(ports, &config);
        let handlers = handlers.with_lease(config.lease);
        let routes = Arc::new(handlers.routes()?);
        let base = Self {
            commits: GroupCommit::new(&ports, &routes, &config),
            wakes: Wakes::new(handlers.by_domain().map(|(domain, _)| domain)),
            concerns: Concerns::default(),
            without_label: crate::telemetry::without_label(&handlers),
            stage: watch::Sender::new(Stage::Running),
            process: ProcessId::new(ports.ids.attempt_id()),
            ports,
            handlers,
            config,
            routes,
        };
        base.begin_at_zero();
        Ok(base)
    }

    /// A fresh id for an attempt of this process.
    pub(crate) fn attempt_id(&self) -> AttemptId {
        self.process.attempt(self.ports.ids.attempt_id())
    }

    pub(crate) fn stop(&self) {
        self.enter(Stage::Stopping);
    }

    /// Every answer that the store has not taken goes to the spill file now.
    pub(crate) fn close(&self) {
        self.enter(Stage::Closing);
    }

    /// A later stage never goes back to an earlier one.
    fn enter(&self, stage: Stage) {
        self.stage.send_modify(|at| *at = stage.max(*at));
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stage.borrow() >= Stage::Stopping
    }

    /// Returns when the process is told to stop.
    pub(crate) async fn stop_told(&self) {
        self.reached(Stage::Stopping).await;
    }

    /// Returns when the process is about to exit.
    pub(crate) async fn close_told(&self) {
        self.reached(Stage::Closing).await;
    }

    async fn reached(&self, stage: Stage) {
        // The sender lives as long as this struct: waiting cannot fail.
        let _ = self.stage.subscribe().wait_for(|at| *at >= stage).await;
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.ports.clock.sleep(duration).await;
    }

    pub(crate) async fn sleep_unless_stopped(&self, duration: Duration) {
        tokio::select! {
            biased;
            () = self.stop_told() => {}
            () = self.sleep(duration) => {}
        }
    }

    /// Sleeps until the runner is woken, the process stops, or `nap` has passed.
    pub(crate) async fn nap(&self, runner: Runner, nap: Duration) {
        tokio::select! {
            biased;
            () = self.wakes.woken(runner) => {}
            () = self.sleep_unless_stopped(nap) => {}
        }
    }

    pub(crate) async fn row(&self, op_id: OpId) -> Result<Operation> {
        let rows = self.ports.inspect.get(&[op_id]).await?;
        let missing = || Error::new(ErrorKind::NotFound, "there is no such operation");
        rows.into_iter().next().flatten().ok_or_else(missing)
    }

    pub(crate) fn claim(&self) -> Claim {
        Claim {
            by: self.config.worker.clone(),
            lasting: self.config.claim,
            max: self.config.batch,
            among: Among::All,
        }
    }

    /// A claim for recovery scans: short, and only for rows whose route is declared here.
    pub(crate) fn brief_claim(&self) -> Claim {
        Claim {
            lasting: self.config.recovery_claim,
            among: Among::Routes(self.routes.clone()),
            ..self.claim()
        }
    }

    /// Retries with growing pauses while the error may be temporary, at most for `patience`.
    pub(crate) async fn persist<T, F>(
        &self,
        patience: Duration,
        mut call: impl FnMut() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut pause = self.config.settle_pause;
        let give_up_at = self.ports.clock.monotonic().saturating_add(patience);
        loop {
            match call().await {
                Ok(done) => return Ok(done),
                Err(error) if !may_help(&error) => return Err(error),
                Err(error) if self.ports.clock.monotonic() >= give_up_at => return Err(error),
                Err(_) => self.sleep(pause).await,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
