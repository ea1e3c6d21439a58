//! Domains as operators see them: pauses and counters.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::Counts;
use crate::{Actor, Domain, EventType, MESSAGE_BYTES_MAX, Result, Timestamp, WorkerId, shorten};

/// Pauses, and maintained counters.
#[async_trait]
pub trait Domains: Send + Sync {
    /// Pauses a domain.
    ///
    /// - A pause blocks begins only: running attempts settle, probes and deadlines continue.
    /// - A domain can be paused before its first operation.
    /// - Keeps who paused the domain, when and why, until it is resumed.
    /// - Pausing a paused domain changes nothing: the first pause keeps its time, actor and reason.
    async fn pause(&self, domain: &Domain, pause: &NewPause) -> Result<()>;

    /// Resumes a domain. A domain that is not paused stays as it is.
    async fn resume(&self, domain: &Domain) -> Result<()>;

    /// Every domain that has or had operations or is paused, by name.
    ///
    /// - Counters are maintained in the commit that changes a row, not counted.
    /// - Counters equal the rows.
    /// - The age of a due row counts from when it became due: from its `run_at`, and from its
    ///   accept if that was later.
    async fn domains(&self) -> Result<Vec<DomainView>>;

    /// Which routes have open operations that wait for a begin or for recovery, and how many.
    ///
    /// - Counted by this call, not maintained: not for frequent use.
    /// - Lane followers and held operations that wait for an operator may be left out.
    async fn open_routes(&self) -> Result<Vec<OpenRoute>>;
}

/// Open operations of one domain and event type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRoute {
    /// The domain.
    pub domain: Domain,
    /// The event type.
    pub event_type: EventType,
    /// How many are open.
    pub open: u64,
}

/// Who pauses a domain, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPause {
    /// Who.
    pub by: WorkerId,
    /// Why, cut like a ledger note.
    pub reason: String,
}

impl NewPause {
    /// A pause by this actor.
    pub fn new(by: &Actor, reason: &str) -> Self {
        Self {
            by: by.name().clone(),
            reason: shorten(reason.to_owned(), MESSAGE_BYTES_MAX),
        }
    }
}

/// Of a program on this machine that gives no reason.
impl Default for NewPause {
    fn default() -> Self {
        Self::new(&Actor::local(), "")
    }
}

/// A pause of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Since when, on the store's clock.
    pub at: Timestamp,
    /// Who paused the domain.
    pub by: WorkerId,
    /// Why; may be empty.
    pub reason: String,
}

/// One domain as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainView {
    /// Its name.
    pub domain: Domain,
    /// While true, no attempt begins.
    pub paused: bool,
    /// Who paused it, when and why. `None`: it is not paused, or an earlier release paused it.
    pub pause: Option<Pause>,
    /// Operations by state and phase.
    pub counts: Counts,
    /// Age of the oldest row that is due for a begin.
    pub oldest_due: Option<Duration>,
    /// The same, by event type.
    pub oldest_due_by_type: BTreeMap<EventType, Duration>,
}

impl DomainView {
    /// Sets the ages of the oldest due rows. An event type may occur several times.
    #[must_use]
    pub fn with_oldest_due(
        mut self,
        ages: impl IntoIterator<Item = (EventType, Duration)>,
    ) -> Self {
        for (event_type, age) in ages {
            let oldest = self.oldest_due_by_type.entry(event_type).or_default();
            *oldest = age.max(*oldest);
        }
        self.oldest_due = self.oldest_due_by_type.values().max().copied();
        self
    }
}
