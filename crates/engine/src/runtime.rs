//! Puts the runners together: one step at a time, or all of them until told to stop.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::Result;
use clinch_core::ports::{Level, Notice, Prune, Pruned, Tags};

use crate::handlers::Handlers;
use crate::node::{Dispatch, Node, Ports};
use crate::panics::caught;
use crate::recheck::Recheck;
use crate::recover::{ImportedLetters, Scanned, Unread};
use crate::{Config, Orchestrator};

/// The first pause of a runner that failed; doubles.
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// No such pause is longer.
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long a process that exits waits for its spill file: a disk that takes longer hangs.
const SPILL_MAX: Duration = Duration::from_secs(5);

/// The runners of one process.
#[derive(Clone)]
pub struct Runtime {
    node: Arc<Node>,
}

/// What one step of everything did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pumped {
    /// Hints that the relay announced, silent ones included.
    pub announced: usize,
    /// Deliveries that were run to their settle.
    pub executed: usize,
    /// Rows that recovery handled.
    pub recovered: usize,
}

impl Runtime {
    /// An engine on these ports. Refuses rules that contradict themselves.
    pub fn new(ports: Ports, handlers: Handlers, config: Config) -> Result<Self> {
        let node = Node::new(ports, handlers, config)?;
        Ok(Self { node })
    }

    /// The caller's handle.
    pub fn orchestrator(&self) -> Orchestrator {
        Orchestrator {
            node: self.node.clone(),
        }
    }

    /// The ports as the engine uses them: each call has its deadline.
    pub fn ports(&self) -> &Ports {
        &self.node.ports
    }

    /// One step: relay, recover, then take and run up to `max` deliveries one after the other,
    /// each begun when its turn comes. Never waits when there is nothing to do. A part that
    /// fails does not keep the others from their step; the first error is returned.
    pub async fn pump(&self, max: usize) -> Result<Pumped> {
        let node = &self.node;
        if node.is_stopping() {
            return Ok(Pumped::default());
        }
        let relayed = node.relay().await;
        let swept = node.sweep().await;
        let recovered = self.recover().await;
        let mut executed = 0;
        while executed < max {
            let asked_at = node.ports.clock.monotonic();
            let Some(reserved) = node.next_delivery().await? else {
                break;
            };
            node.run_delivery(reserved, asked_at).await;
            executed += 1;
        }
        Ok(Pumped {
            announced: relayed?.found + swept?.found,
            executed,
            recovered: recovered?,
        })
    }

    /// One pass of every recovery runner; returns the rows that they handled.
    pub async fn recover(&self) -> Result<usize> {
        let node = &self.node;
        node.read_spill_if_any().await?;
        let finalized = node.finalize_recorded().await?.found;
        let reaped = node.reap().await?.found;
        let probed = node.probe_some(node.config.probes).await?;
        let ended = node.end_overdue().await?.found;
        Ok(finalized + reaped + probed + ended)
    }

    /// Reads filed dead letters back into the store, once however often it is done.
    pub async fn import_dead_letters(&self) -> Result<ImportedLetters> {
        self.node.import_dead_letters().await
    }

    /// One pass over open operations whose route is not declared here; returns the rows that it
    /// handled.
    pub async fn recover_undeclared(&self) -> Result<usize> {
        Ok(self.node.recover_undeclared().await?.found)
    }

    /// Deletes what is older than its retention, one bounded step.
    pub async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        self.node.prune(prune).await
    }

    /// Runs everything until [`Runtime::stop`]; returns when the attempts of this process
    /// are done or the grace has passed. Each runner fails and restarts alone.
    pub async fn run(&self) {
        self.run_only(&Role::ALL).await;
    }

    /// The same with the runners of these roles only. Other processes on the same store have
    /// the other roles: without a recovery anywhere, what got lost stays lost.
    pub async fn run_only(&self, roles: &[Role]) {
        let announces_own = !self.node.ports.notices.reaches_other_processes();
        let of_ours = |runner: &Runner| {
            roles.iter().any(|role| role.runs(*runner))
                || (announces_own && *runner == Runner::Relay)
        };
        for runner in Runner::ALL.into_iter().filter(of_ours) {
            let (node, busy) = (self.node.clone(), self.node.runners.clone());
            let task = async move {
                let _busy = busy.acquire_owned().await;
                keep_running(node, runner).await;
            };
            self.node.ports.spawner.spawn(Box::pin(task));
        }
        self.node.stop_told().await;
        let all_done = async {
            self.node.attempts_done().await;
            let _idle = self.node.runners.acquire_many(Runner::COUNT).await;
        };
        tokio::select! {
            biased;
            () = all_done => {}
            () = self.node.sleep(self.node.config.shutdown_grace) => {}
        }
        self.close().await;
    }

    /// To be awaited before the process exits, also where [`Runtime::run`] is not waited for
    /// (it ends with this): every answer of a provider that the store has not taken goes to the
    /// spill file. True: none is left.
    pub async fn close(&self) -> bool {
        let node = &self.node;
        node.stop();
        node.close();
        tokio::select! {
            biased;
            () = node.hands_empty() => true,
            () = node.sleep(SPILL_MAX) => {
                let message = "the process exits with answers that neither the store nor the \
                               spill file took; those operations will be held";
                node.alert("answer_lost", message, None).await;
                false
            }
        }
    }

    /// Attempts that run in this process now.
    pub fn attempts(&self) -> usize {
        self.node.attempts()
    }

    /// Takes no more work, and lets [`Runtime::run`] return. An attempt that has begun and
    /// not called is given back.
    pub fn stop(&self) {
        self.node.stop();
    }
}

