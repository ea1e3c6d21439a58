//! Runs the runners: one step at a time, or all of them until told to stop.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::Result;
use clinch_core::ports::{Level, Notice, Prune, Pruned, Tags};
use tokio::sync::Semaphore;

use crate::base::Base;
use crate::dispatch::Relay;
use crate::execute::Workers;
use crate::panics::caught;
use crate::recheck::Recheck;
use crate::recover::{ImportedLetters, Recoverer, Unread};
use crate::settle::Settler;
use crate::wakes::Runner;
use crate::{Config, Dispatch, Handlers, Orchestrator, Ports, Scanned};

/// The first pause after a runner failed; it doubles.
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// Upper bound of that pause.
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long an exiting process waits for its spill file. A disk that takes longer counts as hung.
const SPILL_MAX: Duration = Duration::from_secs(5);

/// The runners of one process.
#[derive(Clone)]
pub struct Runtime {
    base: Arc<Base>,
    relay: Arc<Relay>,
    workers: Arc<Workers>,
    recoverer: Arc<Recoverer>,
    orchestrator: Orchestrator,
    /// One permit for each runner. When all permits are back, no runner runs.
    running: Arc<Semaphore>,
}

/// What one [`Runtime::pump`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pumped {
    /// Hints that were announced, silent rows included.
    pub announced: usize,
    /// Deliveries that were run until they settled.
    pub executed: usize,
    /// Rows that recovery handled.
    pub recovered: usize,
}

impl Runtime {
    /// An engine on these ports. Refuses contradictory rules.
    pub fn new(ports: Ports, handlers: Handlers, config: Config) -> Result<Self> {
        let base = Arc::new(Base::new(ports, handlers, config)?);
        let relay = Arc::new(Relay::new(base.clone()));
        let settler = Arc::new(Settler::new(base.clone()));
        let workers = Arc::new(Workers::new(settler.clone()));
        Ok(Self {
            orchestrator: Orchestrator::new(workers.clone(), relay.clone()),
            recoverer: Arc::new(Recoverer::new(settler)),
            running: Arc::new(Semaphore::new(Runner::COUNT as usize)),
            base,
            relay,
            workers,
        })
    }

    /// The caller's handle.
    pub fn orchestrator(&self) -> Orchestrator {
        self.orchestrator.clone()
    }

    /// The ports as the engine uses them: each call has its deadline.
    pub fn ports(&self) -> &Ports {
        &self.base.ports
    }

    /// One step: relay, recover, then take and run up to `max` deliveries one after the other. Each
    /// delivery begins when its turn comes. If there is nothing to do, it does not wait. A part
    /// that fails does not stop the others; the first error is returned.
    pub async fn pump(&self, max: usize) -> Result<Pumped> {
        let workers = &self.workers;
        if self.base.is_stopping() {
            return Ok(Pumped::default());
        }
        let relayed = self.relay.relay().await;
        let swept = self.relay.sweep().await;
        let recovered = self.recover().await;
        let mut executed = 0;
        while executed < max {
            let asked_at = workers.ports.clock.monotonic();
            let Some(reserved) = workers.next_delivery().await? else {
                break;
            };
            workers.run_delivery(reserved, asked_at).await;
            executed += 1;
        }
        Ok(Pumped {
            announced: relayed?.found + swept?.found,
            executed,
            recovered: recovered?,
        })
    }

    /// One pass of every recovery runner. Returns the number of rows that were handled.
    pub async fn recover(&self) -> Result<usize> {
        let recoverer = &self.recoverer;
        recoverer.read_spill_if_any().await?;
        let finalized = recoverer.finalize_recorded().await?.found;
        recoverer.check_in().await;
        let reaped = recoverer.reap().await?.found;
        let probed = recoverer.probe_some(self.base.config.probes).await?;
        let ended = recoverer.end_overdue().await?.found;
        Ok(finalized + reaped + probed + ended)
    }

    /// Imports the dead-letter file into the store. Importing a letter twice has no further effect.
    pub async fn import_dead_letters(&self) -> Result<ImportedLetters> {
        self.recoverer.import_dead_letters().await
    }

    /// One pass over open operations whose route is not declared here. Returns the number of rows
    /// that were handled.
    pub async fn recover_undeclared(&self) -> Result<usize> {
        Ok(self.recoverer.recover_undeclared().await?.found)
    }

