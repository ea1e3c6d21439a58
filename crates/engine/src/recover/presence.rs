//! Tells the store that this process is alive, and learns which processes have died.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::ProcessId;
use clinch_core::ports::{Level, Tags};

use super::Recoverer;
use crate::Scanned;
use crate::wakes::Runner;

/// How long an exiting process waits until the store has forgotten it.
const CHECK_OUT_MAX: Duration = Duration::from_secs(1);

/// The other processes, as far as the Reaper cares.
#[derive(Default)]
pub(super) struct OtherProcesses {
    /// Those that had died when this process last asked.
    dead: Mutex<Vec<ProcessId>>,
    /// This process has checked in.
    is_known: AtomicBool,
    /// Leases run, as of the Reaper's last pass: a death would matter.
    leases_run: AtomicBool,
}

impl OtherProcesses {
    fn lock(&self) -> MutexGuard<'_, Vec<ProcessId>> {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True: no lease ran before.
    fn set_leases_run(&self, run: bool) -> bool {
        !self.leases_run.swap(run, Ordering::SeqCst) && run
    }

    pub(super) fn dead(&self) -> Vec<ProcessId> {
        self.lock().clone()
    }

    pub(super) fn forget(&self, process: ProcessId) {
        self.lock().retain(|one| *one != process);
    }

    /// Returns those that were not known to be dead.
    fn replace(&self, dead: Vec<ProcessId>) -> Vec<ProcessId> {
        let known = std::mem::replace(&mut *self.lock(), dead.clone());
        let is_new = |process: &ProcessId| !known.contains(process);
        dead.into_iter().filter(is_new).collect()
    }
}

impl Recoverer {
    /// Checks in while attempts run here or leases run anywhere: an idle process makes no calls,
    /// unless its store does not tell it when others begin attempts.
    pub(crate) async fn check_in_if_leases_run(&self) -> Scanned {
        let others = &self.processes;
        let is_needed = !others.is_known.load(Ordering::SeqCst)
            || others.leases_run.load(Ordering::SeqCst)
            || !self.ports.notices.reaches_other_processes()
            || self.attempts.count() > 0;
        if !is_needed {
            return Scanned::nothing_to_do();
        }
        self.check_in().await;
        Scanned {
            found: 0,
            next: Some(self.config.presence_interval),
        }
    }

    /// The Reaper's last pass found that leases run, or that none does.
    pub(super) fn note_leases(&self, run: bool) {
        if self.processes.set_leases_run(run) {
            self.wakes.wake(&[Runner::Presence]);
        }
    }

    /// A process that died wakes the Reaper. A store that does not answer is no reason to fail:
    /// leases end all the same.
    pub(crate) async fn check_in(&self) {
        if let Ok(dead) = self.ports.recovery.check_in(self.process).await {
            self.processes.is_known.store(true, Ordering::SeqCst);
            let died = self.processes.replace(dead);
            if !died.is_empty() {
                let message = "a process has died; its attempts are continued";
                let tags = Tags {
                    count: Some(died.len()),
                    ..Tags::default()
                };
                self.log(Level::Warn, message, &tags);
                self.count("orchestrator.process.lost.count", None, died.len());
                self.wakes.wake(&[Runner::Reaper]);
            }
        }
    }

    /// The last thing that a process does. Without it, or if rows of this process are still live,
    /// others find it dead.
    pub(crate) async fn check_out(&self) {
        tokio::select! {
            biased;
            _ = self.ports.recovery.check_out(self.process) => {}
            () = self.sleep(CHECK_OUT_MAX) => {}
        }
    }
}