/// What a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Takes commands in and tells callers what became of them.
    Api,
    /// Runs attempts from the queue.
    Worker,
    /// Announces due rows, and finds what got lost on any arrow.
    Recovery,
}

impl Role {
    /// One process that does everything.
    pub const ALL: [Self; 3] = [Self::Api, Self::Worker, Self::Recovery];

    fn runs(self, runner: Runner) -> bool {
        match runner {
            // Every role waits for news of the store, and may have spilled answers.
            Runner::Listener | Runner::Spill => true,
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

/// A loop of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    Listener,
    Spill,
    Relay,
    Sweeper,
    Worker,
    Finalizer,
    Reaper,
    Prober,
    Overdue,
    Undeclared,
    Pruner,
}

impl Runner {
    pub(crate) const ALL: [Self; 11] = [
        Self::Listener,
        Self::Spill,
        Self::Relay,
        Self::Sweeper,
        Self::Worker,
        Self::Finalizer,
        Self::Reaper,
        Self::Prober,
        Self::Overdue,
        Self::Undeclared,
        Self::Pruner,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Spill => "spill",
            Self::Relay => "relay",
            Self::Sweeper => "sweeper",
            Self::Worker => "worker",
            Self::Finalizer => "finalizer",
            Self::Reaper => "reaper",
            Self::Prober => "prober",
            Self::Overdue => "overdue",
            Self::Undeclared => "undeclared",
            Self::Pruner => "pruner",
        }
    }

    pub(crate) const COUNT: u32 = Self::ALL.len() as u32;
    /// Woken by a row that is due for a begin.
    const DUE: [Self; 2] = [Self::Relay, Self::Worker];
    /// Woken by a row that needs recovery.
    const RECOVERY: [Self; 4] = [Self::Finalizer, Self::Reaper, Self::Prober, Self::Overdue];
}

/// Steps until the process stops. A step that fails or panics is tried again after a pause;
/// the other runners do not notice.
async fn keep_running(node: Arc<Node>, runner: Runner) {
    let mut pause = RESTART_PAUSE;
    let mut seen = 0;
    let recheck = Recheck::default();
    while !node.is_stopping() {
        match caught(node.step(runner, &mut seen)).await {
            Ok(Ok(scanned)) => {
                pause = RESTART_PAUSE;
                if scanned.found < node.config.batch {
                    node.rest(runner, scanned, &recheck).await;
                }
            }
            Ok(Err(_)) | Err(_) => {
                node.count("orchestrator.runner.failed.count", None, 1);
                let tags = Tags {
                    code: Some(runner.name()),
                    ..Tags::default()
                };
                node.log(Level::Error, "a runner failed and is started again", &tags);
                node.sleep_unless_stopped(pause).await;
                pause = (pause * 2).min(RESTART_PAUSE_MAX);
            }
        }
    }
}

impl Node {
    async fn step(self: &Arc<Self>, runner: Runner, seen: &mut u64) -> Result<Scanned> {
        match runner {
            Runner::Listener => self.listen(seen).await,
            Runner::Relay => self.relay().await,
            Runner::Sweeper => self.sweep().await,
            Runner::Worker => self.work().await,
            Runner::Spill => {
                self.read_spill_if_any().await?;
                Ok(Scanned::nothing_to_do())
            }
            Runner::Finalizer => self.finalize_recorded().await,
            Runner::Reaper => {
                // Before it takes an attempt for lost whose answer lies in the file: while the
                // store does not take that, nothing is reaped. A file that cannot be read does
                // not keep the Reaper from its work.
                let unread = match self.read_spill_if_any().await {
                    Err(Unread::Store(error)) => return Err(error),
                    unread => unread.map_err(clinch_core::Error::from),
                };
                let scanned = self.reap().await;
                unread.and(scanned)
            }
            Runner::Prober => self.probe_held().await,
            Runner::Overdue => self.end_overdue().await,
            Runner::Undeclared => self.recover_undeclared().await,
            Runner::Pruner => self.prune_old().await,
        }
    }