    /// Deletes data that is older than its retention, in one bounded step.
    pub async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        self.recoverer.prune(prune).await
    }

    /// Runs every runner until [`Runtime::stop`]. Returns when this process's attempts are done or
    /// the shutdown grace has passed. Each runner fails and restarts alone.
    pub async fn run(&self) {
        self.run_only(&Role::ALL).await;
    }

    /// Like [`Runtime::run`], with the runners of these roles only. Other processes on the same
    /// store must have the other roles: if no process has the recovery role, lost operations stay
    /// lost.
    pub async fn run_only(&self, roles: &[Role]) {
        let announces_own = !self.base.ports.notices.reaches_other_processes();
        let of_ours = |runner: &Runner| {
            roles.iter().any(|role| role.runs(*runner))
                || (announces_own && *runner == Runner::Relay)
        };
        for runner in Runner::ALL.into_iter().filter(of_ours) {
            let this = self.clone();
            let task = async move {
                let _running = this.running.clone().acquire_owned().await;
                this.keep_running(runner).await;
            };
            self.base.ports.spawner.spawn(Box::pin(task));
        }
        self.base.stop_told().await;
        let all_done = async {
            self.workers.attempts_done().await;
            let _idle = self.running.acquire_many(Runner::COUNT).await;
        };
        tokio::select! {
            biased;
            () = all_done => {}
            () = self.base.sleep(self.base.config.shutdown_grace) => {}
        }
        self.close().await;
    }

    /// Await this before the process exits, even if [`Runtime::run`] is not awaited (closing ends
    /// it): every answer that the store has not taken goes to the spill file. True: none is left.
    pub async fn close(&self) -> bool {
        let base = &self.base;
        base.stop();
        base.close();
        let saved = self.save_answers().await;
        self.recoverer.check_out().await;
        saved
    }

    async fn save_answers(&self) -> bool {
        let base = &self.base;
        tokio::select! {
            biased;
            () = self.workers.answers_saved() => true,
            () = base.sleep(SPILL_MAX) => {
                let message = "the process exits with answers that neither the store nor the \
                               spill file took; those operations will be held";
                base.alert("answer_lost", message, None).await;
                false
            }
        }
    }

    /// Number of attempts that run in this process now.
    pub fn attempts(&self) -> usize {
        self.workers.attempts.count()
    }

    /// Takes no more work, and lets [`Runtime::run`] return. An attempt that has begun but not
    /// called is given back.
    pub fn stop(&self) {
        self.base.stop();
    }
}

/// The purpose of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Accepts commands and answers callers.
    Api,
    /// Runs attempts from the queue.
    Worker,
    /// Announces due rows, and finds operations that got lost between two stages.
    Recovery,
}

impl Role {
    /// All roles, for a process that does everything.
    pub const ALL: [Self; 3] = [Self::Api, Self::Worker, Self::Recovery];

    fn runs(self, runner: Runner) -> bool {
        match runner {
            // Every role waits for notices of the store, may have spilled answers, and may run
            // attempts that others continue after its death.
            Runner::Listener | Runner::Spill | Runner::Presence => true,
            Runner::Worker => self == Self::Worker,
            Runner::Relay
            | Runner::Sweeper
            | Runner::Finalizer
            | Runner::Reaper
            | Runner::Prober
            | Runner::Overdue
            | Runner::Undeclared
            | Runner::Pruner => self == Self::Recovery,
        }
    }
}

impl Runtime {
    /// Repeats a runner's step until the process stops. A step that fails or panics is tried again
    /// after a pause; the other runners are not affected.
    async fn keep_running(&self, runner: Runner) {
        let mut pause = RESTART_PAUSE;
        let mut seen = 0;
        let recheck = Recheck::default();
        while !self.base.is_stopping() {
            match caught(self.step(runner, &mut seen)).await {
                Ok(Ok(scanned)) => {
                    pause = RESTART_PAUSE;
                    if scanned.found < self.base.config.batch {
                        self.rest(runner, scanned, &recheck).await;
                    }
                }
                Ok(Err(_)) | Err(_) => {
                    self.base.count("orchestrator.runner.failed.count", None, 1);
                    let tags = Tags {
                        code: Some(runner.name()),
                        ..Tags::default()
                    };
                    self.base
                        .log(Level::Error, "a runner failed and is started again", &tags);
                    self.base.sleep_unless_stopped(pause).await;
                    pause = (pause * 2).min(RESTART_PAUSE_MAX);
                }
            }
        }
    }

