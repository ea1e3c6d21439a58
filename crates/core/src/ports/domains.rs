//! Domains as operators see them: pauses and counters.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::Counts;
use crate::{Domain, EventType, Result};

/// Pauses, and maintained counters.
#[async_trait]
pub trait Domains: Send + Sync {
    /// Pauses or resumes a domain.
    ///
    /// - A pause blocks begins only: running attempts settle, probes and deadlines continue.
    /// - A domain can be paused before its first operation.
    async fn set_paused(&self, domain: &Domain, paused: bool) -> Result<()>;

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

/// One domain as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainView {
    /// Its name.
    pub domain: Domain,
    /// While true, no attempt begins.
    pub paused: bool,
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
