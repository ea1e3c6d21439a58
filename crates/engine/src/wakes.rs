//! The runners of a process, and what wakes each of them early.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use clinch_core::Domain;
use tokio::sync::{Notify, watch};

/// A loop of a process that fails and restarts alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    Listener,
    Spill,
    Presence,
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
    pub(crate) const ALL: [Self; 12] = [
        Self::Listener,
        Self::Spill,
        Self::Presence,
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

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Spill => "spill",
            Self::Presence => "presence",
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
    /// Woken when a row is due for a begin.
    pub(crate) const DUE: [Self; 2] = [Self::Relay, Self::Worker];
    /// Woken when a row needs recovery.
    pub(crate) const RECOVERY: [Self; 4] =
        [Self::Finalizer, Self::Reaper, Self::Prober, Self::Overdue];
}

/// Wakes the runners, and remote workers that wait.
pub(crate) struct Wakes {
    runners: [Notify; Runner::ALL.len()],
    /// The runner waits for a destination that is full, so the end of a call wakes it.
    starved: [AtomicBool; Runner::ALL.len()],
    /// A remote worker waits for a destination that is full.
    leases_starved: AtomicBool,
    pub due_news: DueNews,
}

impl Wakes {
    pub(crate) fn new<'a>(domains: impl Iterator<Item = &'a Domain>) -> Self {
        Self {
            runners: std::array::from_fn(|_| Notify::new()),
            starved: std::array::from_fn(|_| AtomicBool::new(false)),
            leases_starved: AtomicBool::new(false),
            due_news: DueNews::new(domains),
        }
    }

    pub(crate) fn wake(&self, runners: &[Runner]) {
        for runner in runners {
            self.runners[*runner as usize].notify_one();
        }
    }

    pub(crate) async fn woken(&self, runner: Runner) {
        self.runners[runner as usize].notified().await;
    }

    /// Sets whether the end of a call, a probe or a lease wakes this runner.
    pub(crate) fn set_starved(&self, runner: Runner, starved: bool) {
        self.starved[runner as usize].store(starved, Ordering::SeqCst);
    }

    /// From now on the end of a call, a probe or a lease wakes remote workers, once.
    pub(crate) fn set_leases_starved(&self) {
        self.leases_starved.store(true, Ordering::SeqCst);
    }

    /// A call, a probe or a lease ended: its destination may have room for waiting work.
    pub(crate) fn call_ended(&self) {
        for runner in [Runner::Worker, Runner::Prober] {
            if self.starved[runner as usize].swap(false, Ordering::SeqCst) {
                self.wake(&[runner]);
            }
        }
        if self.leases_starved.swap(false, Ordering::SeqCst) {
            self.due_news.tell(None);
        }
    }
}

/// Tells waiting remote workers that rows of a domain may be due.
pub(crate) struct DueNews(BTreeMap<Domain, watch::Sender<u64>>);

impl DueNews {
    pub(crate) fn new<'a>(domains: impl Iterator<Item = &'a Domain>) -> Self {
        let news = |domain: &Domain| (domain.clone(), watch::Sender::new(0));
        Self(domains.map(news).collect())
    }

    /// Rows of this domain may be due. `None`: of any domain.
    pub(crate) fn tell(&self, domain: Option<&Domain>) {
        let told = self.0.iter();
        let told = told.filter(|(of, _)| domain.is_none_or(|domain| *of == domain));
        told.for_each(|(_, news)| news.send_modify(|count| *count += 1));
    }

    pub(crate) fn subscribe(&self, domain: &Domain) -> Option<watch::Receiver<u64>> {
        self.0.get(domain).map(watch::Sender::subscribe)
    }
}