    /// Until something is due, until news, or until the fallback: whichever comes first.
    async fn rest(&self, runner: Runner, scanned: Scanned, recheck: &Recheck) {
        let config = &self.config;
        let bound = match runner {
            // They wait by themselves: for news, and for hints.
            Runner::Listener => return,
            Runner::Worker if self.waits_on_the_bus() => return,
            Runner::Spill | Runner::Finalizer => config.finalizer_interval,
            Runner::Reaper => config.reaper_interval,
            Runner::Sweeper => config.sweep_grace,
            Runner::Pruner => config.prune_interval,
            // What the grace has left to others is found soon after it.
            Runner::Undeclared => (config.undeclared_grace / 2).max(config.fallback_poll),
            Runner::Relay | Runner::Worker | Runner::Prober | Runner::Overdue => {
                config.fallback_poll
            }
        };
        // The worker asks by destination and rests each by itself: its zero means that
        // something came meanwhile.
        let nap = if scanned.found > 0 || runner == Runner::Worker {
            recheck.reset();
            scanned.next.map_or(bound, |next| next.min(bound))
        } else {
            recheck.pause(scanned.next, bound)
        };
        self.nap(runner, nap).await;
    }

    async fn nap(&self, runner: Runner, nap: Duration) {
        tokio::select! {
            biased;
            () = self.wake[runner as usize].notified() => {}
            () = self.sleep_unless_stopped(nap) => {}
        }
    }

    /// A call ended that a worker waits for, or there is news.
    pub(crate) async fn woken_to_work(&self) {
        self.wake[Runner::Worker as usize].notified().await;
    }

    /// A worker whose destinations are all closed: until a call ends, or for so long.
    pub(crate) async fn rest_until_woken(&self, nap: Duration) {
        self.nap(Runner::Worker, nap).await;
    }

    /// Waits for news of the store and passes it on.
    async fn listen(&self, seen: &mut u64) -> Result<Scanned> {
        let notices = &self.ports.notices;
        let news = tokio::select! {
            biased;
            () = self.stop_told() => return Ok(Scanned::nothing_to_do()),
            news = notices.news(*seen, self.config.fallback_poll) => news,
        };
        let (notices, last) = news?;
        *seen = last;
        for notice in notices {
            match notice {
                Notice::Due(domain) => {
                    self.wake_lots(Some(&domain));
                    self.wake(&Runner::DUE);
                    self.due_news.tell(Some(&domain));
                }
                Notice::Recovery => self.wake(&Runner::RECOVERY),
                Notice::Settled(op_id) => {
                    self.waiters.wake(op_id);
                    self.lease_settled(op_id);
                }
                Notice::Lagged => {
                    self.wake_lots(None);
                    self.wake(&Runner::ALL);
                    self.due_news.tell(None);
                    self.waiters.wake_all();
                }
            }
        }
        self.look_for_waiters().await?;
        Ok(Scanned::nothing_to_do())
    }

    /// Makes up for lost notices: once within the fallback, one read for many waiters.
    async fn look_for_waiters(&self) -> Result<()> {
        /// Rows of one read: more would hold up the news.
        const READ_MAX: usize = 1_000;
        let now = self.ports.clock.monotonic();
        if !self.waiters.is_time_to_look(now, self.config.fallback_poll) {
            return Ok(());
        }
        let ops = self.waiters.waited_for();
        for ops in ops.chunks(READ_MAX) {
            let rows = self.ports.inspect.get(ops).await?;
            let settled = rows
                .into_iter()
                .flatten()
                .filter(|row| row.state.is_terminal());
            settled.for_each(|row| self.waiters.wake(row.op_id));
        }
        Ok(())
    }

    fn waits_on_the_bus(&self) -> bool {
        matches!(self.ports.dispatch, Dispatch::Hints(_)) && !self.lots.is_empty()
    }

    fn wake(&self, runners: &[Runner]) {
        for runner in runners {
            self.wake[*runner as usize].notify_one();
        }
    }

    /// A call, a probe or a lease ended: its destination may have room for what waits.
    pub(crate) fn call_ended(&self) {
        if self.starved.swap(false, Ordering::SeqCst) {
            self.wake(&[Runner::Worker]);
        }
        if self.probes_starved.swap(false, Ordering::SeqCst) {
            self.wake(&[Runner::Prober]);
        }
        if self.leases.starved.swap(false, Ordering::SeqCst) {
            self.due_news.tell(None);
        }
    }

    pub(crate) async fn sleep_unless_stopped(&self, duration: Duration) {
        tokio::select! {
            biased;
            () = self.stop_told() => {}
            () = self.sleep(duration) => {}
        }
    }

    /// Every permit is back: no attempt runs.
    async fn attempts_done(&self) {
        let all = u32::try_from(self.config.concurrency).unwrap_or(u32::MAX);
        let _queue = self.queue_permits.acquire_many(all).await;
        let _inline = self.inline_permits.acquire_many(all).await;
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
