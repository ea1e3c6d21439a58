//! What watches every arrow of the path.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Claim, Claimed, Page};
use crate::policy::SeenTime;
use crate::{ContentHash, Failure, Keys, OpId, Result, Sealed, Timestamp};

/// Scans for the Finalizer, the Reaper, the prober and the sweeper; dead letters; pruning.
#[async_trait]
pub trait Recovery: Send + Sync {
    /// Claims rows that need recovery, oldest first.
    ///
    /// - In order of the time since when they need it, and only of the claim's routes.
    /// - Never the same row to two claimers while a claim lasts; a claim that ran out is
    ///   claimable again.
    /// - Any change of the row ends the claim: the row's next need is found at once.
    async fn scan(&self, scan: Scan, claim: &Claim) -> Result<Vec<Claimed>>;

    /// How long until `scan` finds a row; zero if one waits now.
    ///
    /// - `None`: nothing waits for a time, sleep until notified.
    async fn next_due(&self, scan: Scan) -> Result<Option<Duration>>;

    /// One page of dead letters, newest first.
    ///
    /// - Holds every operation that ended FAILED other than by cancel, from the same commit.
    /// - Ends as a page of [`Inspect::list`](super::Inspect::list) does: at `limit`, or when its
    ///   payloads reach [`PAGE_BYTES_MAX`](super::PAGE_BYTES_MAX).
    /// - Says whether a late yes was recorded since.
    async fn dead_letters(&self, cursor: Option<&str>, limit: usize) -> Result<Page<DeadLetter>>;

    /// Takes dead letters back from the backup file; true where one was new.
    ///
    /// - Twice is once.
    async fn import(&self, letters: &[DeadLetter]) -> Result<Vec<bool>>;

    /// Deletes what is older than its retention, at most `max` rows of each kind.
    ///
    /// - Open operations are never pruned.
    /// - A key outlives its operation: a replay still answers id and final state.
    /// - A key goes only after its operation, by its own retention.
    /// - Dead letters and ledgers go with their operation.
    /// - Ages count by [`SeenTime`], which this call moves on in the same commit: a clock that
    ///   jumps ahead makes nothing old, and one that goes back makes nothing young for good.
    async fn prune(&self, prune: &Prune) -> Result<Pruned>;

    /// The time by which ages are counted, as it stands; `None` before the first prune.
    async fn seen_time(&self) -> Result<Option<SeenTime>>;

    /// An operator vouches for the store's clock: ages count by what it shows now.
    async fn confirm_time(&self) -> Result<SeenTime>;
}

/// What to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scan {
    /// Outcomes recorded and not final: for the Finalizer.
    Unfinalized,
    /// Live rows whose lease has ended and that recorded nothing: for the Reaper.
    LeaseEnded,
    /// Held rows whose probe is due: for the prober.
    ProbeDue,
    /// PENDING and waiting rows past their deadline, also of paused domains and lane
    /// followers: for the sweeper.
    Overdue,
}

/// An operation that ended FAILED other than by cancel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The operation.
    pub op_id: OpId,
    /// The four keys.
    pub keys: Keys,
    /// Why.
    pub failure: Failure,
    /// Calls made.
    pub attempts: u32,
    /// The payload as it is stored.
    pub payload: Sealed,
    /// Of the stored payload.
    pub content_hash: ContentHash,
    /// When it became terminal.
    pub failed_at: Timestamp,
    /// A provider's yes was recorded afterwards: the call was applied.
    #[serde(default)]
    pub late_ok: bool,
}

/// What is old enough to go, as ages on the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune {
    /// COMPLETED for longer.
    pub completed: Duration,
    /// FAILED for longer.
    pub failed: Duration,
    /// Keys whose operation became terminal longer ago.
    pub keys: Duration,
    /// At most so many of each kind, so that a prune never blocks for long.
    pub max: usize,
    /// The time by this process's own reckoning: what it saw last, and its monotonic clock since.
    pub reckoned: Option<Timestamp>,
    /// A clock that is further ahead of the seen time has jumped.
    pub jump_max: Duration,
}

/// What a prune deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Operations.
    pub operations: usize,
    /// Keys.
    pub keys: usize,
    /// By which time.
    pub time: SeenTime,
}
