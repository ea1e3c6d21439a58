//! Finds operations that got lost between two stages, keeps dead letters, and prunes.

use std::time::Duration;

use async_trait::async_trait;

use super::{Claim, Claimed, DeadLetter, LetterFilter, LetterOrder, LetterView, Page};
use crate::policy::SeenTime;
use crate::{OpId, ProcessId, Result, Timestamp};

/// Scans for the Finalizer, the Reaper, the prober and the sweeper; dead letters; pruning.
#[async_trait]
pub trait Recovery: Send + Sync {
    /// Claims rows that need recovery, oldest first.
    ///
    /// - In order of the time since when they need it, and only of the claim's routes.
    /// - Never the same row to two claimers while a claim lasts; an expired claim is claimable
    ///   again.
    /// - Any change of the row ends the claim: the row's next need is found at once.
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>>;

    /// How long until `scan` finds a row; zero if one waits now.
    ///
    /// - `None`: no row waits for a time, sleep until notified.
    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>>;

    /// Tells the store that this process is alive, and returns the processes that have died.
    ///
    /// - Called again and again while the process runs. From the first call on its death is noticed:
    ///   within seconds, by the next call of any other process.
    /// - A process that died is returned until [`Recovery::check_out`].
    /// - Never the caller, and no process that keeps calling: after the store or a connection was
    ///   away, every process has a few seconds to call again.
    /// - Only a hint, as a lease is: an operation stays safe if a living process is taken for dead
    ///   ([`Event::ProcessDied`](crate::protocol::Event::ProcessDied)).
    async fn check_in(&self, process: ProcessId) -> Result<Vec<ProcessId>>;

    /// Claims live rows whose attempt the process makes, whatever is left of their lease.
    ///
    /// - No rows with a recorded answer: those belong to the Finalizer. No attempts of remote
    ///   workers.
    /// - Otherwise as [`Recovery::scan`].
    async fn abandoned(&self, process: ProcessId, claim: &Claim) -> Result<Vec<Claimed>>;

    /// The process ends, or was found dead and its rows are continued: forget it.
    ///
    /// - Does nothing while a live row of the process is left.
    async fn check_out(&self, process: ProcessId) -> Result<()>;

    /// One page of dead letters, without their payloads.
    ///
    /// - There is a letter for every operation that ended FAILED other than by cancel, from the
    ///   same commit.
    /// - A redrive is shown from the commit that accepts it, a dismissal from its own commit
    ///   ([`Write::Letter`](super::Write::Letter)).
    /// - Pages by keyset: nothing is shown twice or skipped while letters are added or change
    ///   their status.
    /// - At most `limit`, at most [`PAGE_MAX`](super::PAGE_MAX).
    /// - A list that [searches](LetterFilter::searches) may end a page after
    ///   [`SEARCH_MAX`](super::SEARCH_MAX) letters, with fewer items or none: the search continues
    ///   at `next_cursor`. Letters in another state are not looked at.
    /// - A cursor of another order is `Invalid`, and so is [`LetterOrder::Accepted`] without a
    ///   state.
    /// - Says whether a late Ok was recorded since.
    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<LetterView>>;

    /// Dead letters by operation, in order; `None` where there is none.
    async fn letters(&self, ops: &[OpId]) -> Result<Vec<Option<LetterView>>>;

    /// Imports dead letters from the backup file. True where the letter was new.
    ///
    /// - Importing a letter twice has no further effect.
    /// - A letter is open when it is imported.
    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>>;

    /// Deletes data that is older than its retention, at most `max` rows of each kind.
    ///
    /// - Open operations are never pruned.
    /// - A key outlives its operation: a replay still answers id and final state.
    /// - A key is deleted only after its operation, by its own retention.
    /// - Dead letters and ledgers are deleted with their operation.
    /// - A batch is deleted when it completed longer ago than both retentions of operations: its
    ///   members are gone by then. A batch that has not completed is never pruned.
    /// - Ages count by [`SeenTime`], which this call advances in the same commit: a clock that
    ///   jumps ahead makes nothing old, and a clock that goes back makes nothing young for good.
    async fn prune(&self, prune: &Prune) -> Result<Pruned>;

    /// The seen time as it is now; `None` before the first prune.
    async fn seen_time(&self) -> Result<Option<SeenTime>>;

    /// An operator confirms the store's clock: ages count by its time from now on.
    async fn confirm_time(&self) -> Result<SeenTime>;
}

/// What a scan looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scan {
    /// Recorded outcomes that are not final, for the Finalizer.
    Unfinalized,
    /// Live rows whose lease has ended and that recorded no outcome, for the Reaper.
    LeaseEnded,
    /// Held rows whose probe is due, for the prober.
    ProbeDue,
    /// PENDING and waiting rows past their deadline, including those of paused domains and lane
    /// followers.
    Overdue,
}

/// Retention periods, as ages on the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune {
    /// COMPLETED operations older than this are deleted.
    pub completed: Duration,
    /// FAILED operations older than this are deleted.
    pub failed: Duration,
    /// Keys whose operation became terminal longer ago are deleted.
    pub keys: Duration,
    /// Maximum number of each kind, so that a prune never blocks for long.
    pub max: usize,
    /// This process's own estimate of the time: its last reading plus the time since on its
    /// monotonic clock.
    pub reckoned: Option<Timestamp>,
    /// A clock that is further ahead of the seen time has jumped.
    pub jump_max: Duration,
}

impl Prune {
    /// Batches that completed longer ago than this are deleted.
    pub fn batches(&self) -> Duration {
        self.completed.max(self.failed)
    }
}

/// What a prune deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of operations.
    pub operations: usize,
    /// Number of keys.
    pub keys: usize,
    /// Number of batches.
    pub batches: usize,
    /// The time by which ages were counted.
    pub time: SeenTime,
}