    async fn step(&self, runner: Runner, seen: &mut u64) -> Result<Scanned> {
        match runner {
            Runner::Listener => self.listen(seen).await,
            Runner::Relay => self.relay.relay().await,
            Runner::Sweeper => self.relay.sweep().await,
            Runner::Worker => self.workers.work().await,
            Runner::Spill => {
                self.recoverer.read_spill_if_any().await?;
                Ok(Scanned::nothing_to_do())
            }
            Runner::Presence => Ok(self.recoverer.check_in_if_leases_run().await),
            Runner::Finalizer => self.recoverer.finalize_recorded().await,
            Runner::Reaper => {
                // Read the spill file first: the answer of an attempt that looks lost may lie
                // there. While the store does not take those answers, nothing is reaped. A file
                // that cannot be read does not stop the Reaper.
                let unread = match self.recoverer.read_spill_if_any().await {
                    Err(Unread::Store(error)) => return Err(error),
                    unread => unread.map_err(clinch_core::Error::from),
                };
                let scanned = self.recoverer.reap().await;
                unread.and(scanned)
            }
            Runner::Prober => self.recoverer.probe_held().await,
            Runner::Overdue => self.recoverer.end_overdue().await,
            Runner::Undeclared => self.recoverer.recover_undeclared().await,
            Runner::Pruner => self.recoverer.prune_old().await,
        }
    }

    /// Sleeps until something is due, a notice comes, or the fallback has passed, whichever is
    /// first.
    async fn rest(&self, runner: Runner, scanned: Scanned, recheck: &Recheck) {
        let config = &self.base.config;
        let bound = match runner {
            // The listener waits for notices, and the worker for hints, within their own step.
            Runner::Listener => return,
            Runner::Worker if self.waits_on_the_bus() => return,
            Runner::Spill | Runner::Finalizer => config.finalizer_interval,
            Runner::Reaper => config.reaper_interval,
            Runner::Sweeper => config.sweep_grace,
            Runner::Pruner => config.prune_interval,
            // Rows past the grace period are found soon after it.
            Runner::Undeclared => (config.undeclared_grace / 2).max(config.fallback_poll),
            Runner::Relay
            | Runner::Worker
            | Runner::Prober
            | Runner::Overdue
            | Runner::Presence => config.fallback_poll,
        };
        // The worker rests each destination separately. If its `next` is zero, a notice came
        // meanwhile.
        let nap = if scanned.found > 0 || runner == Runner::Worker {
            recheck.reset();
            scanned.next.map_or(bound, |next| next.min(bound))
        } else {
            recheck.pause(scanned.next, bound)
        };
        self.base.nap(runner, nap).await;
    }

    /// Waits for notices of the store and passes them on.
    async fn listen(&self, seen: &mut u64) -> Result<Scanned> {
        let notices = &self.base.ports.notices;
        let news = tokio::select! {
            biased;
            () = self.base.stop_told() => return Ok(Scanned::nothing_to_do()),
            news = notices.news(*seen, self.base.config.fallback_poll) => news,
        };
        let (notices, last) = news?;
        *seen = last;
        for notice in notices {
            match notice {
                Notice::Due(domain) => {
                    self.workers.wake_destinations(Some(&domain));
                    self.base.wakes.wake(&Runner::DUE);
                    self.base.wakes.due_news.tell(Some(&domain));
                }
                Notice::Recovery => self.base.wakes.wake(&Runner::RECOVERY),
                Notice::Settled(op_id) => {
                    self.workers.settled_notice(op_id);
                    self.workers.lease_settled(op_id);
                }
                Notice::Lagged => {
                    self.workers.wake_destinations(None);
                    self.base.wakes.wake(&Runner::ALL);
                    self.base.wakes.due_news.tell(None);
                    self.workers.waiters.wake_all();
                }
            }
        }
        self.look_for_waiters().await?;
        Ok(Scanned::nothing_to_do())
    }

    /// Makes up for lost notices: at most once per fallback interval, in one read for many waiters.
    async fn look_for_waiters(&self) -> Result<()> {
        /// Rows of one read. A larger read would delay the next notices.
        const READ_MAX: usize = 1_000;
        let now = self.base.ports.clock.monotonic();
        if !self
            .workers
            .waiters
            .is_time_to_look(now, self.base.config.fallback_poll)
        {
            return Ok(());
        }
        let ops = self.workers.waiters.waited_for();
        for ops in ops.chunks(READ_MAX) {
            let rows = self.base.ports.inspect.get(ops).await?;
            let settled = rows
                .into_iter()
                .flatten()
                .filter(|row| row.state.is_terminal());
            settled.for_each(|row| self.workers.waiters.wake(row.op_id, || Some(row)));
        }
        Ok(())
    }

    fn waits_on_the_bus(&self) -> bool {
        matches!(self.base.ports.dispatch, Dispatch::Hints(_))
            && !self.workers.destinations.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_12_the_roles_together_run_everything_and_each_listens() {
        for runner in Runner::ALL {
            assert!(Role::ALL.iter().any(|role| role.runs(runner)), "{runner:?}");
        }
        assert!(Role::ALL.iter().all(|role| role.runs(Runner::Listener)));
        assert!(!Role::Api.runs(Runner::Worker));
        assert!(!Role::Worker.runs(Runner::Reaper));
    }
}
