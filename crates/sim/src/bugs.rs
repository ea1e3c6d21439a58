//! Planted bugs that a port can make: the engine is real, and a decorated port misleads it.
//!
//! Bugs inside of engine functions are source patches, in `bugs.toml` next to this folder. `cargo
//! xtask mutants` plants both kinds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{Routes, SeenTime};
use clinch_core::ports::{
    Claim, Claimed, DeadLetter, Journal, JournalRecords, LetterFilter, LetterOrder, LetterView,
    Outbox, Page, Prune, Pruned, Recovery, Scan, Silence,
};
use clinch_core::{ProcessId, Result};
use clinch_engine::Ports;

/// A planted bug that a decorated port makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortBug {
    /// The Finalizer does nothing.
    FinalizerSleeps,
    /// The Reaper does nothing.
    ReaperSleeps,
    /// The prober does nothing.
    ProberSleeps,
    /// No overdue operation is ended.
    DeadlinesForgotten,
    /// The spill file is not read.
    SpillUnread,
    /// Silent rows are not announced again.
    SweeperSleeps,
}

impl PortBug {
    /// Every planted bug of a port.
    pub const ALL: [Self; 6] = [
        Self::FinalizerSleeps,
        Self::ReaperSleeps,
        Self::ProberSleeps,
        Self::DeadlinesForgotten,
        Self::SpillUnread,
        Self::SweeperSleeps,
    ];

    /// The bug of this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|bug| format!("{bug:?}") == name)
    }

    /// The ports of a node, with one of them decorated.
    pub(crate) fn plant(self, mut ports: Ports) -> Ports {
        let mut hide = |hidden| {
            let port = ports.recovery.clone();
            ports.recovery = Arc::new(ScanFindsNothing { port, hidden });
        };
        match self {
            Self::FinalizerSleeps => hide(Scan::Unfinalized),
            Self::ReaperSleeps => hide(Scan::LeaseEnded),
            Self::ProberSleeps => hide(Scan::ProbeDue),
            Self::DeadlinesForgotten => hide(Scan::Overdue),
            Self::SpillUnread => ports.spill = Arc::new(ReadsNothing(ports.spill)),
            Self::SweeperSleeps => ports.outbox = Arc::new(NothingIsSilent(ports.outbox)),
        }
        ports
    }
}

/// One scan finds no rows; all other calls pass.
struct ScanFindsNothing {
    port: Arc<dyn Recovery>,
    hidden: Scan,
}

#[async_trait]
impl Recovery for ScanFindsNothing {
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>> {
        if scan == self.hidden {
            return Ok(Vec::new());
        }
        self.port.scan(scan, claim).await
    }
    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>> {
        if scan == self.hidden {
            return Ok(None);
        }
        self.port.next_due(scan).await
    }
    async fn check_in(&self, process: ProcessId) -> Result<Vec<ProcessId>> {
        self.port.check_in(process).await
    }
    async fn abandoned(&self, process: ProcessId, claim: &Claim) -> Result<Vec<Claimed>> {
        if self.hidden == Scan::LeaseEnded {
            return Ok(Vec::new());
        }
        self.port.abandoned(process, claim).await
    }
    async fn check_out(&self, process: ProcessId) -> Result<()> {
        self.port.check_out(process).await
    }
    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<LetterView>> {
        self.port.dead_letters(filter, order, cursor, limit).await
    }
    async fn letters(&self, ops: &[clinch_core::OpId]) -> Result<Vec<Option<LetterView>>> {
        self.port.letters(ops).await
    }
    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>> {
        self.port.import(letters).await
    }
    async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        self.port.prune(prune).await
    }
    async fn seen_time(&self) -> Result<Option<SeenTime>> {
        self.port.seen_time().await
    }
    async fn confirm_time(&self) -> Result<SeenTime> {
        self.port.confirm_time().await
    }
}

/// No announced row counts as silent; all other calls pass.
struct NothingIsSilent(Arc<dyn Outbox>);

#[async_trait]
impl Outbox for NothingIsSilent {
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>> {
        self.0.claim(claim).await
    }
    async fn claim_silent(&self, _claim: &Claim, _silence: &Silence) -> Result<Vec<Claimed>> {
        Ok(Vec::new())
    }
    async fn published(&self, claimed: &[Claimed]) -> Result<()> {
        self.0.published(claimed).await
    }
    async fn release(&self, claimed: &[Claimed]) -> Result<()> {
        self.0.release(claimed).await
    }
    async fn next_due(&self, routes: Option<&Routes>) -> Result<Option<Duration>> {
        self.0.next_due(routes).await
    }
}

/// A file whose records are kept and never read.
struct ReadsNothing(Arc<dyn Journal>);

#[async_trait]
impl Journal for ReadsNothing {
    async fn append(&self, records: &[Vec<u8>]) -> Result<()> {
        self.0.append(records).await
    }
    async fn read(&self) -> Result<JournalRecords> {
        Ok(JournalRecords::default())
    }
    async fn forget(&self, through: u64) -> Result<()> {
        self.0.forget(through).await
    }
}
