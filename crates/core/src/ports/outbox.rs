//! Claims queue rows for the bus.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Hint;
use crate::policy::Routes;
use crate::{Domain, EventType, OpId, Result, Timestamp, WorkerId};

/// The transactional outbox: one queue row per open operation.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Claims rows that are due for a begin and not announced since they became due.
    ///
    /// - By status, in order of priority, then due time, then seq: a row that commits late
    ///   is found like any other.
    /// - Never the same row to two claimers while a claim lasts. The row is stamped with its
    ///   claimer, for operators to see.
    /// - An expired claim (its owner died) is claimable again.
    /// - No rows of paused domains, no lane followers, no live or held rows.
    /// - Does not check integrity: a hint carries no payload, and the begin checks.
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>>;

    /// Claims rows that were announced and stayed silent: due for longer than the grace, and not
    /// begun since. The sweeper announces them again.
    ///
    /// - Each round waits twice as long as the one before, up to a bound.
    /// - Otherwise as [`Outbox::claim`].
    async fn claim_silent(&self, claim: &Claim, silence: &Silence) -> Result<Vec<Claimed>>;

    /// Records that rows were announced on the bus.
    ///
    /// - Raises `dispatch_no`; the operation's version stays: the row did not change.
    /// - A row that changed since it was claimed is left as it is.
    async fn published(&self, claimed: &[Claimed]) -> Result<()>;

    /// Gives claims back, for example because the bus is down.
    ///
    /// - The rows are claimable at once, and count as not announced.
    async fn release(&self, claimed: &[Claimed]) -> Result<()>;

    /// How long until a row becomes due for [`Outbox::claim`]; zero if one is due now.
    ///
    /// - Only rows with a route in `routes`; `None` means all.
    /// - `None`: no row waits for a time, sleep until notified.
    async fn next_due(&self, routes: Option<&Routes>) -> Result<Option<Duration>>;
}

/// Which rows a claim covers, by their routes.
#[derive(Debug, Clone, Default)]
pub enum Among {
    /// All rows.
    #[default]
    All,
    /// Rows with a route among these: a process recovers at once only rows whose rules it knows.
    Routes(Arc<Routes>),
    /// Rows without a route among these.
    Others(Arc<Routes>),
}

/// A request to claim rows.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The claimer, stamped on the rows.
    pub by: WorkerId,
    /// After this time the rows are claimable again.
    pub lasting: Duration,
    /// Maximum number of rows.
    pub max: usize,
    /// Which rows, by their routes.
    pub among: Among,
}

impl Claim {
    /// Whether rows of this domain and event type are claimed.
    pub fn covers(&self, domain: &Domain, event_type: &EventType) -> bool {
        match &self.among {
            Among::All => true,
            Among::Routes(routes) => routes.find(domain, event_type).is_some(),
            Among::Others(routes) => routes.find(domain, event_type).is_none(),
        }
    }
}

/// When a row counts as silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// The first pause after an announcement.
    pub grace: Duration,
    /// Upper bound of the pause.
    pub pause_max: Duration,
}

/// A claimed row. It names the operation and carries no payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The hint to announce; `dispatch_no` is already that of this announcement.
    pub hint: Hint,
    /// The row's version when it was claimed.
    pub version: u64,
    /// The row's fence when it was claimed. A probe carries it.
    pub fence: u64,
    /// Since when the row has needed what it was claimed for.
    pub since: Timestamp,
    /// The store's clock at the claim.
    pub now: Timestamp,
}

impl Claimed {
    /// The operation.
    pub fn op_id(&self) -> OpId {
        self.hint.op_id
    }
}
